"""What two packages both have, since no package imports another and the core takes in what three need.

A mend of one that forgets the other fails here.
"""

import inspect
from operator import attrgetter

import pytest
from optim_bas import wire as bas
from optim_rmnp import wire as rmnp


@pytest.mark.parametrize("name", ["bytes_sent", "_COUNTS.format", "_COUNTS_OFFSET"])
def test_the_two_optimizers_count_bytes_alike(name):
    ours, theirs = map(attrgetter(name), (bas, rmnp))
    same = inspect.getsource(ours) == inspect.getsource(theirs) if callable(ours) else ours == theirs
    assert same, f"{name} of optim_bas.wire and of optim_rmnp.wire differ"

"""Random generators by SPEC 7: `rng` is a `numpy.random.Generator`, a seed or None."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from lemmata_core.check import positive_int
from lemmata_core.errors import InvalidInput

if TYPE_CHECKING:
    import torch

    RNGLike = np.random.Generator | np.random.SeedSequence | int | None


def generator(rng: RNGLike = None) -> np.random.Generator:
    """Return the generator that `rng` stands for.

    Parameters
    ----------
    rng : numpy.random.Generator, numpy.random.SeedSequence, int >= 0 or None
        A generator comes back as it is and advances as it is used; an int gives the same stream each time; None
        gives fresh entropy. The legacy `RandomState` and `numpy.random.seed` are not accepted.

    Raises
    ------
    InvalidInput
    """
    if rng is None or isinstance(rng, np.random.SeedSequence):
        return np.random.default_rng(rng)
    if isinstance(rng, np.random.Generator):
        return rng
    seed: Any = rng
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and seed >= 0:
        return np.random.default_rng(int(seed))
    raise InvalidInput.argument("rng", expected="a numpy.random.Generator, an int >= 0 or None", got=rng)


def spawn(rng: RNGLike, n: int) -> list[np.random.Generator]:
    """Return `n` independent generators, whose streams do not depend on how many workers use them.

    Parameters
    ----------
    rng : numpy.random.Generator, int or None
        A generator's seed sequence remembers what it spawned: a second call gives new streams.
    n : int >= 0

    Returns
    -------
    list of numpy.random.Generator
        Child `i` is the same whatever `n` is.
    """
    count = positive_int(n, "n", minimum=0)
    source = generator(rng)
    try:
        return list(source.spawn(count))
    except TypeError:
        # A generator restored from a bare state has no seed sequence to spawn from: draw one from its stream.
        root = np.random.SeedSequence(source.integers(0, 2**32, size=8, dtype=np.uint32).tolist())
        return [np.random.default_rng(child) for child in root.spawn(count)]


def torch_generator(rng: RNGLike = None, device: torch.device | str = "cpu") -> torch.Generator:
    """Return a `torch.Generator` on `device`, seeded from `rng`.

    Parameters
    ----------
    rng : numpy.random.Generator, int or None
        A generator advances by one draw of 63 bits, so that two calls give two streams.
    device : torch.device or str

    Raises
    ------
    InvalidInput
    """
    import torch

    try:
        made = torch.Generator(device=torch.device(device))
    except (OverflowError, RuntimeError, TypeError, ValueError) as err:
        raise InvalidInput.argument("device", expected="a device that torch has here", got=device) from err
    made.manual_seed(int(generator(rng).integers(0, 2**63 - 1)))
    return made

"""What the problems of `testbeds` are made of: texts, digits, and how a batch is drawn from them."""

from __future__ import annotations

import gzip
import importlib.resources
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn import functional

from lemmata_core.check import one_of

CORPORA = ("kjv", "pydoc")


def corpus(name: str = "kjv") -> bytes:
    """A text in English.

    Parameters
    ----------
    name : {"kjv", "pydoc"}
        The opening books of the King James Version (1.09 MB, shipped with this package, public domain), or Python's
        own documentation (``pydoc_data.topics``: another size in every version of Python, so that figures on it are
        not comparable between versions).
    """
    one_of(name, "name", CORPORA)
    if name == "pydoc":
        from pydoc_data.topics import topics

        return "\n".join(topics[key] for key in sorted(topics)).encode()
    packed = importlib.resources.files("lemmata_core") / "data" / "kjv-first-1mb.txt.gz"
    return gzip.decompress(packed.read_bytes())


def windows(tokens: Tensor, context: int, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A batch of pieces of a text, and the same one token later."""
    starts = torch.randint(len(tokens) - context, (batch, 1), generator=generator)
    places = starts + torch.arange(context)
    return tokens[places], tokens[places + 1]


@lru_cache(maxsize=1)
def digits() -> tuple[Tensor, Tensor]:
    """1797 images of 8 x 8 pixels with levels 0 to 16, and their digits, in a fixed shuffled order."""
    import numpy as np
    from sklearn.datasets import load_digits

    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    return torch.tensor(images[order]).view(-1, 8, 8).float(), torch.tensor(labels[order]).long()


def rows(inputs: Tensor, targets: Tensor, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A batch of pairs, drawn with replacement."""
    chosen = torch.randint(len(inputs), (batch,), generator=generator)
    return inputs[chosen], targets[chosen]


def shifted(images: Tensor, labels: Tensor, batch: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """A batch, each image moved by -1, 0 or 1 pixel in both directions; what comes in is background."""
    chosen = torch.randint(len(images), (batch,), generator=generator)
    offset = torch.randint(3, (batch, 2), generator=generator)
    padded = functional.pad(images[chosen], (1, 1, 1, 1), value=-1.0)
    down = (offset[:, :1] + torch.arange(8)).unsqueeze(2)
    across = (offset[:, 1:] + torch.arange(8)).unsqueeze(1)
    return padded[torch.arange(batch).view(-1, 1, 1), down, across], labels[chosen]

"""Modules are measured in evaluation mode, and left as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def measuring(model: object) -> Iterator[None]:
    """Put an nn.Module into evaluation mode, without gradients; every submodule gets its own mode back.

    In training mode dropout would blur predictions, and spectral normalisation would change the module at each call.
    """
    modes = [(m, m.training) for m in model.modules()] if isinstance(model, nn.Module) else []
    if isinstance(model, nn.Module):
        model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for module, mode in modes:
            module.training = mode

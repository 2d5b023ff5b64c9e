"""Signs as bits: packing, unpacking, and the majority. No process groups here."""

from __future__ import annotations

import numpy as np
import torch
from lemmata_core import InvalidInput
from torch import Tensor

# torch stores these and does not compare them.
_UNORDERED = (torch.uint16, torch.uint32, torch.uint64)


def pack_signs(x: Tensor) -> Tensor:
    """Eight signs a byte: bit i of byte j is 1 where entry 8 j + i of the flattened `x` is positive.

    Parameters
    ----------
    x : torch.Tensor
        Any real dtype and shape.

    Returns
    -------
    torch.Tensor
        uint8, shape (ceil(n / 8),); the last byte is filled with zeros.

    Raises
    ------
    InvalidInput
        For what is not a dense tensor of real numbers.
    """
    given: object = x
    if not isinstance(given, Tensor) or given.layout != torch.strided or given.is_complex():
        got = f"{given.dtype} in {given.layout}" if isinstance(given, Tensor) else type(given).__name__
        raise InvalidInput.argument("x", expected="a dense tensor of real numbers", got=got)
    if x.dtype in _UNORDERED:
        return pack_bits(x.bool())
    return pack_bits((x.float() if x.is_floating_point() and x.element_size() == 1 else x) > 0)


def unpack_signs(packed: Tensor, numel: int) -> Tensor:
    """The signs +1 and -1 that `pack_signs` packed (a zero comes back as -1).

    Parameters
    ----------
    packed : torch.Tensor
        uint8, one dimension.
    numel : int
        How many signs.

    Returns
    -------
    torch.Tensor
        int8, shape (numel,).

    Raises
    ------
    InvalidInput
        If `packed` is not so many bytes, or `numel` no count.
    """
    count: object = numel
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise InvalidInput.argument("numel", expected="an int >= 0", got=count)
    bits: object = packed
    if not isinstance(bits, Tensor):
        raise InvalidInput.argument("packed", expected="a tensor of uint8", got=type(packed).__name__)
    return unpack_bits(packed, numel).mul_(2).sub_(1)


def pack_bits(bits: Tensor) -> Tensor:
    """`pack_signs` of truth values."""
    flat = bits.reshape(-1)
    if flat.device.type == "cpu":
        return torch.from_numpy(np.packbits(flat.numpy(), bitorder="little"))
    padded = torch.nn.functional.pad(flat.to(torch.uint8), (0, -len(flat) % 8)).view(-1, 8)
    weights = torch.tensor([1, 2, 4, 8, 16, 32, 64, 128], dtype=torch.uint8, device=flat.device)
    return (padded * weights).sum(dim=1, dtype=torch.uint8)


def unpack_bits(packed: Tensor, numel: int) -> Tensor:
    """The bits as int8, 0 or 1."""
    if packed.dtype != torch.uint8 or packed.ndim != 1 or len(packed) != -(-numel // 8):
        expected = f"{-(-numel // 8)} bytes (uint8, one dimension) for {numel} entries"
        raise InvalidInput.argument("packed", expected=expected, got=f"{packed.dtype} of shape {tuple(packed.shape)}")
    if packed.device.type == "cpu":
        bits = np.unpackbits(packed.contiguous().numpy(), count=numel, bitorder="little")
        return torch.from_numpy(bits.view(np.int8))
    shifts = torch.arange(8, dtype=torch.uint8, device=packed.device)
    return ((packed.unsqueeze(1) >> shifts) & 1).view(-1)[:numel].to(torch.int8)


def majority(signs: Tensor) -> Tensor:
    """The sign of the sum over the first dimension.

    Parameters
    ----------
    signs : torch.Tensor
        int8 in {-1, 0, 1}, shape (workers, n).

    Returns
    -------
    torch.Tensor
        int8, shape (n,); 0 for a tie.
    """
    return signs.sum(dim=0, dtype=torch.int32).sign().to(torch.int8)

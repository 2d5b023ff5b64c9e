"""Categorical value distributions on a fixed support: projection and mean."""

from __future__ import annotations

import torch
from lemmata_core import InvalidInput
from lemmata_core.check import in_range
from torch import Tensor

from rl_mfpo.functional.checks import floats, together


def project_categorical(probs: Tensor, atoms_shifted: Tensor, v_min: float, v_max: float) -> Tensor:
    """Project distributions onto the evenly spaced support of [v_min, v_max].

    Parameters
    ----------
    probs : Tensor, shape (..., n)
        Mass of each moved atom.
    atoms_shifted : Tensor, shape (..., n)
        Where the atoms are, in any order; those outside the support count at its ends.
    v_min, v_max : float
        First and last of the n atoms of the support.

    Returns
    -------
    Tensor, shape (..., n)
        Mass on the support. Total mass is kept, and so is the mean where no atom lies outside.

    Raises
    ------
    InvalidInput
        If ``v_min >= v_max`` or n < 2, and for what are no two tensors of one dtype whose shapes broadcast.
    """
    n = floats(probs, "probs", "(..., n)").shape[-1]
    v_min, v_max = in_range(v_min, "v_min"), in_range(v_max, "v_max")
    if n < 2 or not v_min < v_max:
        got = f"n = {n}, v_min = {v_min}, v_max = {v_max}"
        raise InvalidInput.argument("probs, v_min, v_max", expected="n >= 2 atoms and v_min < v_max", got=got)
    if floats(atoms_shifted, "atoms_shifted", "(..., n)").dtype != probs.dtype or atoms_shifted.shape[-1] != n:
        got = f"{atoms_shifted.dtype} and {atoms_shifted.shape[-1]}"
        raise InvalidInput.argument("atoms_shifted", expected=f"{probs.dtype} and n = {n} atoms, as probs", got=got)
    if probs.shape != atoms_shifted.shape:
        together({"probs": probs.shape, "atoms_shifted": atoms_shifted.shape})
        probs, atoms_shifted = torch.broadcast_tensors(probs, atoms_shifted)
    position = ((atoms_shifted - v_min) * ((n - 1) / (v_max - v_min))).clamp(0, n - 1)
    lower = position.floor()
    share = position - lower
    # The clamp is for NaN alone, which then reaches the masses instead of raising.
    index = lower.long().clamp_(0, n - 1)
    out = torch.zeros_like(probs)
    out.scatter_add_(-1, index, probs * (1 - share))
    return out.scatter_add_(-1, (index + 1).clamp_max(n - 1), probs * share)

"""e3nn's real 3j tensor as a torch tensor."""

from __future__ import annotations

from math import sqrt

import torch
from lemmata_core import InvalidInput

from cg_tensorproduct.coupling import check_degrees, clebsch_gordan, triangle
from cg_tensorproduct.inputs import FLOATS


def wigner_3j(
    l1: int, l2: int, l3: int, *, dtype: torch.dtype = torch.float64, device: torch.device | str | None = None
) -> torch.Tensor:
    """The real, normalised 3j tensor in e3nn's basis: the sum of its squares is one.

    Parameters
    ----------
    l1, l2, l3 : int
        Degrees, any size.
    dtype, device : optional
        Of the result; it is computed in float64.

    Returns
    -------
    Tensor [2 l1 + 1, 2 l2 + 1, 2 l3 + 1]
        Zero if the triangle rule is broken.

    Raises
    ------
    InvalidInput
        If a degree is no integer >= 0 or `dtype` no floating one.
    """
    l1, l2, l3 = check_degrees(l1, l2, l3)
    if dtype not in FLOATS:
        raise InvalidInput.argument("dtype", expected="a floating torch.dtype", got=repr(dtype))
    tensor = clebsch_gordan(l1, l2, l3)
    if triangle(l1, l2, l3):
        tensor /= sqrt(2 * l3 + 1)
    return torch.as_tensor(tensor, dtype=dtype, device=device)

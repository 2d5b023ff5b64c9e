"""A momentum in one byte an entry: codes and scales, rounding that lets the momentum decay, and its randomness."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from lemmata_core import InvalidInput
from torch import Tensor

from optim_bas.checks import check_tensor

ROUNDINGS = ("auto", "nearest", "stochastic")


@dataclass(frozen=True, slots=True)
class Format:
    """An eight-bit float.

    Attributes
    ----------
    mantissa : int
        Stored bits of it.
    largest : float
        The largest finite value, which a block's largest magnitude is scaled to.
    smallest : float
        The smallest normal value.
    """

    mantissa: int
    largest: float
    smallest: float

    @property
    def quantum(self) -> float:
        """Spacing of the values below the smallest normal one."""
        return self.smallest * 2.0**-self.mantissa


FORMATS = {
    torch.float8_e4m3fn: Format(3, 448.0, 2.0**-6),
    torch.float8_e5m2: Format(2, 57344.0, 2.0**-14),
}
MOMENTUM_DTYPES = (*FORMATS, torch.bfloat16, torch.float32)
_MANTISSA_BITS = {torch.float8_e4m3fn: 3, torch.float8_e5m2: 2, torch.bfloat16: 7}
_SMALLEST_SCALE = 2.0**-126


def decay_limit(dtype: torch.dtype) -> float:
    """The largest beta1 for which a momentum rounded to nearest still decays under zero gradients.

    Parameters
    ----------
    dtype : torch.dtype
        One of the momentum's dtypes.

    Returns
    -------
    float
        With k mantissa bits the value 1 + 2^-k rounds back to itself once beta1 times it lies above the midpoint
        1 + 2^-(k+1): 17/18 for float8_e4m3fn, 0.9 for float8_e5m2, 257/258 for bfloat16, 1 for float32. The smallest
        normal value and those below it can stick under any of them: spacing no longer halves there.
    """
    bits = _MANTISSA_BITS.get(dtype)
    return 1.0 if bits is None else (1 + 2.0 ** -(bits + 1)) / (1 + 2.0**-bits)


def is_stochastic(rounding: str, dtype: torch.dtype, beta1: float) -> bool:
    """Whether the momentum is rounded at random: as told, or under "auto" where rounding to nearest would stick."""
    if dtype == torch.float32 or rounding == "nearest":
        return False
    return rounding == "stochastic" or beta1 > decay_limit(dtype)


def scale_of(amax: Tensor, dtype: torch.dtype) -> Tensor:
    """The scale of blocks with these largest magnitudes: 0 for zeros, NaN where a block is not finite."""
    scale = amax / FORMATS[dtype].largest
    scale = torch.where(amax.isfinite(), scale, torch.nan)
    # Below the normal range of float32 a scale has too few bits to divide by.
    return torch.where(scale < _SMALLEST_SCALE, 0.0, scale)


def encode(
    x: Tensor,
    scale: Tensor,
    *,
    dtype: torch.dtype = torch.float8_e4m3fn,
    rounding: str = "nearest",
    generator: torch.Generator | None = None,
) -> Tensor:
    """Round ``x / scale`` to an eight-bit float.

    Parameters
    ----------
    x : torch.Tensor
        Floating point.
    scale : torch.Tensor
        float32, broadcasts against `x`: (rows, 1) against (rows, d). Where it is 0 the codes are 0.
    dtype : {torch.float8_e4m3fn, torch.float8_e5m2}
    rounding : {"nearest", "stochastic"}
        Ties to even; or up or down with probabilities that make it right on average.
    generator : torch.Generator, optional
        For "stochastic", on the device of `x`; torch's default one unless given.

    Returns
    -------
    torch.Tensor
        uint8, the bit patterns; values beyond the largest one become it, NaN stays NaN.

    Raises
    ------
    InvalidInput
    """
    _check_dtype(dtype)
    check_tensor("x", x)
    scale = _fitting_scale(scale, x)
    if generator is not None and not isinstance(generator, torch.Generator):
        raise InvalidInput.argument("generator", expected="None or a torch.Generator", got=generator)
    if rounding not in ("nearest", "stochastic"):
        raise InvalidInput.argument("rounding", expected='"nearest" or "stochastic"', got=rounding)
    noise = None
    if rounding == "stochastic":
        shape = torch.broadcast_shapes(x.shape, scale.shape)
        noise = torch.randint(0, 1 << 32, shape, device=x.device, generator=generator)
    return encode_with(x.float(), scale, dtype, noise)


def encode_with(x: Tensor, scale: Tensor, dtype: torch.dtype, noise: Tensor | None) -> Tensor:
    """`encode` with its randomness given: int64 in [0, 2^32), or None for rounding to nearest."""
    form = FORMATS[dtype]
    # A scale of 0 says that all is below what can be kept; a NaN among it must not vanish.
    y = (x / torch.where(scale == 0, torch.inf, scale)).clamp_(-form.largest, form.largest)
    if noise is None:
        return y.to(dtype).view(torch.uint8)
    magnitude = y.abs()
    drop = 23 - form.mantissa
    low = (noise >> (32 - drop)).to(torch.int32)
    exponent_of_smallest = int(torch.tensor(form.smallest).view(torch.int32)) >> drop
    normal = ((magnitude.view(torch.int32) + low) >> drop) - exponent_of_smallest + (1 << form.mantissa)
    subnormal = torch.floor(magnitude / form.quantum + low * 2.0**-drop)
    code = torch.where(magnitude < form.smallest, subnormal.nan_to_num(0).to(torch.int32), normal)
    code = torch.where(y.isnan(), 0x7F, code) | (y.view(torch.int32) >> 24 & 0x80)
    return code.to(torch.uint8)


def decode(code: Tensor, scale: Tensor, *, dtype: torch.dtype = torch.float8_e4m3fn) -> Tensor:
    """The values of `encode`'s codes.

    Parameters
    ----------
    code : torch.Tensor
        uint8.
    scale : torch.Tensor
        float32, broadcasts against `code`.
    dtype : {torch.float8_e4m3fn, torch.float8_e5m2}

    Returns
    -------
    torch.Tensor
        float32. Exact before the multiplication by `scale`.

    Raises
    ------
    InvalidInput
    """
    _check_dtype(dtype)
    if getattr(code, "dtype", None) != torch.uint8:
        raise InvalidInput.argument("code", expected="a tensor of uint8", got=code)
    scale = _fitting_scale(scale, code)
    values = decode_with(code, torch.ones((), device=code.device), dtype)
    # The two codes of NaN look like 480 to the conversion by bits; no other code does.
    values = torch.where((code & 0x7F == 0x7F) if dtype == torch.float8_e4m3fn else values.isnan(), torch.nan, values)
    return values * scale


def decode_with(code: Tensor, scale: Tensor, dtype: torch.dtype) -> Tensor:
    """`decode` of codes that are not NaN where their scale is not: all that `encode_with` and `scale_of` give."""
    if dtype == torch.float8_e4m3fn and code.device.type == "cpu":
        return _decode_by_bits(code).mul_(scale)
    return code.view(dtype).to(torch.float32) * scale


def _decode_by_bits(code: Tensor) -> Tensor:
    """The float8_e4m3fn of these bits, four times faster than torch 2.15 converts on a CPU.

    Sign and seven bits are put where bfloat16 has them, which makes a number 2^120 too small.
    """
    bits = (code.view(torch.int8).to(torch.int16) << 4) & 0x87F0 - 0x10000
    return bits.view(torch.bfloat16).to(torch.float32).mul_(2.0**120)


def _fitting_scale(scale: Tensor | float, against: Tensor) -> Tensor:
    try:
        made = torch.as_tensor(scale, dtype=torch.float32, device=against.device)
        torch.broadcast_shapes(made.shape, against.shape)
    except (RuntimeError, TypeError, ValueError):
        expected = f"a number or tensor that broadcasts against shape {tuple(against.shape)}"
        got = f"shape {tuple(scale.shape)}" if isinstance(scale, Tensor) else scale
        raise InvalidInput.argument("scale", expected=expected, got=got) from None
    return made


def _check_dtype(dtype: torch.dtype) -> None:
    if dtype not in FORMATS:
        raise InvalidInput.argument("dtype", expected="torch.float8_e4m3fn or torch.float8_e5m2", got=dtype)


_MASK = 0xFFFFFFFF


def stream_key(seed: int, step: int, tensor: int) -> int:
    """The 32-bit key of one tensor's random stream in one step."""
    key = 0
    for word in (seed & _MASK, seed >> 32 & _MASK, step & _MASK, tensor & _MASK):
        key = _mix((key ^ word) + 0x9E3779B9 & _MASK)
    return key


def _mix(x: int) -> int:
    x ^= x >> 16
    x = x * 0x7FEB352D & _MASK
    x ^= x >> 15
    x = x * 0x846CA68B & _MASK
    return x ^ x >> 16


def noise_bits(index: Tensor, key: int) -> Tensor:
    """32 random bits for every index: the same whatever the order, the processes or the sharding.

    Parameters
    ----------
    index : torch.Tensor
        int64.
    key : int
        Of `stream_key`.

    Returns
    -------
    torch.Tensor
        int64 in [0, 2^32).

    Notes
    -----
    Two rounds of C. Wellons' hash "lowbias32" with the key between them.
    """
    x = index & _MASK
    for word in (key, key ^ 0x9E3779B9):
        x = x ^ word
        x = x ^ x >> 16
        x = x * 0x7FEB352D & _MASK
        x = x ^ x >> 15
        x = x * 0x846CA68B & _MASK
        x = x ^ x >> 16
    return x


def round_at_random(x: Tensor, dtype: torch.dtype, noise: Tensor) -> Tensor:
    """Round float32 to bfloat16 or float16, up or down with probabilities that make it right on average.

    Parameters
    ----------
    x : torch.Tensor
        float32.
    dtype : torch.dtype
        bfloat16 or float16.
    noise : torch.Tensor
        Of `noise_bits`, shape of `x`.

    Returns
    -------
    torch.Tensor
        Of `dtype`. Infinities and NaN stay what they are.
    """
    if dtype == torch.bfloat16:
        cut = ((x.view(torch.int32) + (noise >> 16).to(torch.int32)) & -65536).view(torch.float32)
    else:
        _, exponent = torch.frexp(x)
        spacing = torch.ldexp(torch.ones_like(x), exponent.clamp_min(-13) - 11)
        cut = torch.floor(x / spacing + (noise >> 9) * 2.0**-23) * spacing
    return torch.where(x.isfinite(), cut, x).to(dtype)

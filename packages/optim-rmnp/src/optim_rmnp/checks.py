"""What every door that takes numbers asks of them."""

from __future__ import annotations

import math

from lemmata_core import InvalidInput


def check_number(
    name: str, value: object, low: float = 0.0, high: float = math.inf, expected: str = "a finite number >= 0"
) -> None:
    """Refuse what is not a number, or a tensor of one, in [low, high).

    Raises
    ------
    InvalidInput
    """
    try:
        if isinstance(value, (str, bytes)):  # "1e-3", as YAML reads it
            raise TypeError
        number = float(value)  # type: ignore[arg-type]
    except (OverflowError, RuntimeError, TypeError, ValueError):
        raise InvalidInput.argument(name, expected=expected, got=value) from None
    if not low <= number < high:
        raise InvalidInput.argument(name, expected=expected, got=value)

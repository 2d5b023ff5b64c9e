"""What a method may be told, checked before any work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from lemmata_core import InvalidInput, check

BASE = ("pgd", "adam", "graduated", "anneal", "tabu", "mutate", "flip")
METHODS = ("auto", *BASE, "graduated+anneal", "anneal+mutate")
"""Names of methods; any sequence of those of `BASE` joined by ``+`` is one too."""


def check_method(method: Any) -> str:
    """A name of `METHODS`, or names of `BASE` joined by ``+``."""
    if isinstance(method, str) and method != "auto" and all(part in BASE for part in method.split("+")):
        return method
    return str(check.one_of(method, "method", METHODS))


def _number(low: float, high: float = np.inf, *, low_open: bool = False, high_open: bool = False) -> Callable[..., Any]:
    return lambda x, name: check.in_range(x, name, low, high, low_open=low_open, high_open=high_open)


def _count(x: Any, name: str) -> int:
    return check.positive_int(x, name)


def _flag(x: Any, name: str) -> bool:
    if not isinstance(x, bool | np.bool_):
        raise InvalidInput.argument(name, expected="True or False", got=x)
    return bool(x)


def _sigma(x: Any, name: str) -> Any:
    return x if isinstance(x, str) and x == "auto" else check.in_range(x, name, 0.0)


def _betas(x: Any, name: str) -> tuple[float, float]:
    first, second = check.array(x, name, shape=(2,))
    unit = _number(0.0, 1.0, high_open=True)
    return unit(float(first), name), unit(float(second), name)


def _reorder(x: Any, name: str) -> Any:
    return check.one_of(x, name, (None, "rcm"))


CHECKS: Mapping[str, Callable[[Any, str], Any]] = {
    "a": _number(0.0),
    "b": _number(0.0),
    "betas": _betas,
    "cold": _number(0.0, low_open=True),
    "corners": _flag,
    "factored": _flag,
    "hot": _number(0.0, low_open=True),
    "kick": _number(0.0, 1.0),
    "leaps": _flag,
    "lr": _number(0.0, low_open=True),
    "momentum": _number(0.0, 1.0, high_open=True),
    "reorder": _reorder,
    "reset": _flag,
    "rounds": _count,
    "share": _number(0.0, 1.0),
    "sigma": _sigma,
    "step": _number(0.0, low_open=True),
    "tenure": _count,
}


def checked(options: Mapping[str, Any] | None) -> dict[str, Any]:
    """The options, each checked by its name.

    Raises
    ------
    InvalidInput
        On a name that no method reads, or a value outside its range.
    """
    if options is not None and not isinstance(options, Mapping):
        raise InvalidInput.argument("options", expected="a mapping of names to values", got=type(options).__name__)
    out = {}
    for name, value in (options or {}).items():
        check.one_of(name, "options", tuple(CHECKS))
        out[name] = CHECKS[name](value, f"options[{name!r}]")
    return out

"""Task families from TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemmata_core import InvalidInput
from lemmata_core.check import one_of

if TYPE_CHECKING:
    from icl_theory.bayes import Family

KINDS = ("linear", "sparse", "finite", "logistic", "mixture")


def family_from(text: str) -> Family:
    """Make the family of a TOML file, or a plain one of a kind's name.

    A file has ``kind`` and the arguments of that family; ``kind = "mixture"`` has ``[[families]]`` and ``weights``.
    """
    if text in {"linear", "logistic"}:
        return _build({"kind": text, "dim": 1})
    path = Path(text)
    if path.suffix != ".toml":
        raise InvalidInput.argument("family", expected='a .toml file, "linear" or "logistic"', got=text)
    try:
        return _build(tomllib.loads(path.read_text(encoding="utf-8")))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as err:
        raise InvalidInput.argument("family", expected="a TOML file", got=f"{text} ({err})") from err


def _build(table: dict[str, Any]) -> Family:
    from icl_theory import bayes

    rest = dict(table)
    kind = one_of(rest.pop("kind", None), "kind", KINDS)
    if kind == "mixture":
        parts = rest.get("families")
        if not isinstance(parts, list) or not all(isinstance(part, dict) for part in parts):
            raise InvalidInput.argument("families", expected="one [[families]] table or more", got=parts)
        rest["families"] = [_build(part) for part in parts]
    if isinstance(rest.get("features"), list):
        rest["features"] = tuple(rest["features"])
    makers: dict[str, Callable[..., Family]] = {
        "linear": bayes.LinearGaussian,
        "sparse": bayes.SparseLinear,
        "finite": bayes.FiniteTasks,
        "logistic": bayes.LogisticGaussian,
        "mixture": bayes.Mixture,
    }
    try:
        return makers[kind](**rest)
    except TypeError as err:
        raise InvalidInput.argument(
            "family", expected=f"the arguments of {makers[kind].__name__}", got=str(err)
        ) from err

"""Reading protected attributes: labels, several columns, intersections, soft memberships, missing entries."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from lemmata_core import InvalidInput

MISSING = -1
MISSING_RULES = ("error", "ignore", "group")
COMBINE_RULES = ("concat", "intersect")


@dataclass(frozen=True)
class Groups:
    """Checked protected attributes of `n` nodes.

    Attributes
    ----------
    codes : ndarray of int32, shape (n, a)
        Index of the group of each node in each of `a` attributes; -1 where the label is missing.
    labels : tuple of tuple of str
        Names of the groups of each attribute.
    attributes : tuple of str
        Names of the attributes.
    soft : ndarray of float64, shape (n, h), or None
        Row-stochastic memberships; then `codes` holds the likeliest group.
    merged : tuple of str
        Intersectional cells that were too small and stand in "other".
    """

    codes: np.ndarray
    labels: tuple[tuple[str, ...], ...]
    attributes: tuple[str, ...]
    soft: np.ndarray | None = None
    merged: tuple[str, ...] = ()

    @property
    def n(self) -> int:
        """Number of nodes."""
        return int(self.codes.shape[0])

    @property
    def names(self) -> tuple[str, ...]:
        """One name a group, with its attribute in front when there are several."""
        if len(self.labels) == 1:
            return self.labels[0]
        return tuple(f"{a}={v}" for a, values in zip(self.attributes, self.labels) for v in values)

    def subset(self, keep: np.ndarray) -> Groups:
        """The same groups on the nodes where `keep` is true; names stay, even of groups that become empty."""
        return replace(self, codes=self.codes[keep], soft=None if self.soft is None else self.soft[keep])

    def cells(self) -> tuple[np.ndarray, np.ndarray]:
        """Joint cells of all attributes: code of each node (n,) and the attribute codes of each cell (cells, a)."""
        if self.codes.shape[1] == 1:
            code = self.codes[:, 0]
            present = np.flatnonzero(np.bincount(code + 1)) - 1
            place = np.zeros(int(present[-1]) + 2, dtype=np.int32)
            place[present + 1] = np.arange(present.size, dtype=np.int32)
            return place[code + 1], present[:, None]
        present, inverse = np.unique(self.codes, axis=0, return_inverse=True)
        return np.ravel(inverse).astype(np.int32), present


def read_groups(
    groups: Any,
    n: int | None = None,
    *,
    combine: str = "concat",
    missing: str = "error",
    min_group_size: int = 5,
    name: str = "groups",
) -> Groups:
    """Check protected attributes and turn them into codes.

    Parameters
    ----------
    groups : array-like of shape (n,) or (n, a), mapping, pandas Series or DataFrame, or Groups
        Labels of any hashable kind. A 2-D array of floats whose rows are non-negative and sum to 1 holds soft
        memberships (n, h) of one attribute.
    n : int, optional
        Expected number of nodes.
    combine : {"concat", "intersect"}
        Several attributes side by side, or crossed into one.
    missing : {"error", "ignore", "group"}
        What None and NaN (and -1 when "ignore") mean.
    min_group_size : int
        Intersectional cells below it are merged into "other".
    name : str
        The argument's name in messages.

    Returns
    -------
    Groups

    Raises
    ------
    InvalidInput
        Wrong length, missing labels under ``missing="error"``, a declared category without members.
    """
    _one_of(combine, "combine", COMBINE_RULES)
    _one_of(missing, "missing", MISSING_RULES)
    if isinstance(groups, Groups):
        _check_length(groups.n, n, name)
        return groups
    soft = _soft_memberships(groups, name)
    if soft is not None:
        _check_length(soft.shape[0], n, name)
        titles = tuple(str(c) for c in getattr(groups, "columns", range(soft.shape[1])))
        return Groups(np.argmax(soft, axis=1).astype(np.int32)[:, None], (titles,), ("group",), soft)
    columns = _columns(groups, name)
    if not columns:
        raise InvalidInput.argument(name, expected="at least one attribute", got="none")
    codes: list[np.ndarray] = []
    labels: list[tuple[str, ...]] = []
    for title, values, declared in columns:
        _check_length(len(values), n, name)
        code, label = _encode(title if len(columns) > 1 else name, values, declared, missing)
        codes.append(code)
        labels.append(label)
    found = Groups(np.column_stack(codes).astype(np.int32), tuple(labels), tuple(t for t, _, _ in columns))
    return _intersect(found, min_group_size) if combine == "intersect" and len(columns) > 1 else found


def _one_of(value: str, name: str, accepted: tuple[str, ...]) -> None:
    if value not in accepted:
        raise InvalidInput.argument(name, expected=f"one of {', '.join(accepted)}", got=value)


def _check_length(found: int, n: int | None, name: str) -> None:
    if n is not None and found != n:
        raise InvalidInput.argument(name, expected=f"one label for each of the {n} nodes", got=f"{found} labels")
    if found == 0:
        raise InvalidInput.argument(name, expected="at least one label", got="none")


def _soft_memberships(groups: Any, name: str) -> np.ndarray | None:
    """Row-stochastic floats, or None when `groups` holds labels."""
    if isinstance(groups, Mapping):
        return None
    try:
        values = np.asarray(groups)
    except ValueError:
        raise InvalidInput.argument(
            name, expected="a 1-D or 2-D array of labels", got="rows of unequal length"
        ) from None
    if (
        values.ndim != 2
        or not values.size
        or values.shape[1] < 2
        or values.dtype.kind != "f"
        or not np.isfinite(values).all()
    ):
        return None
    if (values < 0).any() or np.abs(values.sum(axis=1) - 1).max() > 1e-8:
        if np.all(values == np.round(values)):
            return None
        raise InvalidInput.argument(
            name, expected="labels, or soft memberships whose rows are non-negative and sum to 1", got="other floats"
        )
    return values.astype(np.float64)


def _columns(groups: Any, name: str) -> list[tuple[str, np.ndarray, list[Any] | None]]:
    """Title, values and declared categories of every attribute."""
    if isinstance(groups, Mapping):
        return [(str(t), _as_column(v, name), _declared(v)) for t, v in groups.items()]
    if hasattr(groups, "columns") and hasattr(groups, "iloc"):
        return [(str(t), _as_column(groups[t], name), _declared(groups[t])) for t in groups.columns]
    values = groups if isinstance(groups, np.ndarray) else _as_array(groups, name)
    if values.ndim == 1:
        return [(str(getattr(groups, "name", None) or "group"), values, _declared(groups))]
    if values.ndim == 2:
        return [(f"attribute{j}", values[:, j], None) for j in range(values.shape[1])]
    raise InvalidInput.argument(name, expected="a 1-D or 2-D array of labels", got=f"shape {values.shape}")


def _as_array(values: Any, name: str) -> np.ndarray:
    if hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy(dtype=object))
    if not isinstance(values, Iterable):
        raise InvalidInput.argument(name, expected="labels, one a node, in a 1-D or 2-D array", got=values)
    plain = list(values)
    # np.asarray([1, None]) and np.asarray(["a", nan]) differ in what they do to the missing entry; object keeps it.
    if plain and not np.isscalar(plain[0]) and plain[0] is not None and not isinstance(plain[0], str):
        return np.array([list(row) for row in plain], dtype=object)
    return np.array(plain, dtype=object)


def _as_column(values: Any, name: str) -> np.ndarray:
    column = values if isinstance(values, np.ndarray) else _as_array(values, name)
    if column.ndim != 1:
        raise InvalidInput.argument(name, expected="1-D columns", got=f"shape {column.shape}")
    return column


def _declared(values: Any) -> list[Any] | None:
    categories = getattr(getattr(values, "dtype", None), "categories", None)
    return None if categories is None else list(categories)


def _encode(
    name: str, values: np.ndarray, declared: list[Any] | None, missing: str
) -> tuple[np.ndarray, tuple[str, ...]]:
    """Codes (n,) with -1 for missing, and the names of the groups in sorted order."""
    absent = _is_missing(values, missing)
    if absent.any() and missing == "error":
        raise InvalidInput.argument(
            name,
            expected='a label for every node (or missing="ignore" or "group")',
            got=f"{int(absent.sum())} missing labels",
        )
    if absent.all():
        raise InvalidInput.argument(name, expected="at least one known label", got="missing labels only")
    known = values[~absent]
    try:
        present, inverse = np.unique(known, return_inverse=True)
    except TypeError:
        present, inverse = np.unique(known.astype(str), return_inverse=True)
    labels = [_text(v) for v in present]
    if declared is not None:
        empty = sorted({_text(v) for v in declared} - set(labels))
        if empty:
            raise InvalidInput.argument(
                name, expected="members in every declared category", got=f"none in {', '.join(empty)}"
            )
    codes = np.full(values.shape[0], MISSING, dtype=np.int32)
    codes[~absent] = inverse
    if missing == "group" and absent.any():
        codes[absent] = len(labels)
        labels.append("missing")
    return codes, tuple(labels)


def _text(value: Any) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _is_missing(values: np.ndarray, missing: str) -> np.ndarray:
    if values.dtype.kind == "O":
        # NaN, NaT and pandas' NA differ from themselves or refuse to say so.
        absent = np.array([v is None or type(v).__name__ == "NAType" or v != v for v in values], dtype=bool)
        if missing == "ignore":
            absent |= np.array([not isinstance(v, str) and bool(v == -1) for v in np.where(absent, 0, values)])
        return absent
    absent = np.isnan(values) if values.dtype.kind == "f" else np.zeros(values.shape, dtype=bool)
    if missing == "ignore" and values.dtype.kind in "if":
        absent |= values == -1
    return absent


def _intersect(groups: Groups, min_group_size: int) -> Groups:
    """Cross all attributes into one, small cells merged into "other"."""
    cell, present = groups.cells()
    incomplete = (present < 0).any(axis=1)
    names = [" & ".join(groups.labels[a][c] for a, c in enumerate(row) if c >= 0) for row in present]
    sizes = np.bincount(cell, minlength=len(names))
    small = (sizes < min_group_size) & ~incomplete
    target = np.full(len(names), MISSING, dtype=np.int32)
    kept = np.flatnonzero(~small & ~incomplete)
    target[kept] = np.arange(kept.size)
    labels = [names[c] for c in kept]
    if small.any():
        target[small] = len(labels)
        labels.append("other")
    title = " & ".join(groups.attributes)
    merged = tuple(names[c] for c in np.flatnonzero(small))
    return Groups(target[cell][:, None], (tuple(labels),), (title,), merged=merged)

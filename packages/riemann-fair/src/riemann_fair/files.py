"""Edge lists, group tables and labels on disk."""

from __future__ import annotations

import csv
import gzip
import io
import re
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.files import atomic_write

_HEADERS = {"source", "target", "from", "to", "u", "v", "src", "dst", "id", "id1", "id2", "node1", "node2", "node_1"}


@dataclass(frozen=True)
class EdgeList:
    """An edge list with the ids as they stood in the file.

    Attributes
    ----------
    ids : ndarray, shape (n,)
        Sorted; integers where all ids are, else strings.
    edges : ndarray of int64, shape (m, 2)
        Positions in `ids`.
    weights : ndarray of float64, shape (m,), or None
    """

    ids: np.ndarray
    edges: np.ndarray
    weights: np.ndarray | None


def _text(path: str | Path) -> str:
    raw = Path(path).read_bytes()
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gzip.decompress(raw)
        except (EOFError, OSError, zlib.error) as err:
            raise InvalidInput.argument(str(path), expected="a whole gzip file", got=str(err)) from err
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as err:
        raise InvalidInput.argument(str(path), expected="UTF-8 text", got=str(err)) from err


def _delimiter(line: str) -> str | None:
    """The separator of a table, quoted cells left aside; None: white space."""
    bare = re.sub(r'"[^"]*"', "", line)
    return next((d for d in (",", "\t", ";") if d in bare), None)


def _rows(text: str, delimiter: str | None) -> Iterable[list[str]]:
    lines = (line for line in io.StringIO(text) if line.strip() and not line.startswith(("#", "%")))
    if delimiter is None:
        return (line.split() for line in lines)
    return ([cell.strip() for cell in row] for row in csv.reader(lines, delimiter=delimiter))


def _table(path: str | Path) -> list[list[str]]:
    """The rows of a table whose first row is a header of different names; all of its length."""
    text = _text(path)
    first = next((line for line in io.StringIO(text) if line.strip() and not line.startswith(("#", "%"))), "")
    rows = list(_rows(text, _delimiter(first)))
    head = rows[0] if rows else []
    twice = next((name for name in head if head.count(name) > 1), None)
    if twice is not None:
        raise InvalidInput.argument(str(path), expected="a header of different names", got=f"{twice} twice")
    for i, row in enumerate(rows[1:], 2):
        if len(row) != len(head):
            raise InvalidInput.argument(str(path), expected=f"{len(head)} columns", got=f"{len(row)} in row {i}")
    return rows


def _number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def read_edges(path: str | Path) -> EdgeList:
    """Read an edge list: two columns of ids, an optional third of weights; comma, tab, semicolon or white space.

    A first line is taken for a header when its names say so, when its weight is no number, or when only the lines
    after it are numbers. Lines that begin with # or % are skipped; ``.gz`` is read as it is.

    Parameters
    ----------
    path : path-like

    Returns
    -------
    EdgeList

    Raises
    ------
    InvalidInput
        No edge, rows of different length, a weight that is no number.
    """
    text = _text(path)
    first = next((line for line in io.StringIO(text) if line.strip() and not line.startswith(("#", "%"))), "")
    rows = list(_rows(text, _delimiter(first)))
    if rows and _is_header(rows):
        rows = rows[1:]
    if not rows:
        raise InvalidInput.argument(str(path), expected="at least one edge", got="none")
    width = len(rows[0])
    if not 2 <= width <= 3 or any(len(row) != width for row in rows):
        bad = next((i for i, row in enumerate(rows) if len(row) != width), 0)
        raise InvalidInput.argument(
            str(path), expected="two ids and an optional weight on every line", got=f"row {bad + 1}: {rows[bad]!r}"
        )
    ends = [row[0] for row in rows], [row[1] for row in rows]
    table = _whole_numbers(ends)
    ids, inverse = np.unique(table, return_inverse=True)
    weights = None
    if width > 2:
        try:
            weights = np.array([row[2] for row in rows], dtype=np.float64)
        except ValueError as err:
            raise InvalidInput.argument(str(path), expected="numbers as weights", got=str(err)) from err
    return EdgeList(ids, inverse.reshape(2, -1).T.astype(np.int64), weights)


def _whole_numbers(ends: tuple[list[str], list[str]]) -> np.ndarray:
    """The ids as integers where that loses nothing, else as they stand: "007" is another node than "7"."""
    texts = np.array(ends)
    try:
        numbers = texts.astype(np.int64)
    except (ValueError, OverflowError):
        return texts
    return numbers if (numbers.astype(texts.dtype) == texts).all() else texts


def _is_header(rows: list[list[str]]) -> bool:
    top = rows[0]
    if {cell.lower() for cell in top[:2]} & _HEADERS and not all(_number(c) for c in top[:2]):
        return True
    if len(top) > 2 and not _number(top[2]):
        return True
    rest = rows[1:50]
    return not all(_number(c) for c in top[:2]) and bool(rest) and all(_number(c) for row in rest for c in row[:2])


@dataclass(frozen=True)
class GroupTable:
    """Attributes of nodes: names of the columns and, for each id as text, its values ("" is missing)."""

    attributes: tuple[str, ...]
    values: dict[str, list[str]]

    def for_ids(self, ids: Sequence[Any]) -> dict[str, list[str | None]]:
        """One column an attribute, aligned with `ids`; None where the node has no row or an empty cell."""
        empty = [""] * len(self.attributes)
        rows = [self.values.get(str(i), empty) for i in ids]
        return {a: [row[j] or None for row in rows] for j, a in enumerate(self.attributes)}


def read_group_table(path: str | Path, attributes: Sequence[str] = ()) -> GroupTable:
    """Read a table with a header: an id column first, then one or more attributes.

    Parameters
    ----------
    path : path-like
    attributes : sequence of str
        Columns to keep; none: all.

    Returns
    -------
    GroupTable

    Raises
    ------
    InvalidInput
        No attribute, an unknown one, an id twice.
    """
    rows = _table(path)
    if len(rows) < 2 or len(rows[0]) < 2:
        raise InvalidInput.argument(str(path), expected="a header, an id column and an attribute", got=f"{rows[:1]!r}")
    head = rows[0]
    wanted = list(attributes) or head[1:]
    unknown = [a for a in wanted if a not in head[1:]]
    if unknown:
        raise InvalidInput.argument("attribute", expected=f"columns of {path} ({', '.join(head[1:])})", got=unknown[0])
    at = [head.index(a) for a in wanted]
    values: dict[str, list[str]] = {}
    for i, row in enumerate(rows[1:], 2):
        if row[0] in values:
            raise InvalidInput.argument(str(path), expected="each id once", got=f"{row[0]} again in row {i}")
        values[row[0]] = [row[j] for j in at]
    return GroupTable(tuple(wanted), values)


def read_features(path: str | Path, groups: Sequence[str]) -> tuple[np.ndarray, dict[str, list[str | None]]]:
    """Features and group columns of a table with a header; ``.parquet`` needs pandas (extra ``frame``).

    Parameters
    ----------
    path : path-like
    groups : sequence of str
        Columns that hold protected attributes; every other column is a feature.

    Returns
    -------
    ndarray of float64, shape (n, features), and dict of str to list

    Raises
    ------
    InvalidInput
        An unknown column, a feature that is no number.
    """
    if Path(path).suffix == ".parquet":
        head, columns = _parquet(path)
    else:
        rows = _table(path)
        head = rows[0] if rows else []
        columns = {c: [row[j] for row in rows[1:]] for j, c in enumerate(head)}
    unknown = [g for g in groups if g not in columns]
    if unknown or not groups:
        raise InvalidInput.argument(
            "groups-column", expected=f"columns of {path} ({', '.join(head)})", got=unknown[0] if unknown else "none"
        )
    try:
        X = np.array([[float(v) for v in columns[c]] for c in head if c not in groups]).T
    except ValueError as err:
        raise InvalidInput.argument(
            str(path), expected="numbers in every column but the groups'", got=str(err)
        ) from err
    if X.ndim != 2 or X.shape[0] < 2:
        raise InvalidInput.argument(str(path), expected="a feature column and two rows at least", got=f"{head!r}")
    if not np.isfinite(X).all():
        raise InvalidInput.argument(str(path), expected="finite numbers as features", got="NaN or infinity")
    return X, {g: [v or None for v in columns[g]] for g in groups}


def _parquet(path: str | Path) -> tuple[list[str], dict[str, list[str]]]:
    try:
        import pandas as pd
    except ImportError as err:
        raise InvalidInput.argument(str(path), expected='the extra "frame" for parquet files', got=str(err)) from err
    try:
        frame = pd.read_parquet(path)
    except (ValueError, ImportError) as err:
        raise InvalidInput.argument(str(path), expected="a parquet file and pyarrow to read it", got=str(err)) from err
    head = [str(c) for c in frame.columns]
    return head, {c: ["" if pd.isna(v) else str(v) for v in frame.iloc[:, j]] for j, c in enumerate(head)}


def read_labels(path: str | Path) -> dict[str, int]:
    """Clusters by id as text, from a table with a header and the columns id and cluster, in any place.

    Raises
    ------
    InvalidInput
        A column that is missing, an id twice, a cluster that is no integer.
    """
    rows = _table(path)
    head = [name.lower() for name in rows[0]] if rows else []
    if "id" not in head or "cluster" not in head:
        raise InvalidInput.argument(str(path), expected="a header with the columns id and cluster", got=f"{head!r}")
    at, of = head.index("id"), head.index("cluster")
    found: dict[str, int] = {}
    for i, row in enumerate(rows[1:], 2):
        if row[at] in found:
            raise InvalidInput.argument(str(path), expected="each id once", got=f"{row[at]} again in row {i}")
        try:
            found[row[at]] = int(row[of])
        except ValueError as err:
            raise InvalidInput.argument(str(path), expected="whole numbers as clusters", got=str(err)) from err
    return found


def write_table(path: str | Path, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> None:
    """Write a CSV, whole or not at all."""
    with atomic_write(path) as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(columns)
        out.writerows(rows)

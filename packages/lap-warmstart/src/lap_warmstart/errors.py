"""Errors of this package; both are `lemmata_core.InvalidInput`, hence `ValueError`."""

from __future__ import annotations

from collections.abc import Sequence

from lemmata_core import InvalidInput


class InvalidDtype(InvalidInput, TypeError):  # noqa: N818 - as its parent
    """A cost matrix of strings, objects or complex numbers. Also a `TypeError`, as SciPy raises."""


class Infeasible(InvalidInput):
    """No complete matching exists: some rows (or columns) compete for too few partners.

    Attributes
    ----------
    rows : tuple of int
        The rows of the Hall violator. They can only be matched to `columns`, which are fewer. Where the columns are
        the short side of the problem, the roles are exchanged.
    columns : tuple of int
        All columns that these rows can reach through finite entries.
    """

    def __init__(self, message: str, rows: Sequence[int] = (), columns: Sequence[int] = ()) -> None:
        super().__init__(message)
        self.rows = tuple(int(i) for i in rows)
        self.columns = tuple(int(j) for j in columns)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (str(self), self.rows, self.columns)

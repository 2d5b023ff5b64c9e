"""How diagonal is M M^T? The measures on which the paper rests its case, beside the baselines that they need."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from lemmata_core import InvalidInput
from lemmata_core.check import one_of, positive_int
from torch import Tensor

from optim_rmnp.describe import format_table
from optim_rmnp.groups import parameter_name
from optim_rmnp.layout import matrix_views, read_layout
from optim_rmnp.row_norm import row_normalize
from optim_rmnp.sharding import is_dtensor, reduction_groups

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 1024  # rows of the Gram matrix at a time: an embedding's whole Gram matrix would not fit in memory


@dataclass(frozen=True, slots=True)
class Dominance:
    """How far the Gram matrix P of a matrix's rows is diagonal.

    Attributes
    ----------
    r_avg, r_min, r_max : float
        Of r_i = P_ii / mean over j != i of |P_ij|. r > 1 is not diagonal dominance, which is r_i > m - 1.
    strict_fraction : float
        Share of rows with P_ii > sum over j != i of |P_ij|.
    gaussian_r : float
        What r_avg tends to for independent Gaussian entries: sqrt(pi n / 2). Correlated rows lie below.
    n_rows : int
        Rows that are not zero; the others are left out.
    """

    r_avg: float
    r_min: float
    r_max: float
    strict_fraction: float
    gaussian_r: float
    n_rows: int


def dominance(matrix: Tensor, *, orientation: str = "rows") -> Dominance:
    """Measure the diagonal dominance of ``M M^T``.

    Parameters
    ----------
    matrix : torch.Tensor
        Shape (m, n), finite. A momentum, as a rule.
    orientation : {"rows", "short"}
        "rows" as the update normalises; "short" transposes a tall matrix first, as the official code measures.

    Returns
    -------
    Dominance
        Computed in float64. With fewer than two non-zero rows r is infinite.

    Raises
    ------
    InvalidInput
        If `matrix` is not a finite matrix with a non-zero entry.

    Notes
    -----
    arXiv 2603.20527, section 3, the ratios r_min, r_avg and r_max.
    """
    one_of(orientation, "orientation", ("rows", "short"))
    m = _finite_matrix(matrix)
    if orientation == "short" and m.shape[0] > m.shape[1]:
        m = m.t()
    m = m[(m != 0).any(dim=1)]
    rows, columns = m.shape
    diagonal = m.square().sum(dim=1)
    others = torch.cat([(part @ m.t()).abs().sum(dim=1) for part in m.split(_CHUNK)]) - diagonal
    others.clamp_min_(0)  # a difference of sums of what may be zero
    # Rounding leaves up to a few ulp of the diagonal where rows are orthogonal.
    others[others < 1e-13 * diagonal] = 0
    r = diagonal * (rows - 1) / others if rows > 1 else torch.full_like(diagonal, math.inf)
    return Dominance(
        r_avg=float(r.mean()),
        r_min=float(r.min()),
        r_max=float(r.max()),
        strict_fraction=float((diagonal > others).double().mean()),
        gaussian_r=math.sqrt(math.pi * columns / 2),
        n_rows=rows,
    )


def polar_alignment(matrix: Tensor) -> float:
    """Cosine between the row-normalised matrix and the polar factor U V^T, which Muon's Newton-Schulz approximates.

    Parameters
    ----------
    matrix : torch.Tensor
        Shape (m, n), finite, not zero.

    Returns
    -------
    float
        1 where the rows are orthogonal. Singular values below the usual numerical rank are left out.

    Raises
    ------
    InvalidInput
    """
    m = _finite_matrix(matrix)
    u, s, vh = torch.linalg.svd(m, full_matrices=False)
    keep = s > s[0] * max(m.shape) * torch.finfo(m.dtype).eps
    polar = u[:, keep] @ vh[keep]
    normalized = row_normalize(m)
    return float((normalized * polar).sum() / (normalized.norm() * polar.norm()))


def _finite_matrix(matrix: Tensor) -> Tensor:
    expected = "a finite floating-point matrix with a non-zero entry"
    given: Any = matrix
    if not isinstance(given, Tensor) or given.ndim != 2 or not given.is_floating_point() or given.is_sparse:
        got = f"{given.dtype} of shape {tuple(given.shape)}" if isinstance(given, Tensor) else given
        raise InvalidInput.argument("matrix", expected=expected, got=got)
    m = matrix.detach().to(torch.float64)
    if not bool(m.isfinite().all()):
        raise InvalidInput.argument("matrix", expected=expected, got="entries that are NaN or infinite")
    if not bool((m != 0).any()):
        raise InvalidInput.argument("matrix", expected=expected, got=f"zeros of shape {tuple(m.shape)}")
    # r and the cosine have no scale; without it squares of small momenta could vanish.
    return m / m.abs().max()


@dataclass(frozen=True, slots=True)
class MatrixRecord:
    """One matrix at one step."""

    name: str
    dominance: Dominance
    alignment: float | None


@dataclass(frozen=True, slots=True)
class StepRecord:
    """What a `DominanceMonitor` saw after a step.

    Attributes
    ----------
    step : int
        Steps since the monitor was attached.
    matrices : tuple of MatrixRecord
    """

    step: int
    matrices: tuple[MatrixRecord, ...]

    def mean(self, field: str) -> float:
        """A field of `Dominance`, averaged over the matrices (as the paper averages r)."""
        values = [float(getattr(record.dominance, field)) for record in self.matrices]
        return sum(values) / len(values) if values else math.nan


class DominanceMonitor:
    """Record the dominance of every momentum of an optimizer as it trains.

    Parameters
    ----------
    optimizer : RMNP
        Watched through a hook after its steps; nothing of it is changed. `torch.optim.Muon` can be watched as well.
    every : int
        Steps between records.
    max_rows : int
        Of a larger matrix, this many rows, evenly spaced, stand for all.
    alignment : bool
        Whether to compute `polar_alignment` too: a singular value decomposition a matrix.

    Attributes
    ----------
    history : list of StepRecord

    Raises
    ------
    InvalidInput
    """

    def __init__(
        self, optimizer: torch.optim.Optimizer, every: int = 100, max_rows: int = 1024, alignment: bool = False
    ) -> None:
        if not isinstance(optimizer, torch.optim.Optimizer):
            raise InvalidInput.argument("optimizer", expected="a torch.optim.Optimizer", got=optimizer)
        self._every = positive_int(every, "every")
        self._max_rows = positive_int(max_rows, "max_rows", minimum=2)
        self._alignment = alignment
        self._steps = 0
        self.history: list[StepRecord] = []
        self._hook = optimizer.register_step_post_hook(self._after_step)

    def detach(self) -> None:
        """Stop watching; the history stays."""
        self._hook.remove()

    def to_table(self) -> str:
        """The history as text: one line a matrix and step."""
        head = ("matrix", "step", "r_avg", "r_min", "r_max", "strict", "gaussian r", "cosine to polar")
        rows = [
            (
                record.name,
                str(step.step),
                *(f"{x:.3g}" for x in (d.r_avg, d.r_min, d.r_max, d.strict_fraction, d.gaussian_r)),
                "-" if record.alignment is None else f"{record.alignment:.3f}",
            )
            for step in self.history
            for record in step.matrices
            for d in (record.dominance,)
        ]
        return format_table(head, rows)

    def _after_step(self, optimizer: torch.optim.Optimizer, _args: Any, _kwargs: Any) -> None:
        self._steps += 1
        if self._steps % self._every == 0:
            records = (self._measure(name, matrix) for name, matrix in momentum_matrices(optimizer))
            self.history.append(StepRecord(self._steps, tuple(r for r in records if r is not None)))

    def _measure(self, name: str, matrix: Tensor) -> MatrixRecord | None:
        rows = matrix.shape[0]
        if rows > self._max_rows:
            matrix = matrix[torch.arange(self._max_rows, device=matrix.device) * rows // self._max_rows]
        if not bool(matrix.isfinite().all()) or not bool((matrix != 0).any()):
            return None  # diverged, or no gradient yet: there is no direction to measure
        return MatrixRecord(name, dominance(matrix), polar_alignment(matrix) if self._alignment else None)


def momentum_matrices(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor]]:
    """Names and momenta (rows, fan-in) of an optimizer's matrices; of stacked ones and experts each for itself.

    Of a sharded parameter whose rows are whole, the rows held here; if its rows are cut, it is gathered.
    """
    for group in optimizer.param_groups:
        if group.get("algorithm", "rmnp") != "rmnp":
            continue
        for position, param in enumerate(group["params"]):
            momentum = optimizer.state.get(param, {}).get("momentum_buffer")
            if momentum is None or param.ndim < 2:
                continue
            name = parameter_name(group, position)
            layout = read_layout(param.shape, group, name)
            if is_dtensor(momentum):
                momentum = momentum.full_tensor() if reduction_groups(param, layout.input_dims) else momentum.to_local()
            views = matrix_views(momentum.contiguous(), layout)
            if momentum.shape == param.shape:  # a shard's rows are not all of any one matrix
                views = [part for view in views for part in view.split(layout.rows)]
            for index, view in enumerate(views):
                yield (name if len(views) == 1 else f"{name}[{index}]"), view

"""Pictures of solutions (extra `plot`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    try:
        from matplotlib.figure import Figure
    except ImportError as err:
        raise InvalidInput.argument("ax", expected="the extra qubo-relax[plot]", got="no matplotlib") from err
    return Figure(figsize=(6, 4), layout="constrained").subplots()


def check_ending(path: Any) -> None:
    """Refuse a name whose ending matplotlib cannot write, before anything is computed for it."""
    from pathlib import Path

    from matplotlib.backend_bases import FigureCanvasBase

    known = FigureCanvasBase.get_supported_filetypes()
    ending = Path(path).suffix.lstrip(".").lower()
    if ending and ending not in known:
        raise InvalidInput.argument("plot", expected=f"a name ending in one of {', '.join(known)}", got=str(path))


def save(ax: Any, path: Any) -> None:
    """Write the figure of an axes; the ending chooses the format. The file appears only when whole."""
    from pathlib import Path

    from lemmata_core.files import atomic_write

    p = Path(path)
    with atomic_write(p, "wb") as file:
        ax.figure.savefig(file, format=p.suffix.lstrip(".") or "svg")


def plot_tour(problem: Any, tour: Any, ax: Any = None, coordinates: ArrayLike | None = None) -> Any:
    """The closed tour; without coordinates the cities are placed by classical scaling of the distances."""
    ax = _axes(ax)
    xy = _scaled(np.asarray(problem.distances)) if coordinates is None else np.asarray(coordinates)
    closed = np.append(tour, tour[:1])
    ax.plot(*xy[closed].T, "o-", ms=4)
    ax.set_aspect("equal")
    ax.set_axis_off()
    ax.set_title(f"{len(tour)} cities, length {problem.objective(tour):g}")
    return ax


def _scaled(d: NDArray[np.float64]) -> NDArray[np.float64]:
    n = len(d)
    J = np.eye(n) - 1 / max(n, 1)
    values, vectors = np.linalg.eigh(-0.5 * J @ (((d + d.T) / 2) ** 2) @ J)
    return np.asarray(vectors[:, -2:] * np.sqrt(np.maximum(values[-2:], 0))) if n > 1 else np.zeros((n, 2))


def plot_pit(problem: Any, solution: Any, ax: Any = None, *, width: int | None = None) -> Any:
    """Blocks taken, by level of precedence; `width` gives the columns of a section."""
    from qubo_relax.precedence import levels

    ax = _axes(ax)
    level = levels(problem.n, np.asarray(problem.arcs))
    if width is None:
        column = np.empty(problem.n)
        for k in np.unique(level):
            row = np.flatnonzero(level == k)
            column[row] = np.arange(row.size) - row.size / 2
    else:
        column = (np.arange(problem.n) % width).astype(float)
        level = np.arange(problem.n) // width
    s = np.asarray(solution)
    shade = s.astype(float) if problem.periods is None else np.where(s < 0, np.nan, s + 1.0)
    value = np.asarray(problem.value)
    ax.scatter(
        column, -level, c=value, marker="s", s=14, cmap="RdBu", vmin=-np.abs(value).max(), vmax=np.abs(value).max()
    )
    taken = shade > 0
    ax.scatter(column[taken], -level[taken], marker="s", s=30, facecolors="none", edgecolors="black", linewidths=0.6)
    ax.set_axis_off()
    ax.set_title(f"{int(taken.sum())} of {problem.n} blocks, value {problem.objective(solution):g}")
    return ax


def plot_cut(problem: Any, side: Any, ax: Any = None) -> Any:
    """The weights, vertices sorted by side: what is off the two diagonal blocks is cut."""
    ax = _axes(ax)
    order = np.argsort(np.asarray(side), kind="stable")
    W = problem.weights.matrix().tocoo()
    place = np.empty(problem.n, dtype=np.int64)
    place[order] = np.arange(problem.n)
    i, j = W.coords
    ax.scatter(place[j], place[i], c=W.data, s=2, cmap="coolwarm")
    at = problem.n - int(np.asarray(side).sum()) - 0.5
    ax.axhline(at, color="black", lw=0.8)
    ax.axvline(at, color="black", lw=0.8)
    ax.invert_yaxis()
    ax.set_aspect("equal")
    ax.set_title(f"cut {problem.objective(side):g}")
    return ax


def plot_energies(result: Any, ax: Any = None) -> Any:
    """Histogram of the samples' energies."""
    ax = _axes(ax)
    ax.hist(result.energies, bins=min(30, max(5, len(result.energies) // 2)))
    ax.axvline(result.energy, color="black", lw=1)
    ax.set_xlabel("energy")
    ax.set_ylabel("samples")
    return ax

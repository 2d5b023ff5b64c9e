"""Row features of the dual network, from one list of the cheapest doubly reduced costs of each row.

With ``R_ij = c_ij - colmin_j - r1_i``, ``r1_i = min_j (c_ij - colmin_j)``, additive row and column potentials drop out;
divided by the median of the rows' 8th smallest R, so do scale and (largely) size. One list of 16 columns a row serves
the features, the network's messages and the restricted Min-Trick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lap_warmstart.simd import fmin, kernel, pick, summing

LISTED = 16
SAMPLE = 64
ROWS_A_SLICE = 2048
NAMES = (
    "min", "max", "mean", "std", "mad", "entropy", "gap", "relative gap", "mean of 10", "std of 10", "difficulty",
    "share near min", "column minima held", "reduced min", "R2", "R4", "R8", "R16", "mean of 8", "load first",
    "load mean", "load max", "load min", "log reduced min", "log R2", "log R4", "log R8", "log mean of 8",
)  # fmt: skip
POSITIONS = tuple(f"{f}{w}" for w in (1, 2, 4, 8) for f in ("sin", "cos"))


@dataclass(frozen=True)
class RowFeatures:
    """What the network sees of a matrix.

    Attributes
    ----------
    x : ndarray of float32 (n, F)
        Features in the order of `NAMES` (then `POSITIONS`, if asked for).
    reduced : ndarray of float32 (n, k)
        The smallest R of each row, ascending, in units of `scale`.
    columns : ndarray of int32 (n, k)
        Their columns.
    base : ndarray of float64 (n,)
        r1, to which a prediction is added.
    scale : float
        The unit of predictions and of `reduced`.
    """

    x: NDArray[np.float32]
    reduced: NDArray[np.float32]
    columns: NDArray[np.int32]
    base: NDArray[np.float64]
    scale: float


@summing
def row_statistics(c, low, picked, out, part):
    """Write (min, max, mean, std) of the finite ``c - low`` of each row, and the entries of the `picked` columns."""
    m = c.shape[1]
    for i in range(c.shape[0]):
        row = c[i]
        least = np.inf
        most = np.inf
        total = 0.0
        squares = 0.0
        count = 0
        for j in range(m):
            t = np.float64(row[j]) - low
            finite = t < np.inf
            least = fmin(t, least)
            most = fmin(pick(finite, -t, np.inf), most)
            t = pick(finite, t, 0.0)
            total += t
            squares += t * t
            count += finite
        mean = total / max(count, 1)
        out[i, 0] = least if count else 0.0
        out[i, 1] = -most if count else 0.0
        out[i, 2] = mean
        out[i, 3] = np.sqrt(max(squares / max(count, 1) - mean * mean, 0.0))
        for k in range(picked.size):
            part[i, k] = np.float64(row[picked[k]]) - low


@kernel
def smallest(ptr, col, val, v, low, k, reduced, columns):
    """Write the `k` smallest ``val - v - low`` of each row, ascending; a short row repeats its last entry."""
    for i in range(ptr.size - 1):
        count = 0
        for e in range(ptr[i], ptr[i + 1]):
            j = col[e]
            t = val[e] - v[j] - low[i]
            last = k - 1
            if count == k and (t > reduced[i, last] or (t == reduced[i, last] and j > columns[i, last])):
                continue
            q = count if count < k else last
            # Ties go by column, so that the list does not depend on the order of the rows.
            while q > 0 and (reduced[i, q - 1] > t or (reduced[i, q - 1] == t and columns[i, q - 1] > j)):
                reduced[i, q] = reduced[i, q - 1]
                columns[i, q] = columns[i, q - 1]
                q -= 1
            reduced[i, q] = t
            columns[i, q] = j
            if count < k:
                count += 1
        for q in range(count, k):
            reduced[i, q] = reduced[i, count - 1] if count else 0.0
            columns[i, q] = columns[i, count - 1] if count else 0


def row_features(
    c: NDArray[Any], minima: NDArray[np.float64], *, positional: bool = False, listed: int = LISTED
) -> RowFeatures:
    """Compute the features of a C-ordered matrix.

    Parameters
    ----------
    c : ndarray (n, m)
    minima : ndarray of float64 (m,)
        Column minima, finite.
    positional : bool
        Append the published sine and cosine features of the row's place, which break equivariance under row
        permutations.
    listed : int
        Columns listed for each row, at least 16; the features read the first 16.
    """
    from lap_warmstart.core import select

    n, m = c.shape
    ptr = np.zeros(n + 1, dtype=np.int64)
    wide = min(2 * listed, max(m // 2, 1))
    col, val = np.empty(2 * wide * n, dtype=np.int32), np.empty(2 * wide * n)
    base = np.empty(n)
    width = 0.0
    for start in range(0, n, ROWS_A_SLICE):
        width = select(c, minima, wide, start, min(n, start + ROWS_A_SLICE), ptr, col, val, base, width)
    reduced, columns = np.zeros((n, listed)), np.zeros((n, listed), dtype=np.int32)
    base = np.where(np.isfinite(base), base, 0.0)
    smallest(ptr, col, val, minima, base, listed, reduced, columns)
    scale = float(np.median(reduced[:, min(7, m - 1)]))
    if not scale > 0.0:
        scale = float(reduced.max()) or 1.0
    rows = _row_block(c, minima, reduced, columns, base)
    reduced /= scale
    blocks = [rows, _competition(reduced, columns, base / scale, m)]
    if positional:
        angle = 2.0 * np.pi * np.arange(n) / max(n - 1, 1)
        blocks.append(np.column_stack([f(w * angle) for w in (1, 2, 4, 8) for f in (np.sin, np.cos)]))
    x = np.clip(np.nan_to_num(np.hstack(blocks), nan=0.0), -1e6, 1e6)
    return RowFeatures(x.astype(np.float32), reduced.astype(np.float32), columns, base, scale)


def _row_block(
    c: NDArray[Any], minima: NDArray[Any], reduced: NDArray[Any], columns: NDArray[Any], base: NDArray[Any]
) -> NDArray[np.float64]:
    """Return the published statistics on ``(c - min c) / s``, s the median of a sample: free of shift and scale.

    `reduced` are the listed reduced costs in units of the costs.
    """
    n, m = c.shape
    low = float(minima.min())
    picked = np.linspace(0, m - 1, min(SAMPLE, m)).astype(np.int64)
    stats, part = np.empty((n, 4)), np.empty((n, picked.size))
    for start in range(0, n, ROWS_A_SLICE):
        rows = slice(start, start + ROWS_A_SLICE)
        row_statistics(c[rows], low, picked, stats[rows], part[rows])
    finite = part[np.isfinite(part)]
    s = float(np.median(finite)) if finite.size else 1.0
    s = s if s > 0.0 else 1.0
    stats /= s
    least, most, mean, std = stats.T
    part = np.where(np.isfinite(part), part / s, most[:, None]).astype(np.float32)
    mad = _middle(np.abs(part - _middle(part)[:, None]))
    part -= least[:, None].astype(np.float32)
    weights = np.exp(-part)
    total = weights.sum(axis=1)
    entropy = np.log(total) + (weights * part).sum(axis=1) / total
    own = slice(0, min(10, columns.shape[1]))
    listed = np.sort((reduced[:, own] + minima[columns[:, own]] + base[:, None] - low) / s, axis=1)
    gap = listed[:, 1] - listed[:, 0]
    spread = most - least
    held = (reduced[:, :LISTED] + base[:, None] <= 0.0).sum(axis=1)
    return np.column_stack(
        [
            least, most, mean, std, mad, entropy, gap, gap / (spread + 1e-9), listed.mean(axis=1), listed.std(axis=1),
            np.log((m - 1) / (spread + 1e-9) + 1.0), (part <= 0.1).mean(axis=1), held,
        ]
    )  # fmt: skip


def _middle(part: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the median of each row; a sort of float32 rows is several times faster than `np.median`."""
    width = part.shape[1]
    ordered = np.sort(part, axis=1)
    return np.asarray(0.5 * (ordered[:, (width - 1) // 2] + ordered[:, width // 2]))


def _competition(reduced: NDArray[Any], columns: NDArray[Any], base: NDArray[Any], m: int) -> NDArray[np.float64]:
    """Return how close a row's best columns are and how many rows want them."""
    load = np.bincount(columns[:, :8].ravel(), minlength=m)[columns[:, :8]].astype(np.float64)
    eight = reduced[:, :8].mean(axis=1)
    chosen = [base, reduced[:, 1], reduced[:, 3], reduced[:, 7]]
    logs = [np.log(np.abs(t) + 1e-4) for t in (*chosen, eight)]
    loads = [load[:, 0], load.mean(axis=1), load.max(axis=1), load.min(axis=1)]
    return np.column_stack([*chosen, reduced[:, 15], eight, *loads, *logs])

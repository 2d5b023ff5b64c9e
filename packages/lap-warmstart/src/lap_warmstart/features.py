"""Row features of the dual network, from one list of the cheapest doubly reduced costs of each row.

With ``R_ij = c_ij - colmin_j - r1_i``, ``r1_i = min_j (c_ij - colmin_j)``, additive row and column potentials drop out;
divided by the median of the rows' 8th smallest R, so do scale and (largely) size. One list of 16 columns a row serves
the features, the network's messages and the restricted Min-Trick.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from lap_warmstart.simd import fmin, pick

LISTED = 16
SAMPLE = 64
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
    reduced : ndarray of float32 (n, 16)
        The smallest R of each row, ascending, in units of `scale`.
    columns : ndarray of int32 (n, 16)
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


@njit(cache=True, nogil=True, fastmath={"reassoc"})
def row_statistics(c, low, inverse, out):
    """Write (min, max, mean, std) of the finite entries of each row, as ``(c - low) * inverse``."""
    m = c.shape[1]
    for i in range(c.shape[0]):
        row = c[i]
        least = np.inf
        most = np.inf
        total = 0.0
        squares = 0.0
        count = 0
        for j in range(m):
            t = (np.float64(row[j]) - low) * inverse
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


@njit(cache=True, nogil=True)
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


def row_features(c: NDArray[Any], minima: NDArray[np.float64], *, positional: bool = False) -> RowFeatures:
    """Compute the features of a C-ordered matrix.

    Parameters
    ----------
    c : ndarray (n, m)
    minima : ndarray of float64 (m,)
        Column minima, finite.
    positional : bool
        Append the published sine and cosine features of the row's place, which break equivariance under row
        permutations.
    """
    from lap_warmstart.core import select

    n, m = c.shape
    ptr = np.zeros(n + 1, dtype=np.int64)
    wide = min(2 * LISTED, max(m // 2, 1))
    col, val = np.empty(2 * wide * n, dtype=np.int32), np.empty(2 * wide * n)
    base = np.empty(n)
    select(c, minima, wide, 0, n, ptr, col, val, base, 0.0)
    reduced, columns = np.zeros((n, LISTED)), np.zeros((n, LISTED), dtype=np.int32)
    base = np.where(np.isfinite(base), base, 0.0)
    smallest(ptr, col, val, minima, base, LISTED, reduced, columns)
    scale = float(np.median(reduced[:, min(7, m - 1)]))
    if not scale > 0.0:
        scale = float(reduced.max()) or 1.0
    reduced /= scale
    blocks = [_row_block(c, minima, columns), _competition(reduced, columns, base / scale, m)]
    if positional:
        angle = 2.0 * np.pi * np.arange(n) / max(n - 1, 1)
        blocks.append(np.column_stack([f(w * angle) for w in (1, 2, 4, 8) for f in (np.sin, np.cos)]))
    x = np.nan_to_num(np.hstack(blocks), nan=0.0, posinf=1e6, neginf=-1e6)
    return RowFeatures(x.astype(np.float32), reduced.astype(np.float32), columns, base, scale)


def _row_block(c: NDArray[Any], minima: NDArray[Any], columns: NDArray[Any]) -> NDArray[np.float64]:
    """Return the published statistics on ``(c - min c) / s``, s the median of a sample: free of shift and scale."""
    m = c.shape[1]
    low = float(minima.min())
    part = c[:, np.linspace(0, m - 1, min(SAMPLE, m)).astype(np.int64)] - low
    finite = part[np.isfinite(part)]
    s = float(np.median(finite)) if finite.size else 1.0
    s = s if s > 0.0 else 1.0
    stats = np.empty((c.shape[0], 4))
    row_statistics(c, low, 1.0 / s, stats)
    least, most, mean, std = stats.T
    part = part / s
    part = np.where(np.isfinite(part), part, most[:, None])
    mad = np.median(np.abs(part - np.median(part, axis=1, keepdims=True)), axis=1)
    weights = np.exp(-(part - least[:, None]))
    weights /= weights.sum(axis=1, keepdims=True)
    entropy = -(weights * np.log(weights + 1e-300)).sum(axis=1)
    listed = np.take_along_axis(c, columns[:, :10].astype(np.int64), axis=1).astype(np.float64)
    listed = np.sort((np.where(np.isfinite(listed), listed, low) - low) / s, axis=1)
    gap = listed[:, 1] - listed[:, 0]
    spread = most - least
    held = (np.take_along_axis(c, columns.astype(np.int64), axis=1) <= minima[columns]).sum(axis=1)
    return np.column_stack(
        [
            least, most, mean, std, mad, entropy, gap, gap / (spread + 1e-9), listed.mean(axis=1), listed.std(axis=1),
            np.log((m - 1) / (spread + 1e-9) + 1.0), (part <= least[:, None] + 0.1).mean(axis=1), held,
        ]
    )  # fmt: skip


def _competition(reduced: NDArray[Any], columns: NDArray[Any], base: NDArray[Any], m: int) -> NDArray[np.float64]:
    """Return how close a row's best columns are and how many rows want them."""
    load = np.bincount(columns[:, :8].ravel(), minlength=m)[columns[:, :8]].astype(np.float64)
    eight = reduced[:, :8].mean(axis=1)
    chosen = [base, reduced[:, 1], reduced[:, 3], reduced[:, 7]]
    logs = [np.log(np.abs(t) + 1e-4) for t in (*chosen, eight)]
    loads = [load[:, 0], load.mean(axis=1), load.max(axis=1), load.min(axis=1)]
    return np.column_stack([*chosen, reduced[:, 15], eight, *loads, *logs])

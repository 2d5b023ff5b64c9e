"""All vertices of the unit box, chunk by chunk."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from qubo_relax.qubo import minimum_threshold

if TYPE_CHECKING:
    from qubo_relax.qubo import Qubo

_CHUNK_BITS = 16


def vertices(n: int, bits: int = _CHUNK_BITS) -> Any:
    """Yield all binary points of length `n` in chunks of ``2^bits`` rows (int8), in lexicographic order."""
    chunk = min(n, bits)
    tail = (np.arange(1 << chunk)[:, None] >> np.arange(chunk)[::-1]) & 1
    for head in range(1 << (n - chunk)):
        X = np.empty((1 << chunk, n), dtype=np.int8)
        X[:, : n - chunk] = (head >> np.arange(n - chunk)[::-1]) & 1
        X[:, n - chunk :] = tail
        yield X


def vertex_minima(qubo: Qubo) -> Any:
    """Yield ``(vertices, mask)`` chunk by chunk, the mask telling local minimizers."""
    threshold = minimum_threshold(qubo)
    dense = qubo.quadratic.toarray()
    bend = np.zeros(qubo.n) if qubo.diagonal is None else qubo.diagonal
    for X in vertices(qubo.n):
        P = X.astype(np.float64)
        # The inward slope of a kept diagonal d is the flip gain minus d at either end.
        slope = (1 - 2 * P) * (qubo.linear + P @ dense + bend) - bend
        yield X, (slope > threshold).all(axis=1)

"""RowDualNet: predicts a row's dual from that row and its 16 cheapest columns. NumPy inference; no torch needed.

Source: arXiv 2605.09382 (memory linear in n beyond the matrix); the inputs on doubly reduced costs are ours.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.files import DAMAGED, atomic_write
from numpy.typing import NDArray

from lap_warmstart.features import LISTED, NAMES, POSITIONS, RowFeatures, row_features

Weights = dict[str, NDArray[np.float32]]
CLIP = 6.0
# Rows at a time in the edge network, so that its hidden layer stays in the cache.
BLOCK = 256
NEEDED = ("mu", "sd", "inputs.0.weight", "early.weight", "edge.0.weight", "mix.weight", "head.2.weight")


def gelu(x: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return GELU in its tanh form."""
    inner = x * x
    inner *= np.float32(0.044715 * 0.7978845608)
    inner += np.float32(0.7978845608)
    inner *= x
    np.tanh(inner, out=inner)
    inner += np.float32(1.0)
    inner *= x
    inner *= np.float32(0.5)
    return inner


def _norm(x: NDArray[np.float32], w: Weights, name: str) -> NDArray[np.float32]:
    x = x - x.mean(axis=-1, keepdims=True)
    x /= np.sqrt((x * x).mean(axis=-1, keepdims=True) + np.float32(1e-5))
    return x * w[f"{name}.weight"] + w[f"{name}.bias"]


def _linear(x: NDArray[np.float32], w: Weights, name: str) -> NDArray[np.float32]:
    return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]


def column_minima(
    reduced: NDArray[np.float32], columns: NDArray[np.int32], u: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return the Min-Trick over listed edges only, looked up for each edge: shape (n, k)."""
    v = np.full(int(columns.max()) + 1, np.inf, dtype=np.float32)
    np.minimum.at(v, columns.ravel(), (reduced - u[:, None]).ravel())
    return v[columns]


@dataclass(frozen=True)
class RowDualNet:
    """A trained network.

    Attributes
    ----------
    weights : dict of str to ndarray of float32
        As torch names them, with ``mu`` and ``sd`` of the features.
    record : dict
        How it was trained: command, seed, families, sizes, epochs, loss.
    """

    weights: Weights
    record: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> RowDualNet:
        """Read a network from an .npz file; the bundled one when `path` is None."""
        if path is None:
            return bundled()
        try:
            with Path(path).open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: archive[name] for name in archive.files}
            record = json.loads(str(arrays.pop("record"))) if "record" in arrays else {}
        except DAMAGED as err:
            raise InvalidInput.argument("path", expected="an .npz file written by save", got=f"{path}: {err}") from err
        if any(name not in arrays for name in NEEDED) or arrays["mu"].size not in (len(NAMES), len(NAMES + POSITIONS)):
            raise InvalidInput.argument("path", expected="weights of a RowDualNet", got=f"{path}")
        return cls({name: np.asarray(a, dtype=np.float32) for name, a in arrays.items()}, record)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the network to an .npz file, whole or not at all."""
        with atomic_write(path, "wb") as file:
            np.savez_compressed(file, record=np.array(json.dumps(self.record)), **self.weights)  # type: ignore[arg-type]

    @property
    def positional(self) -> bool:
        """Whether it reads the rows' places."""
        return bool(self.record.get("positional", False))

    @property
    def listed(self) -> int:
        """How many of a row's cheapest columns it reads."""
        return int(self.record.get("listed", LISTED))

    def forward(self, features: RowFeatures) -> NDArray[np.float32]:
        """Return the predictions of `features` in units of its scale, before they are added to its base: (n,)."""
        w = self.weights
        x = np.clip((features.x - w["mu"]) / w["sd"], -CLIP, CLIP)
        x = _norm(gelu(_linear(x, w, "inputs.0")), w, "inputs.2")
        block = 0
        while f"blocks.{block}.0.weight" in w:
            x = _norm(
                x + _linear(gelu(_linear(x, w, f"blocks.{block}.0")), w, f"blocks.{block}.2"), w, f"norms.{block}"
            )
            block += 1
        early = _linear(x, w, "early")[:, 0]
        reduced = np.minimum(features.reduced, np.float32(50.0))
        v = column_minima(reduced, features.columns, early)
        slack = reduced - early[:, None] - v
        weight = np.exp(-slack)
        weight /= weight.sum(axis=1, keepdims=True)
        rank = np.broadcast_to(np.arange(slack.shape[1], dtype=np.float32) / slack.shape[1], slack.shape)
        mixed = np.empty((slack.shape[0], w["edge.0.bias"].size), dtype=np.float32)
        for start in range(0, slack.shape[0], BLOCK):
            rows = slice(start, start + BLOCK)
            edges = np.stack([slack[rows], np.log(slack[rows] + np.float32(1e-3)), v[rows], rank[rows]], axis=-1)
            hidden = gelu(_linear(edges, w, "edge.0"))
            mixed[rows] = np.matmul(weight[rows, None, :], hidden)[:, 0]
        message = _linear(mixed, w, "edge.2")
        x = x + _norm(message, w, "mix")
        out = early + _linear(gelu(_linear(x, w, "head.0")), w, "head.2")[:, 0]
        return np.asarray(out - out.mean(), dtype=np.float32)

    def predict_rows(self, c: NDArray[Any], minima: NDArray[np.float64]) -> NDArray[np.float64]:
        """Predict row duals of a C-ordered matrix whose column minima are known: (n,)."""
        features = row_features(c, minima, positional=self.positional, listed=self.listed)
        return features.base + features.scale * self.forward(features)

    def predict(self, cost: NDArray[Any]) -> NDArray[np.float64]:
        """Predict row duals of `cost` (n, m), to be minimised."""
        from lap_warmstart.problem import for_kernels, numeric

        c = for_kernels(np.ascontiguousarray(numeric(cost)[0]))
        if c.size == 0:
            raise InvalidInput.argument("cost", expected="at least one row and one column", got=f"shape {c.shape}")
        low = c.min(axis=0).astype(np.float64)
        if np.isnan(low).any() or np.isneginf(low).any():
            raise InvalidInput.argument("cost", expected="no NaN, no -inf", got="one of them")
        return self.predict_rows(c, np.where(np.isfinite(low), low, 0.0))


@functools.cache
def bundled() -> RowDualNet:
    """Return the network in the package."""
    file = resources.files("lap_warmstart") / "models" / "rowdualnet-small.npz"
    with resources.as_file(file) as path:
        if not Path(path).exists():
            raise InvalidInput.argument("warm_start", expected="the bundled network", got="no model in this install")
        return RowDualNet.load(path)

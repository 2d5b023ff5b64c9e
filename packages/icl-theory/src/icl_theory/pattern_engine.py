"""One-layer models in the basis of patterns: exact, and several times faster than on dense tokens.

Tokens are sparse combinations of the rows of `Pt` (patterns and the label axis), so the model acts only through
K = Pt W_B^T W_C Pt^T and Pt w. Gradients follow by the chain rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from icl_theory.prompts import Coefficients, PromptSpec, basis, outlier_rows

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from icl_theory.patterns import PatternBank


@dataclass
class Weights:
    """W_B, W_C of shape (states, d + 1) and the gate's w of shape (d + 1,), or None without a gate. float64."""

    W_B: NDArray[Any]
    W_C: NDArray[Any]
    w: NDArray[Any] | None


class PatternEngine:
    """Forward and backward passes for the prompts of one bank and specification."""

    def __init__(self, bank: PatternBank, spec: PromptSpec) -> None:
        self.bank, self.spec = bank, spec
        self.Pt = basis(bank, spec)
        rows = len(self.Pt)
        assert rows == bank.n_relevant + bank.n_irrelevant + len(outlier_rows(bank, spec)) + 1  # noqa: S101
        self._rows = [np.empty(rows) for _ in range(2)]
        self._columns = [np.empty(spec.length + 1) for _ in range(3)]

    def run(
        self, weights: Weights, found: Coefficients, want_gradient: bool
    ) -> tuple[NDArray[Any], float, Weights | None]:
        """Return F (n,), the mean hinge loss, and its gradient if wanted."""
        from icl_theory.pattern_kernel import hinge_step

        U, V = self.Pt @ weights.W_B.T, self.Pt @ weights.W_C.T
        K = np.ascontiguousarray(U @ V.T)
        g = np.zeros(len(self.Pt)) if weights.w is None else self.Pt @ weights.w
        F, gK, gg = np.empty(len(found.labels)), np.zeros_like(K), np.zeros_like(g)
        total = hinge_step(
            K, g, weights.w is not None, self.bank.n_relevant, self.bank.n_relevant + self.bank.n_irrelevant,
            self.spec.kappa_outlier, found.relevant, found.irrelevant, found.outlier, found.size, found.y,
            found.labels, want_gradient, F, gK, gg, *self._rows, *self._columns,
        )  # fmt: skip
        n = max(1, len(F))
        if not want_gradient:
            return F, total / n, None
        gK /= n
        gradient = Weights(
            (gK @ V).T @ self.Pt, (gK.T @ U).T @ self.Pt, None if weights.w is None else gg @ self.Pt / n
        )
        return F, total / n, gradient

"""The exact Bayes classifier of prompts with outliers (the prompts of arXiv 2510.00399)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import one_of, positive_int
from lemmata_core.rng import generator

from icl_theory.bayes.family import Family, Posterior, Prompts
from icl_theory.bayes.finite import signs
from icl_theory.patterns import PatternBank
from icl_theory.prompts import PromptSpec, checked_setting, dense, draw_coefficients

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


# What each setting of `rule` takes for possible: labels and target. None: the specification's own.
_RULES: dict[str, tuple[tuple[str, int], ...] | None] = {
    "known": None,
    "unknown": (("flip", 0), ("random", 0), ("target", 1), ("target", -1)),
    "ignored": (("random", 0),),
}


class PatternOutliers(Family):
    """Binary labels of relevant patterns, some examples spoilt by outliers that can be seen.

    The target f(x) in {-1, +1} is the task's label of x's relevant pattern. Patterns are orthogonal, so an example
    shows whether it carries an outlier; a clean one shows its label without noise.

    Parameters
    ----------
    bank : PatternBank
    tasks : array_like of int, shape (n_tasks, 2)
        The prior over tasks is uniform on the rows.
    spec : PromptSpec
        Prompts of `sample` have the last pair as the query, without an outlier.
    rule : {"known", "unknown", "ignored"}
        What the predictor knows of the labelling rule of outliers. "known": all; flipped labels are then as informative
        as clean ones. "unknown": one of "flip", "random", and "target" with either label, with equal odds, to be found
        out from the prompt. "ignored": outliers are taken as fair coins.

    Raises
    ------
    InvalidInput
    """

    def __init__(self, bank: PatternBank, tasks: ArrayLike, spec: PromptSpec, *, rule: str = "known") -> None:
        self.bank, self.spec = bank, spec
        self.tasks = checked_setting(bank, tasks, spec)
        self.rule = one_of(rule, "rule", tuple(_RULES))
        self.dim = bank.d
        self.inputs = None

    def draw_inputs(self, n: int, length: int, rng: np.random.Generator) -> NDArray[Any]:  # noqa: ARG002
        """Return nothing: inputs depend on the task here, and `sample` draws both."""
        raise InvalidInput.argument(
            "inputs", expected="prompts from sample(): inputs depend on the task", got="draw_inputs"
        )

    def draw(self, x: NDArray[Any], rng: np.random.Generator) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any]]:  # noqa: ARG002
        """Return nothing; see `draw_inputs`."""
        raise InvalidInput.argument("inputs", expected="prompts from sample(): inputs depend on the task", got="draw")

    def sample(self, n: int, length: int | None = None, rng: Any = None) -> Any:
        """Draw prompts of `length` pairs (spec.length + 1 if not given); see `Family.sample`."""
        pairs = self.spec.length + 1 if length is None else positive_int(length, "length", minimum=3)
        spec = replace(self.spec, length=pairs - 1)
        found = draw_coefficients(self.bank, self.tasks, spec, positive_int(n, "n", minimum=0), generator(rng))
        tokens = dense(self.bank, spec, found)
        # The query's pattern carries its label; another pattern of the same task carries the opposite one.
        same = found.relevant == found.relevant[:, -1:]
        f = np.where(same, found.labels[:, None], -found.labels[:, None])
        y = np.where(np.arange(pairs) == pairs - 1, f, found.y)
        return Prompts(tokens[..., :-1], y, f, np.zeros(n, np.int64))

    def predict(self, x: ArrayLike, y: ArrayLike) -> Posterior:
        """Return the prediction after every prefix; `weights` are the tasks' posterior probabilities.

        Parameters
        ----------
        x : array_like, shape (n, length, d)
        y : array_like, shape (n, length)
            Labels -1 or +1; entry k is not looked at before k + 1.

        Returns
        -------
        Posterior
            `mean` is E[f | prompt] in [-1, 1]; P(f = +1) = (1 + mean) / 2. NaN for a prompt that no task can produce.

        Raises
        ------
        InvalidInput
        """
        xs, ys = self.checked(x, y)
        signs(ys)
        relevant = xs @ self.bank.relevant.T / self.bank.beta**2
        which = relevant.argmax(-1)
        # One coefficient is 1 and the others are 0, up to single precision.
        off = np.abs(relevant - (np.arange(len(self.bank.relevant)) == which[..., None])).max(initial=0.0)
        if off > 1e-3:
            raise InvalidInput.argument(
                "x", expected="one relevant pattern of the bank an example", got=f"a coefficient off by {off:.3g}"
            )
        clean_part = np.concatenate([self.bank.relevant, self.bank.irrelevant]) / self.bank.beta
        outside = np.linalg.norm(xs - (xs @ clean_part.T) @ clean_part, axis=-1)
        spoilt = outside > 1e-4 * self.bank.beta
        rules = _RULES[self.rule] or ((self.spec.labels, self.spec.target),)
        plus, minus = (which[..., None] == self.tasks[:, c] for c in (0, 1))
        f = np.where(plus, 1.0, np.where(minus, -1.0, 0.0))
        with np.errstate(divide="ignore"):
            # The inputs tell of the task as well: only its two patterns occur, each half the time.
            log_x = np.log(np.where(plus | minus, 0.5, 0.0))
            log_y = np.concatenate([self._log_label(r, ys[..., None], f, spoilt[..., None]) for r in rules], -1)
        # Hypotheses are pairs of a rule and a task.
        f, log_x = np.tile(f, len(rules)), np.tile(log_x, len(rules))
        prior = np.full(f.shape[-1], 1 / f.shape[-1])
        # Entry k knows x[:, k] but not y[:, k]: the inputs' evidence runs one step ahead of the labels'.
        ahead = np.cumsum(log_x, 1)
        before = np.concatenate([np.zeros_like(log_y[:, :1]), np.cumsum(log_y[:, :-1], 1)], 1)
        with np.errstate(divide="ignore", invalid="ignore"):
            log_w = np.log(prior) + ahead + before
            weights = np.exp(log_w - log_w.max(-1, keepdims=True))
            weights /= weights.sum(-1, keepdims=True)
            mean = (weights * f).sum(-1)
            var = (weights * np.square(f - mean[..., None])).sum(-1)
            log_predictive = np.log((weights * np.exp(log_y)).sum(-1))
            weights = weights.reshape(*weights.shape[:-1], len(rules), len(self.tasks)).sum(-2)
        return Posterior(mean, var, log_predictive, weights)

    def _log_label(self, rule: tuple[str, int], y: NDArray[Any], f: NDArray[Any], spoilt: NDArray[Any]) -> NDArray[Any]:
        labels, target = rule
        clean = np.where(y == f, 1.0, 0.0)
        if labels == "random":
            dirty = np.full_like(clean, 0.5)
        elif labels == "flip":
            dirty = np.where(y == -f, 1.0, 0.0)
        else:
            dirty = np.where(y == target, 1.0, 0.0) * np.ones_like(clean)
        with np.errstate(divide="ignore"):
            return np.log(np.where(spoilt, dirty, clean))

"""Closed forms and conditions for in-context learning under outliers (arXiv 2510.00399)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from lemmata_core import InvalidInput
from lemmata_core.check import in_range, one_of, positive_int

from icl_theory.prompts import LABELS, PromptSpec

if TYPE_CHECKING:
    from icl_theory.patterns import PatternBank


def vote_error(alpha: float, length: int, labels: str = "flip") -> float:
    """Error of ideal linear attention: every example votes, and an outlier's vote is wrong by its labelling rule.

    Parameters
    ----------
    alpha : float
        Chance that an example carries an outlier, in [0, 1).
    length : int
        Examples, >= 1.
    labels : {"flip", "random", "target"}
        "flip": an outlier's vote is always wrong. "random", "target": half the time.

    Returns
    -------
    float
        P(Bin(length, a) > length / 2) + P(Bin(length, a) = length / 2) / 2, with a = alpha or alpha / 2.

    Raises
    ------
    InvalidInput
    """
    alpha, length = _share(alpha), positive_int(length, "length")
    wrong = alpha if one_of(labels, "labels", LABELS) == "flip" else alpha / 2
    if not wrong:
        return 0.0
    # The incomplete beta function is the binomial tail; scipy.stats takes a second to import, and overflows at 1e-308.
    from scipy.special import betainc, gammaln

    half = length // 2
    more = float(betainc(half + 1, length - half, wrong))
    if length % 2:
        return more
    log_ways = float(gammaln(length + 1) - 2 * gammaln(half + 1))
    return more + math.exp(log_ways + half * (math.log(wrong) + math.log1p(-wrong))) / 2


def bayes_floor(alpha: float, length: int) -> float:
    """Error of the best predictor that ignores outliers: alpha^length / 2, when no clean example is left.

    Exact Bayes error under "random" labels. Arguments and errors as in `vote_error`.
    """
    return _share(alpha) ** positive_int(length, "length") / 2


def same_pattern_floor(alpha: float, length: int) -> float:
    """Error of a predictor that ignores outliers and the other pattern too: ((1 + alpha) / 2)^length / 2."""
    return ((1 + _share(alpha)) / 2) ** positive_int(length, "length") / 2


def _share(alpha: float) -> float:
    return in_range(alpha, "alpha", 0.0, 1.0, high_open=True)


@dataclass(frozen=True)
class Condition:
    """One condition of a theorem.

    Attributes
    ----------
    theorem : str
    quantity : str
        What is bounded.
    value : float
        Its value here.
    relation : str
        How it stands to `term` in the theorem.
    term : float
        The theorem's expression. With `constants_known` False it lacks constants that the paper hides: only its growth
        means something, not its size.
    constants_known : bool
    satisfied : bool or None
        None where hidden constants leave it open.
    kind : str
        "sufficient": success outside these conditions contradicts nothing.
    """

    theorem: str
    quantity: str
    value: float
    relation: str
    term: float
    constants_known: bool
    satisfied: bool | None
    kind: str = "sufficient"


def conditions(
    bank: PatternBank,
    spec: PromptSpec,
    test: PromptSpec | None = None,
    *,
    batch: int = 256,
    eps: float = 0.1,
    lr: float = 0.5,
) -> tuple[Condition, ...]:
    """Tabulate the conditions of Theorems 1 to 4 at the given sizes.

    Parameters
    ----------
    bank : PatternBank
    spec : PromptSpec
        Training prompts; needs 0 < outlier_fraction < 1.
    test : PromptSpec, optional
        Test prompts; the training ones if not given.
    batch : int
    eps : float
        The error that the theorems promise, in (0, 1).
    lr : float
        Step size, in (0, 1].

    Returns
    -------
    tuple of Condition
        All are sufficient conditions.

    Raises
    ------
    InvalidInput
    """
    test = spec if test is None else test
    # from the least on, so that 1 / eps^2 and the number of steps are finite
    eps = in_range(eps, "eps", 1e-100, 1.0, high_open=True)
    lr = in_range(lr, "lr", 1e-100, 1.0)
    positive_int(batch, "batch")
    p, alpha, beta, V, M1 = spec.outlier_fraction, test.outlier_fraction, bank.beta, bank.n_outlier, bank.n_relevant
    if not 0 < p < 1 or V == 0:
        raise InvalidInput.argument(
            "spec", expected="outliers: 0 < outlier_fraction < 1 and n_outlier >= 1", got=f"{p}, {V}"
        )
    L = 1.0 if test.outlier_mix is None else min(map(sum, test.outlier_mix))
    log_eps, ka, kt = math.log(1 / eps), spec.kappa_outlier, test.kappa_outlier
    need = max(eps**-2, M1 / (1 - p)) * log_eps
    steps = M1 / (lr * (1 - p) * beta**2)

    def hidden(theorem: str, quantity: str, value: float, relation: str, term: float) -> Condition:
        return Condition(theorem, quantity, value, relation, term, False, None)

    limit = min(1.0, p * spec.length / test.length)
    return (
        hidden("T1", "batch", batch, ">~", max(need, V**2 * log_eps / (beta**4 * ka**2 * (1 - p) ** 2))),
        hidden("T1", "kappa_outlier (training)", ka, ">~", V / beta**4),
        hidden("T1", "kappa_outlier (training)", ka, "<~", V * beta * (1 - p) / (p * eps)),
        hidden("T1", "length (training)", spec.length, ">~", math.log(M1) / (1 - p)),
        hidden("T1", "steps", math.nan, "=~", steps),
        Condition("T2", "kappa_outlier (test)", kt, ">=", ka, True, kt >= ka),
        hidden("T2", "kappa_outlier (test)", kt, "<~", V * beta * (1 - p) / (p * ka * L * eps)),
        Condition("T2", "outlier_fraction (test)", alpha, "<", limit, True, alpha < limit),
        hidden("T2", "length (test)", test.length, ">~", math.log(M1) / (1 - alpha)),
        hidden("T3", "batch", batch, ">~", need),
        hidden("T3", "kappa_outlier (training)", ka, "<~", V * beta * (1 - p) / (p * eps)),
        hidden("T3", "length (training)", spec.length, ">~", math.log(M1) / (1 - p)),
        hidden("T3", "steps", math.nan, "=~", steps / spec.length),
        hidden("T4", "kappa_outlier (test)", kt, "<~", V * beta * (1 - p) * spec.length / (p * ka * L * eps)),
        Condition("T4", "outlier_fraction (test)", alpha, "<", 0.5, True, alpha < 0.5),
        hidden(
            "T4", "length (test)", test.length, ">~",
            math.inf if alpha >= 0.5 else max(1 / (1 - alpha), alpha / (0.5 - alpha) ** 2) * math.log(M1),
        ),
    )  # fmt: skip

"""Baselines that run in the compiled loop: plain gradient steps, and the ancestor with a known horizon."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lemmata_core import InvalidInput
from lemmata_core.check import one_of, positive_int

from oco_anytime.engine import PenaltyLearner

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Domain


class HorizonExceeded(InvalidInput):
    """A learner with a fixed horizon was given more rounds than it was made for."""


class ProjectedOGD(PenaltyLearner):
    """Projected gradient descent with the AdaGrad-norm step D/sqrt(2 H); constraints are ignored, violations counted.

    Published guarantee (Streeter, McMahan 2010; Duchi, Hazan, Singer 2011): regret at most sqrt2 D sqrt(H_T) <=
    sqrt2 G D sqrt T; none for violations.

    Parameters
    ----------
    domain : Domain
    **options
        `lipschitz`, `tangent`, `x0`, `diameter`, `aggregate` as `AnytimeCOCO`.
    """

    def __init__(self, domain: Domain, **options: Any) -> None:
        super().__init__(domain, penalty="none", schedule="sqrt", clock="rounds", **options)


class FixedHorizonCOCO(PenaltyLearner):
    """The ancestor: Lyapunov penalty with lambda = 1/(2 sqrt T) fixed (Sinha, Vaze, NeurIPS 2024, arXiv 2310.18955).

    Published guarantee: regret O(sqrt T) and violation O(sqrt T log T), at the horizon T.

    Parameters
    ----------
    domain : Domain
    horizon : int
        T.
    on_overrun : {"raise", "continue"}
        What to do after T rounds.
    **options
        As `AnytimeCOCO`.

    Raises
    ------
    HorizonExceeded
        By `update`, after T rounds.
    """

    def __init__(self, domain: Domain, *, horizon: int, on_overrun: str = "raise", **options: Any) -> None:
        self.horizon = positive_int(horizon, "horizon")
        self.on_overrun = one_of(on_overrun, "on_overrun", ("raise", "continue"))
        super().__init__(
            domain, penalty="lyapunov", schedule="fixed", clock="rounds", horizon=float(self.horizon), **options
        )

    def _before_rounds(self, rounds: int) -> None:
        t = int(self._s[self._k.T])
        if self.on_overrun == "raise" and t + rounds > self.horizon:
            raise HorizonExceeded.argument(
                "horizon", expected=f"at most {self.horizon} rounds", got=f"round {t + rounds}"
            )

    def update(self, cost_grad: ArrayLike, violation: ArrayLike = 0.0, violation_grad: ArrayLike | None = None) -> Self:
        """As `PenaltyLearner.update`; raises `HorizonExceeded` after T rounds."""
        self._before_rounds(1)
        return super().update(cost_grad, violation, violation_grad)


class DoublingCOCO(PenaltyLearner):
    """`FixedHorizonCOCO` restarted on epochs of length 1, 2, 4, ...: the textbook way to drop the horizon.

    Published guarantee: that of the ancestor, times a constant (Cesa-Bianchi, Lugosi 2006, section 2.3). Penalty and
    step sizes restart, the decision is kept.

    Parameters
    ----------
    domain : Domain
    **options
        As `AnytimeCOCO`.
    """

    def __init__(self, domain: Domain, **options: Any) -> None:
        super().__init__(
            domain, penalty="lyapunov", schedule="fixed", clock="rounds", horizon=1.0, doubling=True, **options
        )

"""The learner of the paper, with its published penalty and the budgeted one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from lemmata_core.check import one_of

from oco_anytime.engine import PenaltyLearner

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

    from oco_anytime.domains.base import Domain


class AnytimeCOCO(PenaltyLearner):
    """Online convex optimization with adversarial constraints, guaranteed at every round, without a horizon.

    Parameters
    ----------
    domain : Domain
        X, with diameter D.
    lipschitz : None, float or pair of float
        Bounds (Gf, Ga) of ||c_t|| and ||a_t||; one number means both. None: learned on the way [N]; then the units
        of cost and constraint do not matter.
    penalty : {"budgeted", "lyapunov"}
        ``"lyapunov"``: w_t = Phi_t'(Q_t), Phi_t(q) = exp(lambda_t q) - 1 (arXiv 2510.22579) [P]. ``"budgeted"``: the
        same with the summable schedule as a floor, plus an increment that spends a stated share of the regret
        bound on violations [N]: Regret_t <= 2 Gf D ((1 + w0) sqrt t + 1) at every t.
    schedule : {"sqrt", "summable"}, optional
        lambda = 1/(2 sqrt n) [I], or square-summable [I/N]. By default sqrt for lyapunov, summable for budgeted.
    clock : {"rounds", "violations"}, optional
        n counts rounds [P] or violated rounds [N]. By default rounds for lyapunov, violations for budgeted.
    regret_budget : float
        w0. 4 suits streams where a violation is dearer than cost (flows, safety), 1 where costs rule.
    pace : float
        rho: how much of the budget one violation may take.
    eps : float
        Of the summable schedule.
    aggregate : {"max", "sum", "each"}
        Several constraints: the largest (as the ancestor, arXiv 2310.18955), the sum of positive parts, or a penalty
        each with its own guarantee [N].
    tangent : bool
        Project gradients on the directions of the domain first [N].
    x0 : array_like, shape (d,), optional
        First decision, a point of the domain; its centre unless given.
    diameter : float, optional
        An upper bound of the diameter in place of the domain's.
    check : bool
        False: on a domain of the compiled loop the search for NaN and infinity is left out, and what they would do to
        the state is up to the caller. Shapes are looked at all the same.

    Raises
    ------
    InvalidInput
        For any argument outside the above.

    Notes
    -----
    Step [P, adaptive OGD as in the ancestor]: x_{t+1} = Proj(x_t - D/sqrt(2 H_t) (c_t + w_t a_t)), H_t the sum of
    squared norms. O(d) state and time.
    """

    def __init__(
        self,
        domain: Domain,
        *,
        lipschitz: Any = None,
        penalty: str = "budgeted",
        schedule: str | None = None,
        clock: str | None = None,
        regret_budget: float = 2.0,
        pace: float = 2.0,
        eps: float = 0.3,
        aggregate: str = "max",
        tangent: bool = False,
        x0: ArrayLike | None = None,
        diameter: float | None = None,
        check: bool = True,
    ) -> None:
        one_of(penalty, "penalty", ("budgeted", "lyapunov"))
        budgeted = penalty == "budgeted"
        schedule = one_of(schedule or ("summable" if budgeted else "sqrt"), "schedule", ("sqrt", "summable"))
        clock = one_of(clock or ("violations" if budgeted else "rounds"), "clock", ("rounds", "violations"))
        super().__init__(
            domain,
            lipschitz=lipschitz,
            penalty=penalty,
            schedule=schedule,
            clock=clock,
            regret_budget=regret_budget,
            pace=pace,
            eps=eps,
            aggregate=aggregate,
            tangent=tangent,
            x0=x0,
            diameter=diameter,
            check=check,
        )

    @classmethod
    def paper(cls, domain: Domain, lipschitz: Any = None, **options: Any) -> Self:
        """The method as published: Lyapunov penalty, sqrt schedule, clock of rounds (arXiv 2510.22579).

        Parameters
        ----------
        domain : Domain
        lipschitz : None, float or pair of float
            G.
        **options
            Further arguments of the class.

        Returns
        -------
        AnytimeCOCO
        """
        return cls(domain, lipschitz=lipschitz, penalty="lyapunov", schedule="sqrt", clock="rounds", **options)

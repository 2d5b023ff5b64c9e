"""What a learner can promise about its own run, at no cost: `Certificate` and its bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

SQRT2 = math.sqrt(2.0)


@dataclass(frozen=True)
class Certificate:
    """The state of a run's guarantees after round `t`.

    Attributes
    ----------
    t : int
        Rounds played.
    regret_upper : float
        Regret against EVERY fixed point that satisfies all constraints so far is at most this [N]. For
        `DynamicCOCO`: against every sequence of the stated path length. NaN where the learner has none.
    regret_budget : float or None
        The bound B_t known before the run (None where no clean bound is proved, as in paper mode).
    ccv : float
        Cumulative constraint violation, aggregated as the learner does.
    ccv_per_constraint : numpy.ndarray, shape (m,)
    violated_rounds : int
    penalty : float
        Weight on the violation at the last violated round (0 before).
    lipschitz : tuple of float
        The scales (Gf, Ga) in use.
    lipschitz_exceeded : int
        Rounds whose gradients exceeded the given constants.
    epochs : int
        1 unless the learner restarts.
    status : str
        ``"ok"``; ``"infeasible-round"``: a violation came with a zero gradient, so no point satisfies that
        constraint; ``"diameter-suspect"``: a violation larger than D times its gradient; ``"saturated"``: the
        penalty has reached its cap, so there is no feasible point. The gravest seen stays.
    """

    t: int
    regret_upper: float
    regret_budget: float | None
    ccv: float
    ccv_per_constraint: np.ndarray
    violated_rounds: int
    penalty: float
    lipschitz: tuple[float, float]
    lipschitz_exceeded: int
    epochs: int
    status: str


#: Index = the kernel's status code.
STATUSES = ("ok", "infeasible-round", "diameter-suspect", "saturated")


def static_regret_bound(t: int, diameter: float, gf: float, budget: float, rows: int, known: bool) -> float:
    """The regret bound B_t = 2 Gf D ((1 + w0) sqrt t + m), or 2 m for m when the scales are learned [N].

    Parameters
    ----------
    t : int
        Rounds played.
    diameter, gf : float
        D and Gf.
    budget : float
        w0; 0 for the plain Lyapunov penalty with a summable schedule [I/N].
    rows : int
        Number of separate penalties (1 unless ``aggregate="each"``).
    known : bool
        Whether the Lipschitz constants were given and never exceeded.

    Returns
    -------
    float
    """
    return 2.0 * gf * diameter * ((1.0 + budget) * math.sqrt(t) + (rows if known else 2 * rows))


def ccv_bound(t: int, diameter: float, ga: float, lam: float, rows: int, budgeted: bool) -> float:
    """The bound (2 Ga D/lambda) log(2 sqrt t + 2 m + 2.42 t) of each CCV_i with given scales [N].

    Parameters
    ----------
    t : int
        Rounds played.
    diameter, ga : float
        D and Ga.
    lam : float
        The schedule's value at the last violated round.
    rows : int
        Number of separate penalties.
    budgeted : bool
        False for the plain Lyapunov penalty with a summable schedule: then ``log(t + 2 sqrt t + 2)`` [I/N].

    Returns
    -------
    float
    """
    inside = 2.0 * math.sqrt(t) + 2.0 * rows + (2.42 if budgeted else 1.0) * t
    return 2.0 * ga * diameter / lam * math.log(inside)

"""The price of a violation: the Lyapunov weight (arXiv 2510.22579) and the budgeted increment.

Scalars only, and no state: the learner owns the state and hands it in. `oco_anytime.kernels` compiles these.
"""

import math

#: exp(z) is capped here; the learner's status then says "saturated" (there is no feasible point).
LARGEST = 1e300  # of a number that comes in: norms and sums of a few of them stay finite
Z_MAX = 600.0


def lyapunov_weight(ratio: float, lam: float, z: float) -> float:
    """Weight of a violation under Phi_t(q) = exp(lambda_t q) - 1, as a function of z_t = lambda_t Q_t.

    Parameters
    ----------
    ratio : float
        Gf/Ga: cost units a unit of constraint (1 when both share one Lipschitz constant).
    lam : float
        lambda_t.
    z : float
        lambda_t Q_t, which obeys ``z_t = z_{t-1} + lambda_t v_t/(2 Ga D)`` [N, an identity].

    Returns
    -------
    float
        ``ratio * lambda * exp(z)`` = Phi_t'(Q_t) [P].
    """
    return ratio * lam * math.exp(min(z, Z_MAX))


def budget_increment(
    v: float,
    na: float,
    ve: float,
    root_s: float,
    violations: float,
    clock: float,
    cd: float,
    reach: float,
    gf: float,
    ga: float,
    budget: float,
    pace: float,
) -> float:
    """The largest affordable extra weight e on a violation v with gradient norm na [N].

    Parameters
    ----------
    v, na : float
        Violation and norm of its gradient, both positive.
    ve, root_s : float
        ``sum e v`` and ``sqrt(sum e^2 na^2)`` over the rounds before this one.
    violations, clock : float
        Violated rounds and rounds so far, this one included.
    cd : float
        ``sqrt2 D`` for the static learner; ``cbar D`` with experts.
    reach : float
        ``D`` for the static learner; ``s D`` with experts.
    gf, ga : float
        Scales of cost gradients and constraint gradients.
    budget, pace : float
        The pure numbers w0 and rho.

    Returns
    -------
    float
        ``min(root, rho M/(2 reach Ga sqrt N), (Gf/Ga) sqrt t)`` with ``M = ve + 2 reach Gf w0 sqrt t``. The root is
        left out when ``q = cd^2 na^2 - v^2 <= 0`` (then D is too small or no feasible point exists).

    Notes
    -----
    The root is the largest e keeping ``cd sqrt(S + e^2 na^2) <= ve + e v + 2 reach Gf w0 sqrt t``. It is written
    in the ratios v/na and cd sqrt(S)/M, so no square of a raw scale appears and units cannot overflow.
    """
    m = ve + 2.0 * reach * gf * budget * math.sqrt(clock)
    e = min(pace * m / (2.0 * reach * ga * math.sqrt(violations)), gf / ga * math.sqrt(clock))
    u = v / na
    q = cd * cd - u * u
    if q > 0.0 and m > 0.0:
        used = cd * root_s / m
        room = max(0.0, (1.0 - used) * (1.0 + used))
        e = min(e, m / na * (u + math.sqrt(u * u + q * room)) / q)
    return e

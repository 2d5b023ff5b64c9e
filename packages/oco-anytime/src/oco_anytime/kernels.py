"""The compiled round: price a violation, take the step, project. Importing this module loads numba.

`AnytimeCOCO.update` and `play_linear` run the same compiled functions. A learner's state is one array of scalars
(`s`, indices below), the penalties' exponents `z` and clocks `n`, the violation sums `ccv` and the point `x`.

numba checks only this file's date for its cache: after an edit of schedules.py, penalty.py or projections.py touch this
file too.
"""

import math

import numpy as np
from numba import njit

from oco_anytime import penalty, schedules
from oco_anytime.projections import dot, entry, entry_stage, leaf, norm, project, stage

# settings, fixed for the life of a learner
(
    C_D, C_W0, C_PACE, C_EPS, C_PENALTY, C_SCHEDULE, C_CLOCK, C_AGG, C_KNOWN, C_HORIZON, C_DOUBLING, C_CD, C_LAM,
    C_CHECK,
) = range(14)  # fmt: skip
N_CFG = 14
P_NONE, P_LYAPUNOV, P_BUDGETED = range(3)
S_SQRT, S_SUMMABLE, S_FIXED = range(3)
K_ROUNDS, K_VIOLATIONS = range(2)
A_MAX, A_SUM, A_EACH = range(3)

# state
(T, TAU, H, E, W, GF, GA, ROOT_S, VE, NV, VR, CCV, UNIT, EXC, STATUS, WEIGHT, REACH, BANK, EPOCHS) = range(19)
N_STATE = 19

_sqrt_schedule = leaf(schedules.sqrt_schedule)
_summable = leaf(schedules.summable_schedule)
_lyapunov = leaf(penalty.lyapunov_weight)
_budget = leaf(penalty.budget_increment)
Z_MAX = penalty.Z_MAX
_SQRT2 = math.sqrt(2.0)
LARGEST = penalty.LARGEST


@stage
def not_finite(a):
    """Whether a contiguous vector holds a NaN or a number beyond `LARGEST`."""
    if math.isfinite(dot(a, a)):
        return False
    # the square may overflow where the numbers do not
    for x in a:  # noqa: SIM110 - numba compiles no generator
        if not abs(x) <= LARGEST:
            return True
    return False


@entry_stage
def certified(cfg, s):
    """The regret certificate of section "certificate" of the theory page, O(1)."""
    c = s[BANK]
    if s[H] > 0.0:
        c += cfg[C_D] * s[UNIT] * math.sqrt(0.5 * s[H]) + cfg[C_D] / (2.0 * _SQRT2) * s[E]
    return c - s[W]


@leaf
def _restart(s, z, n):
    """Doubling: the next epoch begins; x stays, the epoch's certificate is banked by the caller."""
    for k in (TAU, H, E, W, ROOT_S, VE, NV):
        s[k] = 0.0
    s[EPOCHS] += 1.0
    z[:] = 0.0
    n[:] = 0.0


@leaf
def _grow_cost_scale(cfg, s, z, cn):
    gf = s[GF]
    known = cfg[C_KNOWN] != 0.0
    if cn <= (gf * (1.0 + 1e-9) if known else gf):
        return
    if known:
        s[EXC] += 1.0
    if gf > 0.0:
        # keeps the potential Gf exp(z) from jumping
        drop = math.log(cn / gf)
        for i in range(z.size):
            z[i] = max(0.0, z[i] - drop)
    else:
        # regret so far is exactly 0
        s[H] = 0.0
        s[E] = 0.0
        s[W] = 0.0
    s[GF] = cn


@leaf
def _grow_constraint_scale(cfg, s, an):
    known = cfg[C_KNOWN] != 0.0
    if an > (s[GA] * (1.0 + 1e-9) if known else s[GA]):
        if known:
            s[EXC] += 1.0
        s[GA] = an


@leaf
def _rate(cfg, clock, rows):
    if cfg[C_SCHEDULE] == S_SQRT:
        return _sqrt_schedule(clock)
    if cfg[C_SCHEDULE] == S_SUMMABLE:
        return cfg[C_LAM] * _summable(clock, rows, cfg[C_EPS])
    return _sqrt_schedule(cfg[C_HORIZON])


@leaf
def _aggregate(agg, ccv, v, a, g):
    """Put the aggregated gradient into g; returns (violation, norm of g, largest norm of a single row)."""
    top, vs, an = -1, 0.0, 0.0
    for i in range(v.size):
        if v[i] > 0.0:
            ccv[i] += v[i]
            vs += v[i]
            if top < 0 or v[i] > v[top]:
                top = i
    if top < 0:
        return 0.0, 0.0, 0.0
    for j in range(g.size):
        g[j] = a[top, j]
    if agg == A_MAX:
        na = norm(g)
        return v[top], na, na
    for i in range(v.size):
        if v[i] > 0.0:
            if agg == A_EACH:
                an = max(an, norm(a[i]))
            if i != top:
                for j in range(g.size):
                    g[j] += a[i, j]
    na = norm(g)
    return vs, na, an if agg == A_EACH else na


@leaf
def _own_weights(cfg, s, z, n, v, a, ratio, pull, e, g):
    """A penalty for each constraint: add w_i a_i to g, where e is already in it."""
    for i in range(v.size):
        if v[i] > 0.0:
            n[i] += 1.0
            lam = _rate(cfg, s[TAU] if cfg[C_CLOCK] == K_ROUNDS else n[i], float(v.size))
            z[i] += lam * v[i] * pull
            w = _lyapunov(ratio, lam, z[i])
            s[W] += w * v[i]
            s[WEIGHT] = max(s[WEIGHT], w + e)
            for j in range(g.size):
                g[j] += w * a[i, j]


@stage
def price(cfg, s, z, n, ccv, c, v, a, g):
    """Account for one round and put the surrogate gradient c + w a into `g`.

    Long because it is the whole of sections 2.1 to 2.5 of the design in the order in which they happen.
    """
    s[T] += 1.0
    s[TAU] += 1.0
    _grow_cost_scale(cfg, s, z, norm(c))
    vs, na, an = _aggregate(cfg[C_AGG], ccv, v, a, g)
    if vs > 0.0:
        s[VR] += 1.0
        s[CCV] += vs
        if na == 0.0:
            s[STATUS] = max(s[STATUS], 1.0)
    if na == 0.0 or cfg[C_PENALTY] == P_NONE:
        for j in range(c.size):
            g[j] = c[j]
        return
    _grow_constraint_scale(cfg, s, an)
    gf, ga = s[GF], s[GA]
    if gf == 0.0:
        # no cost seen yet: any weight serves, and the penalty's state stays untouched
        s[W] += vs
        s[WEIGHT] = 1.0
        return
    s[NV] += 1.0
    w = 0.0
    if cfg[C_PENALTY] == P_BUDGETED:
        if cfg[C_CD] * na <= vs:
            s[STATUS] = max(s[STATUS], 2.0)
        w = _budget(vs, na, s[VE], s[ROOT_S], s[NV], s[TAU], cfg[C_CD], s[REACH], gf, ga, cfg[C_W0], cfg[C_PACE])
        s[ROOT_S] = math.hypot(s[ROOT_S], w * na)
        s[VE] += w * vs
    ratio, pull = gf / ga, 1.0 / (2.0 * ga * cfg[C_D])
    each = cfg[C_AGG] == A_EACH
    if not each:
        n[0] += 1.0
        lam = _rate(cfg, s[TAU] if cfg[C_CLOCK] == K_ROUNDS else n[0], 1.0)
        z[0] += lam * vs * pull
        w += _lyapunov(ratio, lam, z[0])
    s[W] += w * vs
    s[WEIGHT] = 0.0 if each else w
    for j in range(c.size):
        g[j] = c[j] + w * g[j]
    if each:
        _own_weights(cfg, s, z, n, v, a, ratio, pull, w, g)
    for i in range(z.size):
        if z[i] > Z_MAX:
            z[i] = Z_MAX
            s[STATUS] = 3.0


@leaf
def absorb(s, g):
    """Add a surrogate gradient to H and E; returns 1/sqrt(H) in the caller's units, or 0 where no step is due.

    H is kept in a power of two of the first gradient's size when that lies outside 1e-100 .. 1e100, so that squares
    neither vanish nor overflow; for ordinary numbers the unit is 1 and nothing is rounded.
    """
    sq = dot(g, g)
    if s[UNIT] == 1.0 and 1e-200 < sq < 1e200:
        # the ordinary case, in the fewest operations
        s[H] += sq
        root = math.sqrt(s[H])
        s[E] += sq / root
        return 1.0 / root
    gn = norm(g)
    # below that the step's inverse overflows
    if gn < 1e-300:
        return 0.0
    r = gn / s[UNIT]
    if r > 1e100 or (s[H] == 0.0 and r < 1e-100):
        unit = 2.0 ** math.floor(math.log2(gn))
        f = s[UNIT] / unit
        s[H] = s[H] * f * f
        s[UNIT] = unit
        r = gn / unit
    sq = r * r
    s[H] += sq
    if s[H] == 0.0:
        return 0.0
    root = math.sqrt(s[H])
    s[E] += s[UNIT] * (sq / root)
    return 1.0 / (root * s[UNIT])


@entry_stage
def advance(cfg, s, z, n, ccv, x, c, v, a, g):
    """One round up to the projection: `x` takes its step in place. Returns False where it stays as it is."""
    if cfg[C_DOUBLING] != 0.0 and s[TAU] >= cfg[C_HORIZON]:
        s[BANK] = certified(cfg, s)
        _restart(s, z, n)
        cfg[C_HORIZON] *= 2.0
    price(cfg, s, z, n, ccv, c, v, a, g)
    inv = absorb(s, g)
    if inv == 0.0:
        return False
    step = cfg[C_D] / _SQRT2 * inv
    for j in range(x.size):
        x[j] -= step * g[j]
    return True


@entry
def update(cfg, s, z, n, ccv, x, c, v, a, code, p, q, w, total, new):
    """A checked round on a compiled domain. Returns 0, or the number of the input (1, 2, 3) that is not finite."""
    if cfg[C_CHECK] != 0.0:
        if not_finite(c):
            return 1
        if not_finite(v):
            return 2
        if not_finite(a.reshape(a.size)):
            return 3
    work = np.empty((2, x.size))
    for j in range(x.size):
        new[j] = x[j]
    if advance(cfg, s, z, n, ccv, new, c, v, a, work[0]):
        project(code, p, q, w, total, new, work[1])
    return 0


@njit(cache=True, error_model="numpy", nogil=True, _nrt=False, no_cfunc_wrapper=True)
def play(cfg, s, z, n, ccv, x, C, Cg, A, Ag, b, code, p, q, w, total, first, marks, X, cost, viol, cert, g, work, v):
    """Rounds first + 1, first + 2, .. on given linear costs and constraints; x and the state are advanced in place.

    `marks` are the rounds (1-based) with which a record closes: cost and viol add up within a record, cert is its
    last value. `X` has no rows when points are not kept. `C` and `A` give costs and violations, `Cg` and `Ag` the
    gradients (the same arrays unless the tangent space is used).
    """
    m = b.shape[1]
    k = 0
    for t in range(C.shape[0]):
        if X.shape[0] > 0:
            for j in range(x.size):
                X[t, j] = x[j]
        cost[k] += dot(C[t], x)
        for i in range(m):
            v[i] = dot(A[t, i], x) - b[t, i]
            viol[k, i] += max(0.0, v[i])
        if advance(cfg, s, z, n, ccv, x, Cg[t], v, Ag[t], g):
            project(code, p, q, w, total, x, work)
        if marks[k] == first + t + 1:
            cert[k] = certified(cfg, s)
            k += 1

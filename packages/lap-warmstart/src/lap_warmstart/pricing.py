"""The core method as a visible loop: seed, select, match, search, price, repeat; or leave for the dense method."""

from __future__ import annotations

import time

import numpy as np
from numpy.typing import NDArray

from lap_warmstart import core, dense, duals, tight
from lap_warmstart.passes import dual_bounds, min_trick, price, row_first, select_core, survey
from lap_warmstart.problem import Problem
from lap_warmstart.run import Core, NoPath, Run, cold_dense, drop_gated, reduce_rows, search_dense, slices, warm_dense

Vector = NDArray[np.float64]
ROUNDS = 12
# Row reduction on the core: passes, and scans a row (tried: 0 - 8, 4 - 32). More saves searches, costs pricing.
PASSES = 4
BUDGET = 12
# Share of the rows left free by the greedy step beyond which other cold seeds, then the network, are tried. The network
# costs several of our cold solves, so it has to wait until our own seeds have failed (they leave 45 - 55 % on the hard
# families, where asking it anyway took 2.6 times as long).
HARD = 0.5
ASK = 0.6
SMALL = 256
# Share of the entries equal to the row's largest beyond which a problem counts as flat.
PLATEAU = 0.5
# Bytes up to which a matrix whose rows lie across the memory may be copied where the core does not do.
COPIED = 2**26
# From a seed: a smaller core, and row reduction only where the seed leaves more than this share of the rows free. Rows
# across the memory too get the smaller core: listing dominates there, and two thirds of the time at n = 1000 suffice.
SMALL_K = 8
WARM_LEFT = 0.05


def sample(p: Problem, v: Vector) -> tuple[float, float]:
    """Return the medians, over 64 rows, of the tight entries a row and of the share equal to the row's maximum."""
    n = p.c.shape[0]
    rows = np.unique(np.arange(64, dtype=np.int64) * n // 64)
    counts, flat = np.empty(rows.size, dtype=np.int64), np.empty(rows.size)
    duals.tight_sample(p.c, v, rows, counts, flat)
    return float(np.median(counts)), float(np.median(flat))


def solve_tight(run: Run, v: Vector, entries: float, *, above_zero: bool) -> bool:
    """Match a zero-heavy square problem on its tight entries, then search; False if too many rows are left."""
    n = run.x.size
    limit = 32 if entries < 48 else 12
    ptr = np.zeros(n + 1, dtype=np.int64)
    col, val, low = np.empty(limit * n, dtype=np.int32), np.empty(limit * n), np.empty(n)
    run.clear(v)
    for start, stop in slices(run.p.c):
        tight.list_tight(run.p.c, run.v, above_zero, limit, ptr, col, val, low, start, stop)
    left = tight.maximum_matching(ptr, col, run.x, run.y)
    if left > n // 8:
        return False
    run.stats["greedy_fraction"] = 1.0 - left / n
    run.stats["augmentations"] = left
    search_dense(run)
    return True


def solve_plateau(run: Run, minima: Vector) -> bool:
    """Solve a mostly flat square problem (1 - IoU) densely; False if that is not nearly all reduction.

    On a plateau the core lists the same few columns for many rows, while column and row reduction match nearly all
    rows at once: at n = 4000 three scans a row instead of twelve rounds of pricing.
    """
    n = run.x.size
    run.clear(minima)
    dense.column_reduction(run.p.c, run.v, run.x, run.y)
    left = int(np.count_nonzero(run.x < 0))
    # Tracking costs leave 3 - 26 % here, clipped and masked costs 35 % and more.
    if left > 0.3 * n:
        return False
    run.stats["greedy_fraction"] = 1.0 - left / n
    reduce_rows(run, 2 * n)
    left = int(np.count_nonzero(run.x < 0))
    if left > n // 64:
        return False
    run.stats["augmentations"] = left
    search_dense(run)
    return True


def special(run: Run, v: Vector, minima: Vector, *, cold: bool) -> Vector | None:
    """Solve a zero-heavy or mostly flat square problem its own way (None); else return the seed for the core."""
    entries, flat = sample(run.p, v)
    if entries >= 6:
        return None if solve_tight(run, v, entries, above_zero=cold) else row_first(run.p)
    if cold and flat >= PLATEAU:
        return None if solve_plateau(run, minima) else row_first(run.p)
    return v


def seeded(run: Run, v: Vector, k: int) -> tuple[Core, Vector, int]:
    """Start again from the seed `v`: its core, the row minima, and how many rows greedy matching leaves free."""
    graph, low = select_core(run.p, v, k)
    run.clear(v)
    left = core.greedy_core(graph.ptr, graph.col, graph.val, run.v, low, run.x, run.y, graph.cx)
    return graph, low, left


def complete(run: Run, graph: Core) -> None:
    """Add edges until the core has a complete matching, so that its searches cannot fail.

    Raises
    ------
    NoPath
        Arbitrary pairs of the leftover rows and columns do not give enough finite edges.
    """
    x, y = run.x.copy(), run.y.copy()
    tight.maximum_matching(graph.ptr, graph.col, x, y)
    rows, columns = np.flatnonzero(x < 0), np.flatnonzero(y < 0)
    cols = np.empty((rows.size, 1), dtype=np.int32)
    vals = np.empty((rows.size, 1))
    left: list[int] = columns.tolist()
    for k, i in enumerate(rows.tolist()):
        j = next((j for j in reversed(left) if np.isfinite(run.p.c[i, j])), None)
        if j is None:
            raise NoPath
        left.remove(j)
        cols[k, 0], vals[k, 0] = j, run.p.c[i, j]
    graph.add(rows, cols, vals, np.ones(rows.size, dtype=np.int64))
    for i, j, cost in zip(rows.tolist(), cols[:, 0].tolist(), vals[:, 0].tolist()):
        at: int = run.x[i]
        if at >= 0 and cost - run.v[j] < graph.cx[i] - run.v[at]:
            run.x[i] = run.y[at] = -1


def hard_seed(run: Run, v: Vector) -> Vector:
    """Choose the best seed for a cold problem on which column reduction matches less than half of the rows.

    Candidates besides `v`: the Min-Trick of the row means, a coarse seed (a quarter of the rows and columns solved
    exactly, extended to all), and the midpoint of these two. The largest dual bound wins.
    """
    p = run.p
    n = p.c.shape[0]
    with np.errstate(invalid="ignore"):
        means = p.c.mean(axis=1, dtype=np.float64)
    if not np.isfinite(means).all():
        return v
    from_means = min_trick(p, means)
    quarter = np.random.default_rng(n)
    rows, columns = (np.sort(quarter.choice(n, n // 4, replace=False)) for _ in range(2))
    part = Problem(np.ascontiguousarray(p.c[np.ix_(rows, columns)]), (n // 4, n // 4), False, False, p.integral, p.gate)
    _, minima, _ = survey(part)
    inner = Run.start(part, minima)
    (solve_core if n // 4 >= SMALL else cold_dense)(inner, minima)
    run.stats["row_scans"] += inner.stats["row_scans"] // 4
    u = np.empty(n)
    for start, stop in slices(p.c):
        duals.coarse_rows(p.c, columns, inner.v, u, start, stop)
    coarse = min_trick(p, u)
    seeds = [v, from_means, coarse, 0.5 * (from_means + coarse)]
    totals = dual_bounds(p, *seeds)
    best = int(np.argmax(totals))
    run.stats.update(cold_bound=totals[0], dual_bound=totals[best])
    return seeds[best]


def ask_network(run: Run, v: Vector, minima: Vector) -> Vector:
    """Choose among `v`, the network's prediction and their midpoint by the dual bound."""
    begin = time.perf_counter()
    predicted = min_trick(run.p, run.network.predict_rows(run.p.c, minima))
    run.stats["predict_time"] = time.perf_counter() - begin
    seeds = [v, predicted, 0.5 * (v + predicted)]
    totals = dual_bounds(run.p, *seeds)
    best = int(np.argmax(totals))
    run.stats.update(dual_bound=totals[best], seed=("cold", "warm", "mid")[best])
    return seeds[best]


def solve_core(run: Run, minima: Vector, seed: Vector | None = None) -> None:
    """Solve by the core method, cold (`seed` None) or from column duals.

    Raises
    ------
    NoPath
        No complete matching exists.
    """
    p = run.p
    n, m = p.c.shape
    cold = seed is None
    v = seed if seed is not None else (minima if p.square else np.zeros(m))
    if p.square:
        start = special(run, v, minima, cold=cold)
        if start is None:
            return
        v = start
    k = min(16 if cold and not p.across else SMALL_K, max(1, m // 2))
    graph, low, left = seeded(run, v, k)
    if cold and left > HARD * n and turn(run):
        p = run.p
        if m >= 2 * n:
            cold_dense(run, v)
            return
    for ask, limit in ((hard_seed, HARD), (ask_network, ASK)):
        if not (cold and p.square and left > limit * n) or (ask is ask_network and run.network is None):
            break
        better = hard_seed(run, v) if ask is hard_seed else ask_network(run, v, minima)
        if better is not v:
            v = better
            graph, low, left = seeded(run, v, k)
    if p.gate < np.inf:
        drop_gated(run)
    if cold or left > WARM_LEFT * n:
        run.stats["row_scans"] += core.reduce_core(
            graph.ptr, graph.col, graph.val, run.v, run.x, run.y, graph.cx, p.gate, PASSES, BUDGET * n
        )
    if "cold_bound" in run.stats and p.square:
        # Exact now, where a sample chose the seed.
        run.stats["dual_bound"] = float(v.sum() + low[low < np.inf].sum())
        if run.stats.get("fell_back"):
            run.stats["cold_bound"] = run.stats["dual_bound"]
    run.stats["greedy_fraction"] = 1.0 - left / n
    run.stats["augmentations"] = left
    if not rounds(run, graph, v, restart=cold and p.square):
        if p.across and not turn(run):
            finish_across(run, graph)
            return
        p = run.p
        now = run.v.copy() if p.square else np.minimum(run.v, 0.0)
        first, second = dual_bounds(p, v, now)
        warm_dense(run, v if first >= second else now)
    run.stats["core_size"] = int(graph.ptr[-1])


def turn(run: Run) -> bool:
    """Copy a matrix whose rows lie across the memory, so that they lie along it, unless it is large.

    The dense method reads single rows again and again, which takes up to eight times as long across the memory.
    """
    if not run.p.across or run.p.c.nbytes > COPIED:
        return False
    run.p = run.p.turned()
    return True


def finish_across(run: Run, graph: Core) -> None:
    """Search densely the rows that the core has left, without a copy."""
    price(run, graph, np.full(run.x.size, -np.inf))
    dense.repair(run.p.c, run.v, run.x, run.y)
    run.stats["core_size"] = int(graph.ptr[-1])
    search_dense(run)


def rounds(run: Run, graph: Core, v: Vector, *, restart: bool) -> bool:
    """Search and price until no edge outside the core is cheaper; False when the dense method should take over."""
    p = run.p
    n, m = p.c.shape
    few = max(4, n // 128)
    safe = np.full(n, -np.inf)
    completed = False
    before = 0
    for count in range(1, ROUNDS + 1):
        while True:
            try:
                graph.search(run)
            except NoPath:
                if completed:
                    return False
                completed = True
                try:
                    complete(run, graph)
                except NoPath:
                    return False
            else:
                break
        if not p.square:
            while core.repair_core(graph.ptr, graph.col, graph.val, run.v, run.x, run.y, graph.cx):
                graph.search(run)
            safe[:] = -np.inf
        found = price(run, graph, safe)
        run.stats["rounds"] = run.stats.get("rounds", 0) + 1
        if not found and (p.square or not ((run.y < 0) & (run.v < 0.0)).any()):
            return True
        if count == 2 and restart and found > 1.2 * before and found > few:
            v = row_first(p)
            fresh, _, _ = seeded(run, v, 16)
            graph.ptr, graph.col, graph.val, graph.cx = fresh.ptr, fresh.col, fresh.val, fresh.cx
            return rounds(run, graph, v, restart=False)
        before = found
        if graph.ptr[-1] > 0.15 * n * m + 32 * n:
            return False
        if count == ROUNDS and found <= n // 16:
            # Every other row has just been priced, so these rows can be searched densely and the answer is exact.
            if not p.square:
                dense.repair(p.c, run.v, run.x, run.y)
            search_dense(run)
            return True
    return False

"""Gated tracking problems against lapcpp and lapx, which take the same gate as `cost_limit`."""

import numpy as np
from lap_warmstart import solve
from lap_warmstart.compare import peer
from lap_warmstart.instances import iou_cost
from lemmata_core.timing import Benchmark, Ratio, paired

GATE = 0.7
SIZES = ((20, 25, None, None), (60, 80, None, None), (150, 180, 1.2, 1.2), (400, 450, 0.7, 0.7), (1000, 1100, 0.7, 0.7))


def frame(n, m, seed=0):
    """1 - IoU between n tracks and m detections, nine tenths of the tracks seen again; constant density."""
    rng = np.random.default_rng(seed)
    side = 1000.0 * np.sqrt(n / 150)
    seen = int(0.9 * n)
    a = rng.random((n, 2)) * side
    b = np.vstack([a[:seen] + 5.0 * rng.standard_normal((seen, 2)), rng.random((m - seen, 2)) * side])
    return iou_cost(np.hstack([a, a + 40.0]), np.hstack([b, b + 40.0]))


def gated(progress):
    """Every size against both peers; a pair and its gate are worth the same in all three."""
    import lap
    import lapcpp

    rows = []
    for n, m, bar, aim in progress.track(SIZES, "gated", len(SIZES)):
        cost = frame(n, m)
        ours = solve(cost, unmatched_cost=GATE)
        theirs = lapcpp.lapjv(cost, cost_limit=GATE)
        assert abs(ours.objective + GATE * ours.n_unmatched_rows - theirs[0] - GATE * (n - len(theirs[1]))) < 1e-9
        k = max(1, 20_000 // (n * 4))

        def repeat(function, k=k):
            for _ in range(k):
                function()

        mine = lambda c=cost, r=repeat: r(lambda: solve(c, unmatched_cost=GATE))  # noqa: E731
        t = paired(mine, lambda c=cost, r=repeat: r(lambda: lapcpp.lapjv(c, cost_limit=GATE)), repeats=9)
        case = f"gated 1 - IoU {n}x{m} ({1e6 * t.a_seconds / k:.1f} us)"
        rows.append(Ratio.of(case, "lapcpp", peer("lapcpp")[1], t, bar, aim))
        # lapx pads to (n + m) x (n + m), which takes long; one call of each a pair.
        once = lambda c=cost: solve(c, unmatched_cost=GATE)  # noqa: E731
        padded = lambda c=cost: lap.lapjv(c, extend_cost=True, cost_limit=GATE)  # noqa: E731
        t = paired(once, padded, repeats=5 if n < 1000 else 2)
        rows.append(Ratio.of(f"gated 1 - IoU {n}x{m}", "lapx", peer("lapx")[1], t))
    return rows


BENCHMARKS = (Benchmark("lap-warmstart/gated", gated),)

"""The paper's claims about speed: operations counted, times measured, and what neither shows said so."""

from __future__ import annotations

import time
from collections.abc import Callable

import numpy as np
import torch
from lemmata_core import Claim, Context, Evidence, Scale, Series, Table, Verdict
from lemmata_core.executor import one_thread
from lemmata_core.timing import Growth, growth

from cg_tensorproduct.fast_legendre import fast_operations
from cg_tensorproduct.full import FullTensorProduct
from cg_tensorproduct.irreps import Irreps
from cg_tensorproduct.plan_signal import signal_macs
from cg_tensorproduct.signals import SignalTensorProduct

PAPER = "arXiv 2602.21466"
COUNTED = (8, 12, 16, 24, 32, 40, 48, 56, 64)
TIMED = {Scale.SMOKE: (4, 6, 8), Scale.LAPTOP: (4, 6, 8, 10, 12, 16), Scale.FULL: (4, 8, 12, 16, 24, 32)}
SCANNED = {Scale.SMOKE: (2, 4, 6, 8), Scale.LAPTOP: tuple(range(2, 21, 2)), Scale.FULL: tuple(range(2, 33, 2))}
MIXED = {
    Scale.SMOKE: (4, 6, 8, 12, 16),
    Scale.LAPTOP: (4, 6, 8, 12, 16, 24, 32),
    Scale.FULL: (4, 8, 16, 24, 32, 48, 64),
}
# Exponents the paper states for the operations, with the tolerance of a fit over one octave.
EXPONENTS = {"dense": (6.0, 0.15), "blocked": (5.0, 0.15), "signal, matrix products": (5.0, 0.2)}


def operations(lmax: int) -> dict[str, float]:
    """Multiply-adds of the full product of degrees 0 .. lmax with itself, for one sample, by algorithm.

    "signal, matrix products" is what `algorithm="signal"` performs.
    "signal, fast" has FFTs in phi and `legendre_fast` for the analysis, without its limit on the degree: counted, not
    run.
    """
    dense = blocked = matmul = fast = 0.0
    for l1 in range(lmax + 1):
        for l2 in range(l1 + 1):
            twice = 1 if l1 == l2 else 2
            total = l1 + l2
            n_theta, n_phi = total // 2 + 1, 2 * total + 1
            dense += twice * ((2 * l1 + 1) * (2 * l2 + 1)) ** 2
            # the block of M >= 0 is n x n
            M = np.arange(total + 1)
            n = np.minimum(l1, M + l2) - np.maximum(-l1, M - l2) + 1
            blocked += twice * float(2 * (n * n).sum() - n[0] ** 2)  # complex, but for M = 0
            matmul += twice * signal_macs(l1, l2)
            counts = total - np.maximum(l1 - l2, np.abs(np.arange(-total, total + 1))) + 1
            # even and odd paths each have their transform; lower degrees than |l1 - l2| cannot be skipped by the
            # splitting
            skipped = np.maximum(l1 - l2 - np.abs(np.arange(-total, total + 1)), 0)
            analysis = 2 * sum(fast_operations(int(c + s), n_theta) for c, s in zip(counts, skipped))
            # three fields of each input and two signals to analyse, by FFT; one degree a field, so synthesis is cheap
            fields = 8 * n_theta * 2.5 * n_phi * np.log2(n_phi) if n_phi > 1 else 0.0
            fast += twice * (fields + 3 * n_theta * n_phi + 6 * n_theta * (total + 1) + analysis)
    return {"dense": dense, "blocked": blocked, "signal, matrix products": matmul, "signal, fast": fast}


def run_scaling_ops(ctx: Context) -> Evidence:
    """Count operations and fit exponents over the top octave."""
    found = map(operations, COUNTED)
    counts = list(ctx.progress.track(found, "scaling-ops", len(COUNTED)))
    top = [k for k, lmax in enumerate(COUNTED) if lmax >= 32]
    sizes = [COUNTED[k] + 1 for k in top]
    fits: dict[str, Growth] = {name: growth(sizes, [counts[k][name] for k in top]) for name in counts[0]}
    logs = [counts[k]["signal, fast"] / np.log2(COUNTED[k] + 1) ** 2 for k in top]
    fits["signal, fast / log^2"] = growth(sizes, logs)
    rows = [(name, fit.exponent, fit.low, fit.high) for name, fit in fits.items()]
    table = [(lmax, *(round(c) for c in count.values())) for lmax, count in zip(COUNTED, counts)]
    lines = {name: (list(COUNTED), [c[name] for c in counts]) for name in counts[0]}
    crossing = next((lmax for lmax, c in zip(COUNTED, counts) if c["signal, fast"] < c["blocked"]), None)
    return Evidence(
        headline=", ".join(f"{name} {fit.exponent:.2f}" for name, fit in fits.items()),
        values={name: fit.exponent for name, fit in fits.items()} | {"fast below blocked from": float(crossing or -1)},
        tables=(
            Table("Exponents in L + 1, L = 32 .. 64", ("algorithm", "exponent", "low", "high"), rows),
            Table("Multiply-adds a sample", ("L", *counts[0]), table),
        ),
        series=(
            Series("Operations of the full product", "L", "multiply-adds a sample", lines, log_x=True, log_y=True),
        ),
        settings={"L": COUNTED, "confidence": "95 %, Student"},
    )


def accept_scaling_ops(evidence: Evidence) -> Verdict:
    """Accept exponents within the tolerances, the fast variant's after division by log^2."""
    v = evidence.values
    targets = EXPONENTS | {"signal, fast / log^2": (4.0, 0.3)}
    parts = [f"{name} {v[name]:.2f} (stated {e:g} +- {tol:g})" for name, (e, tol) in targets.items()]
    off = [name for name, (e, tol) in targets.items() if abs(v[name] - e) > tol]
    reason = "; ".join(parts)
    return Verdict.does_not_hold(f"{reason}; outside: {', '.join(off)}") if off else Verdict.holds(reason)


def _cpu_seconds(call: Callable[[], object], at_least: float) -> float:
    """Median CPU time of a call over three or more runs that take `at_least` seconds together."""
    call()
    times: list[float] = []
    while len(times) < 3 or (sum(times) < at_least and len(times) < 50):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return float(np.median(times))


def _time_full(algorithm: str, lmax: int, batch: int, seed: int, at_least: float) -> float:
    spec = Irreps.spherical_harmonics(lmax)
    product = FullTensorProduct(spec, spec, algorithm=algorithm)
    generator = torch.Generator().manual_seed(seed)
    x, y = (torch.randn(batch, spec.dim, generator=generator) for _ in range(2))
    with torch.no_grad():
        return _cpu_seconds(lambda: product(x, y), at_least)


def run_scaling_time(ctx: Context) -> Evidence:
    """Measure CPU times of the full product and fit exponents."""
    sizes, seed = TIMED[ctx.scale], int(ctx.rng.integers(2**31))
    at_least = 0.02 if ctx.scale is Scale.SMOKE else 0.2
    # the dense matrix has (L + 1)^8 entries
    names = {"blocked": sizes, "signal": sizes, "dense": (3, 4, 5, 6) if ctx.scale is Scale.SMOKE else (3, 4, 5, 6, 8)}
    task = ctx.progress.task("scaling-time", sum(map(len, names.values())))
    lines: dict[str, tuple[list[float], list[float]]] = {}
    rows = []
    with task, one_thread():
        for name, chosen in names.items():
            seconds = []
            for lmax in chosen:
                seconds.append(max(_time_full(name, lmax, 16, seed, at_least), 1e-6))
                task.advance()
            lines[name] = [float(s) for s in chosen], seconds
            fit = growth([s + 1 for s in chosen], seconds)
            rows.append((name, f"L = {chosen[0]} .. {chosen[-1]}", fit.exponent, fit.low, fit.high))
    values = {f"exponent {row[0]}": float(row[2]) for row in rows}
    return Evidence(
        headline="CPU time exponents: "
        + ", ".join(f"{row[0]} {row[2]:.1f} [{row[3]:.1f}, {row[4]:.1f}]" for row in rows),
        values=values | {"largest L": float(sizes[-1])},
        tables=(
            Table(
                "Exponents of CPU time in L + 1",
                ("algorithm", "range", "exponent", "low", "high"),
                rows,
                timed=("exponent", "low", "high"),
            ),
        ),
        series=(Series("CPU time of the full product, batch 16", "L", "seconds", lines, log_x=True, log_y=True),),
        settings={"batch": 16, "dtype": "float32", "threads": 1, "L": names, "confidence": "95 %, Student"},
        timed=frozenset({*values, "headline", "CPU time of the full product, batch 16"}),
    )


def accept_scaling_time(evidence: Evidence) -> Verdict:
    """Accept an exponent of 4.3 at most for the signal product, once degrees are large enough to speak of growth."""
    v = evidence.values
    if v["largest L"] < 32:
        return Verdict.not_testable(
            f"degrees to {v['largest L']:.0f} are too small to speak of growth; measured: {evidence.headline}"
        )
    reason = f"signal product grows with exponent {v['exponent signal']:.2f} (accepted: 4.3)"
    return Verdict.of(v["exponent signal"] <= 4.3, reason)


def run_crossover(ctx: Context) -> Evidence:
    """Time signal and blocked products of one batch size at each degree."""
    sizes, seed = SCANNED[ctx.scale], int(ctx.rng.integers(2**31))
    at_least = 0.02 if ctx.scale is Scale.SMOKE else 0.15
    rows = []
    with one_thread():
        for lmax in ctx.progress.track(sizes, "crossover"):
            signal, blocked = (_time_full(name, lmax, 16, seed, at_least) for name in ("signal", "blocked"))
            rows.append((lmax, signal * 1e3, blocked * 1e3, signal / max(blocked, 1e-9)))
    won = [row[0] for row in rows if row[3] < 1]
    best = min(rows, key=lambda row: row[3])
    found = f"signal wins from L = {won[0]}" if won else f"no crossover to L = {sizes[-1]}"
    title = "Signal over blocked, CPU time, batch 16"
    return Evidence(
        headline=f"{found}; closest at L = {best[0]}: {best[3]:.2f} of blocked's time",
        values={"crossover": float(won[0]) if won else -1.0, "smallest ratio": best[3], "largest L": float(sizes[-1])},
        tables=(
            Table(title, ("L", "signal ms", "blocked ms", "ratio"), rows, timed=("signal ms", "blocked ms", "ratio")),
        ),
        series=(
            Series(title, "L", "ratio", {"signal / blocked": ([r[0] for r in rows], [r[3] for r in rows])}, log_y=True),
        ),
        settings={"batch": 16, "dtype": "float32", "threads": 1, "L": sizes},
        timed=frozenset({"crossover", "smallest ratio", "headline", title}),
    )


def accept_crossover(evidence: Evidence) -> Verdict:
    """Say where the signal product begins to win; only a measured crossing counts."""
    v = evidence.values
    if v["crossover"] < 0:
        return Verdict.not_testable(
            f"blocked wins at every L measured (to {v['largest L']:.0f}); no crossover is claimed"
        )
    return Verdict.holds(f"signal beats blocked from L = {v['crossover']:.0f} in this run")


def run_mimo(ctx: Context) -> Evidence:
    """Time the mixing product over degrees and fit the exponent."""
    sizes, seed = MIXED[ctx.scale], int(ctx.rng.integers(2**31))
    at_least = 0.05 if ctx.scale is Scale.SMOKE else 0.3
    seconds = []
    generator = torch.Generator().manual_seed(seed)
    with one_thread(), torch.no_grad():
        for lmax in ctx.progress.track(sizes, "mimo-speed"):
            product = SignalTensorProduct(lmax, lmax, lmax, channels=16, transform="separable")
            x, y = (torch.randn(16, 16, (lmax + 1) ** 2, generator=generator) for _ in range(2))
            seconds.append(max(_cpu_seconds(lambda p=product, x=x, y=y: p(x, y), at_least), 1e-6))  # type: ignore[misc]
    fit = growth([s + 1 for s in sizes], seconds)
    title = "CPU time of the mixing product, batch 16, 16 channels"
    rows = [(lmax, s * 1e3) for lmax, s in zip(sizes, seconds)]
    return Evidence(
        headline=f"mixing product grows with exponent {fit.exponent:.2f} [{fit.low:.2f}, {fit.high:.2f}], L = "
        f"{sizes[0]} .. {sizes[-1]}",
        values={"exponent": fit.exponent, "low": fit.low, "high": fit.high},
        tables=(Table(title, ("L", "ms"), rows, timed=("ms",)),),
        series=(Series(title, "L", "seconds", {"separable": (list(sizes), seconds)}, log_x=True, log_y=True),),
        settings={"batch": 16, "channels": 16, "dtype": "float32", "threads": 1, "confidence": "95 %, Student"},
        timed=frozenset({"exponent", "low", "high", "headline", title}),
    )


def accept_mimo(evidence: Evidence) -> Verdict:
    """Accept an exponent of 3.2 at most."""
    v = evidence.values
    reason = f"exponent {v['exponent']:.2f} [{v['low']:.2f}, {v['high']:.2f}] (accepted: 3.2)"
    return Verdict.of(v["exponent"] <= 3.2, reason)


SPEED_CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="cg-tensorproduct/scaling-ops",
        statement="The full product takes O(L^6) operations densely, O(L^5) by m-blocks or by signals with matrix "
        "products, and "
        "O(L^4 log^2 L) by signals with a fast Legendre transform.",
        source=f"{PAPER}, complexity table; the m-blocks are ours",
        paper="6, 5, 4 with logs",
        run=run_scaling_ops,
        accept=accept_scaling_ops,
    ),
    Claim(
        id="cg-tensorproduct/scaling-time",
        statement="The time of the full product by signals grows like L^4 up to logarithms.",
        source=f"{PAPER}, timing figure",
        paper="L^4",
        run=run_scaling_time,
        accept=accept_scaling_time,
        timed=True,
    ),
    Claim(
        id="cg-tensorproduct/crossover",
        statement="From some degree on the signal product beats the best exact algorithm for the full product.",
        source="ours: the paper compares with the dense product",
        run=run_crossover,
        accept=accept_crossover,
        timed=True,
    ),
    Claim(
        id="cg-tensorproduct/mimo-speed",
        statement="A product that mixes all degrees at once grows like L^2 to L^3 instead of L^5 to L^6.",
        source=f"{PAPER}, many-in, many-out setting",
        paper="L^2 to L^3",
        run=run_mimo,
        accept=accept_mimo,
        timed=True,
    ),
)

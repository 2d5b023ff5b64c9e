"""The paper's claims as code: what is exact. What is fast stands in `claims_speed`."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from lemmata_core import Claim, Context, Evidence, Scale, Series, Table, Verdict
from lemmata_core.executor import one_thread

from cg_tensorproduct.claims_speed import SPEED_CLAIMS
from cg_tensorproduct.claims_training import TRAINING_CLAIMS
from cg_tensorproduct.coupling import (
    bracket_coefficient,
    clebsch_gordan,
    coupling_coefficient,
    gaunt_coefficient,
    triangle,
)
from cg_tensorproduct.full import FullTensorProduct
from cg_tensorproduct.harmonics import tensor_harmonic_factor, tensor_harmonic_product
from cg_tensorproduct.legendre import gauss_grid, harmonics
from cg_tensorproduct.signals import signal_product

PAPER = "arXiv 2602.21466"
COMPANION = "arXiv 2603.08630"
COMPLETE_LMAX = {Scale.SMOKE: 4, Scale.LAPTOP: 12, Scale.FULL: 24}
VECTORS_LMAX = {Scale.SMOKE: 5, Scale.LAPTOP: 8, Scale.FULL: 8}
# Offsets (l1 - j1, l2 - j2, l3 - j3) by value irreps, each of which alone reaches every odd triple.
ALONE = {
    (1, 1, 1): ((1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0), (0, 0, 1), (0, 0, -1)),
    (0, 1, 1): ((0, 0, 1), (0, 0, -1), (0, 1, 0), (0, -1, 0)),
}


def _mapper(ctx: Context) -> Callable[..., Iterator[Any]]:
    """The executor's map, or the plain one at scale smoke, where loading torch in a worker costs more than the work."""
    if ctx.scale is not Scale.SMOKE:
        return ctx.executor.map

    def in_process(function: Callable[..., Any], *arguments: Iterable[Any]) -> Iterator[Any]:
        for values in zip(*arguments):
            with one_thread():
                result = function(*values)
            yield result

    return in_process


def worst_signal_error(lmax: int, seed: int) -> list[tuple[int, int, float, float]]:
    """Largest error of the signal product against the blocked one, for every pair with l1 = `lmax`, even and odd
    paths apart.
    """
    rng = np.random.default_rng(seed)
    rows: list[tuple[int, int, float, float]] = []
    for l2 in range(lmax + 1):
        x, y = (torch.as_tensor(rng.standard_normal((8, 2 * degree + 1))) for degree in (lmax, l2))
        spec = f"{lmax}e", f"{l2}e"
        difference = FullTensorProduct(*spec, algorithm="signal")(x, y) - FullTensorProduct(*spec, algorithm="blocked")(
            x, y
        )
        worst = [0.0, 0.0]
        start = 0
        for l3 in range(lmax - l2, lmax + l2 + 1):
            error = difference[:, start : start + 2 * l3 + 1].abs().max().item()
            odd = (lmax + l2 + l3) % 2
            worst[odd] = max(worst[odd], error)
            start += 2 * l3 + 1
        rows.append((lmax, l2, worst[0], worst[1]))
    return rows


def run_complete(ctx: Context) -> Evidence:
    """Compare every path of the signal product with the exact one."""
    lmax = COMPLETE_LMAX[ctx.scale]
    seeds = [int(s) for s in ctx.rng.integers(2**31, size=lmax + 1)]
    found = _mapper(ctx)(worst_signal_error, range(lmax + 1), seeds)
    rows = [row for rows in ctx.progress.track(found, "complete", lmax + 1) for row in rows]
    even, odd = max(r[2] for r in rows), max(r[3] for r in rows)
    by_l = [(k, max(r[2] for r in rows if r[0] == k), max(r[3] for r in rows if r[0] == k)) for k in range(lmax + 1)]
    paths = sum(2 * min(a, b) + 1 for a, b in itertools.product(range(lmax + 1), repeat=2))
    return Evidence(
        headline=f"all paths to l = {lmax} recovered, worst error {max(even, odd):.1e}",
        values={"worst_even": even, "worst_odd": odd, "paths": float(paths)},
        tables=(Table("Worst error by l1", ("l1", "even paths", "odd paths"), by_l),),
        series=(
            Series(
                "Signal product against the exact product",
                "l1",
                "largest absolute error",
                {
                    "even paths": ([r[0] for r in by_l], [max(r[1], 1e-17) for r in by_l]),
                    "odd paths": ([r[0] for r in by_l], [max(r[2], 1e-17) for r in by_l]),
                },
                log_y=True,
            ),
        ),
        settings={"lmax": lmax, "batch": 8, "dtype": "float64"},
    )


def accept_complete(evidence: Evidence) -> Verdict:
    """Accept an error of 1e-11 for unit normal inputs."""
    worst = max(evidence.values["worst_even"], evidence.values["worst_odd"])
    reason = (
        f"largest error {worst:.1e} over {evidence.values['paths']:.0f} pairs of degrees and outputs (accepted: 1e-11)"
    )
    return Verdict.of(worst <= 1e-11, reason)


def run_gaunt(ctx: Context) -> Evidence:
    """Look for odd paths in products of scalar signals."""
    lmax = {Scale.SMOKE: 4, Scale.LAPTOP: 8, Scale.FULL: 12}[ctx.scale]
    odd = even = 0.0
    pairs = list(itertools.product(range(1, lmax + 1), repeat=2))
    for l1, l2 in ctx.progress.track(pairs, "gaunt-incomplete"):
        x, y = (_packed(ctx, degree) for degree in (l1, l2))
        product = signal_product(x, y, couplings="scalar").even
        assert product is not None
        for l3 in range(abs(l1 - l2), l1 + l2 + 1):
            size = product[l3 * l3 : (l3 + 1) ** 2].abs().max().item()
            if (l1 + l2 + l3) % 2:
                odd = max(odd, size)
            else:
                even = max(even, size)
    # The triple product a . (b x c), the simplest number that tells left from right, needs the odd path 1 x 1 -> 1.
    vectors = torch.as_tensor(ctx.rng.standard_normal((3, 3)))
    determinant = torch.linalg.det(vectors).item()
    complete = _triple_product(vectors, "both") / (bracket_coefficient(1, 1, 1) * gaunt_coefficient(1, 1, 0))
    return Evidence(
        headline=f"odd paths of scalar signals are zero to {odd:.0e}; the bracket reaches a . (b x c)",
        values={
            "odd": odd,
            "even": even,
            "triple_product_error": abs(abs(complete) * np.sqrt(18) - abs(determinant)),
            "triple_product_scalar": abs(_triple_product(vectors, "scalar")),
        },
        settings={"lmax": lmax},
    )


def _packed(ctx: Context, degree: int) -> torch.Tensor:
    x = torch.zeros((degree + 1) ** 2, dtype=torch.float64)
    x[degree * degree :] = torch.as_tensor(ctx.rng.standard_normal(2 * degree + 1))
    return x


def _triple_product(vectors: torch.Tensor, couplings: str) -> float:
    """The degree-0 part of (a x b) times c, with degree 1 taken from the odd half where there is one, else from the
    even.
    """
    a, b, c = (torch.cat([torch.zeros(1, dtype=v.dtype), v]) for v in vectors)
    product = signal_product(a, b, couplings=couplings)
    half = product.even if product.odd is None else product.odd
    assert half is not None
    inner = torch.cat([torch.zeros(1, dtype=half.dtype), half[1:4]])
    scalar = signal_product(inner, c, couplings="scalar").even
    assert scalar is not None
    return scalar[0].item()


def accept_gaunt(evidence: Evidence) -> Verdict:
    """Accept odd parts of 1e-13 at most, with the triple product reached by the complete product only."""
    v = evidence.values
    reason = (
        f"odd part {v['odd']:.1e} (accepted: 1e-13), even part {v['even']:.2g}; a . (b x c) from the complete "
        f"product to "
        f"{v['triple_product_error']:.1e}, from scalar signals {v['triple_product_scalar']:.1e}"
    )
    holds = v["odd"] <= 1e-13 and v["even"] > 0.1 and v["triple_product_error"] <= 1e-12
    return Verdict.of(holds and v["triple_product_scalar"] <= 1e-13, reason)


def _triple(values: Iterable[Any]) -> tuple[int, int, int]:
    a, b, c = (int(value) for value in values)
    return a, b, c


def run_general(ctx: Context) -> Evidence:
    """Compare products of tensor harmonics on a grid with the 9j formula on random tuples."""
    wanted = 200
    rows: list[Any] = []
    task = ctx.progress.task("general-gaunt", wanted)
    with task:
        while len(rows) < wanted:
            j, s = (_triple(ctx.rng.integers(0, high, 3)) for high in (7, 2))
            offsets = _triple([ctx.rng.integers(-v, v + 1) for v in s])
            degrees = [a + b for a, b in zip(j, offsets)]
            if min(degrees) < 0 or not triangle(*j) or not all(triangle(*t) for t in zip(degrees, s, j)):
                continue
            x, y = (torch.as_tensor(ctx.rng.standard_normal(2 * degree + 1)) for degree in j[:2])
            found = tensor_harmonic_product(x, y, *j, s=s, offsets=offsets)
            C = torch.as_tensor(clebsch_gordan(*j))
            expected = tensor_harmonic_factor(j, s, offsets) * torch.einsum("abc,a,b->c", C, x, y)
            odd = sum(j) % 2 == 1 and expected.abs().max().item() > 1e-10
            rows.append((*j, *s, *offsets, (found - expected).abs().max().item(), odd))
            task.advance()
    worst, odd_count = max(row[-2] for row in rows), sum(row[-1] for row in rows)
    return Evidence(
        headline=f"{wanted} random products of tensor harmonics agree with the 9j formula to {worst:.1e}",
        values={"worst": worst, "nonzero_odd": float(odd_count), "tuples": float(wanted)},
        settings={"s": "0 or 1", "j": "0 .. 6", "tuples": wanted},
    )


def accept_general(evidence: Evidence) -> Verdict:
    """Accept 1e-12."""
    worst = evidence.values["worst"]
    reason = (
        f"largest error {worst:.1e} (accepted: 1e-12); {evidence.values['nonzero_odd']:.0f} of the products "
        f"are odd and not zero"
    )
    return Verdict.of(worst <= 1e-12 and evidence.values["nonzero_odd"] > 0, reason)


def run_vectors(ctx: Context) -> Evidence:
    """Count the odd triples that each single offset misses, and those that no vector signal reaches."""
    lmax = VECTORS_LMAX[ctx.scale]
    triples = [j for j in itertools.product(range(1, lmax + 1), repeat=3) if triangle(*j) and sum(j) % 2]
    rows = []
    cases = [(s, offsets) for s, choices in ALONE.items() for offsets in choices]
    for s, offsets in ctx.progress.track([*cases, ((1, 1, 1), (0, 0, 0))], "vectors-suffice"):
        sizes = [abs(tensor_harmonic_factor(j, s, offsets)) for j in triples]  # type: ignore[arg-type]
        rows.append((str(s), str(offsets), sum(size < 1e-12 for size in sizes), min(sizes)))
    missed = max(row[2] for row in rows[:-1])
    return Evidence(
        headline=f"each of {len(cases)} single offsets reaches all {len(triples)} odd triples with j <= {lmax}",
        values={"triples": float(len(triples)), "missed": float(missed), "control_missed": float(rows[-1][2])},
        tables=(Table("Odd triples missed", ("s", "offsets", "missed", "smallest factor"), rows),),
        settings={"lmax": lmax},
    )


def accept_vectors(evidence: Evidence) -> Verdict:
    """Accept if nothing is missed; the control, offset zero, must miss everything."""
    v = evidence.values
    reason = (
        f"{v['missed']:.0f} of {v['triples']:.0f} odd triples missed; without an offset {v['control_missed']:.0f} are"
    )
    return Verdict.of(v["missed"] == 0 and v["control_missed"] == v["triples"], reason)


def closed_form_errors(l1: int, lmax: int) -> tuple[float, float]:
    """Largest relative error of both factors against integrals on a grid, over l2 and l3, for one l1."""
    grid = gauss_grid(2 * lmax + 1, 4 * lmax + 1)
    value, slope, turn = harmonics(2 * lmax, grid.theta, grid.phi)
    weight = grid.weight[:, None]
    worst = [0.0, 0.0]
    # m1 = l1, m2 as wanted: one component of each path decides its factor; the component with the largest w3j is taken.
    for l2 in range(l1, lmax + 1):
        for l3 in range(l2 - l1, l1 + l2 + 1):
            C = clebsch_gordan(l1, l2, l3) / np.sqrt(2 * l3 + 1)
            a, b, c = np.unravel_index(np.abs(C).argmax(), C.shape)
            i, j, k = l1 * l1 + a, l2 * l2 + b, l3 * l3 + c
            odd = (l1 + l2 + l3) % 2
            field = slope[i] * turn[j] - turn[i] * slope[j] if odd else value[i] * value[j]
            found = (field * value[k] * weight).sum() / C[a, b, c]
            expected = coupling_coefficient(l1, l2, l3)
            worst[odd] = max(worst[odd], abs(found / expected - 1))
    return worst[0], worst[1]


def run_closed_form(ctx: Context) -> Evidence:
    """Compare the closed forms of both factors with integrals."""
    lmax = {Scale.SMOKE: 6, Scale.LAPTOP: 16, Scale.FULL: 16}[ctx.scale]
    found = _mapper(ctx)(closed_form_errors, range(lmax + 1), itertools.repeat(lmax))
    rows = [(l1, *pair) for l1, pair in enumerate(ctx.progress.track(found, "closed-form", lmax + 1))]
    even, odd = max(r[1] for r in rows), max(r[2] for r in rows)
    return Evidence(
        headline=f"closed forms of both factors agree with integrals to {max(even, odd):.1e}, l <= {lmax}",
        values={"even": even, "odd": odd},
        tables=(Table("Largest relative error", ("l1", "product", "bracket"), rows),),
        settings={"lmax": lmax},
    )


def accept_closed_form(evidence: Evidence) -> Verdict:
    """Accept a relative error of 1e-11."""
    worst = max(evidence.values["even"], evidence.values["odd"])
    reason = (
        f"relative error {evidence.values['odd']:.1e} (bracket), {evidence.values['even']:.1e} (product); "
        f"accepted: 1e-11"
    )
    return Verdict.of(worst <= 1e-11, reason)


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="cg-tensorproduct/complete",
        statement="A product of two signals and a product of their gradients together carry every path, of both "
        "parities.",
        source=f"{PAPER}, main theorem; one bracket a pair after {COMPANION}",
        paper="all paths",
        run=run_complete,
        accept=accept_complete,
    ),
    Claim(
        id="cg-tensorproduct/gaunt-incomplete",
        statement="Products of scalar signals contain no path with odd l1 + l2 + l3, so they cannot tell left from "
        "right.",
        source=f"{PAPER}; arXiv 2401.10216 for the product",
        paper="no odd path",
        run=run_gaunt,
        accept=accept_gaunt,
    ),
    Claim(
        id="cg-tensorproduct/general-gaunt",
        statement="A product of tensor harmonics is the plain coupling of their coefficients times a 9j symbol and "
        "a Gaunt factor.",
        source=f"{PAPER}, generalised Gaunt formula",
        paper="exact",
        run=run_general,
        accept=accept_general,
    ),
    Claim(
        id="cg-tensorproduct/vectors-suffice",
        statement="Vector signals (s <= 1) reach every odd path, and one product of a fixed offset is enough for "
        "all of them.",
        source=f"{PAPER}, completeness; {COMPANION} for the single product",
        paper="none missing",
        run=run_vectors,
        accept=accept_vectors,
    ),
    Claim(
        id="cg-tensorproduct/closed-form",
        statement="The factor of an odd path in the surface Poisson bracket has a closed form that never vanishes.",
        source=f"{COMPANION}; the form used here is ours",
        paper="exact",
        run=run_closed_form,
        accept=accept_closed_form,
    ),
    *SPEED_CLAIMS,
    *TRAINING_CLAIMS,
)

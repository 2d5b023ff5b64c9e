"""The claims, run by ``lemmata reproduce oco-anytime``."""

from __future__ import annotations

from lemmata_core import Claim, Evidence, Scale, Verdict

from oco_anytime import claims_moving as moving
from oco_anytime import claims_static as static

_PAPER = "arXiv 2510.22579"


def _anytime_ccv(e: Evidence) -> Verdict:
    v = e.values
    text = f"CCV_t is at most {v['worst_share']:.3f} of 4GD sqrt t log(t+2)"
    good = v["worst_share"] <= 1.0
    if v["exponent_tested"]:
        good = good and v["largest_exponent"] <= 0.65
        text += f"; its exponent on [T/10, T] is at most {v['largest_exponent']:.2f} (accepted: 0.65)"
    else:
        text += "; the exponent is judged at larger scales only"
    return Verdict.of(good, text)


def _anytime_regret(e: Evidence) -> Verdict:
    v = e.values
    good = v["worst_share"] <= 1.0 and v["excess"] <= 1e-9 and v["signs_low"] >= 0.2 and v["signs_high"] <= 1.5
    return Verdict.of(
        good,
        f"regret is at most {v['worst_share']:.3f} of 2GD(sqrt t + 1) and exceeds its certificate by {v['excess']:.1e} "
        f"at most; on random signs |regret|/sqrt t lies in [{v['signs_low']:.2f}, {v['signs_high']:.2f}] "
        "(accepted: [0.2, 1.5])",
    )


def _no_horizon(e: Evidence) -> Verdict:
    v = e.values
    good = v["fixed_ratio"] >= 4.0 and v["doubling_ratio"] >= 4.0
    return Verdict.of(
        good,
        f"against paper mode, the fixed horizon has {v['fixed_ratio']:.1f}x the CCV at T/10 and doubling "
        f"{v['doubling_ratio']:.1f}x at T (accepted: 4 each)",
    )


def _budgeted(e: Evidence) -> Verdict:
    v = e.values
    return Verdict.of(
        v["smallest_ratio"] >= 10.0 and v["largest_share"] <= 1.0,
        f"at least {v['smallest_ratio']:.1f}x less CCV than paper mode (accepted: 10); certified regret at most "
        f"{v['largest_share']:.2f} of B_t",
    )


def _clean_bounds(e: Evidence) -> Verdict:
    v = e.values
    return Verdict.of(
        v["regret_share"] <= 1.0 and v["ccv_share"] <= 1.0,
        f"regret at most {v['regret_share']:.3f} and CCV at most {v['ccv_share']:.3f} of their bounds; for the CCV "
        "this is trivial below 10^6 rounds, where the bound exceeds the largest violation possible",
    )


#: docs/theory, "What experts promise against a single learner"
_FEW_SHIFTS = (
    ". No theorem compares with a single learner: at 16 shifts the bounds of the two stand at 0.73 (unknown path) and "
    "0.86 (observed path, whose restarts forget the step size twice), at 64 shifts at 0.34 and 0.39"
)


def _dynamic_regret(e: Evidence) -> Verdict:
    v = e.values
    ratio = max(v["worst_ratio_unknown"], v["worst_ratio_observed"])
    good = v["worst_regret"] <= 2.0 and v["worst_certificate"] <= 12.0 and v["certified"] == 1.0 and ratio <= 0.8
    return Verdict.of(
        good,
        f"regret at most {v['worst_regret']:.2f} (accepted: 2) and the certificate with an observed path at most "
        f"{v['worst_certificate']:.1f} (accepted: 12) in units of sqrt(T(1+P)); against a single learner from 16 "
        f"shifts on at most {v['worst_ratio_unknown']:.2f} with an unknown and {v['worst_ratio_observed']:.2f} with an "
        "observed path (accepted: 0.8, mean of two streams)" + ("" if ratio <= 0.8 else _FEW_SHIFTS),
    )


def _dynamic_ccv(e: Evidence) -> Verdict:
    v = e.values
    text = f"CCV at most {v['worst_share']:.3f} of 4GD sqrt(T(1+P))"
    ratios = {s: v[f"worst_ratio_{s}"] for s in moving.PURSUITS if f"worst_ratio_{s}" in v}
    if not ratios:
        return Verdict.of(v["worst_share"] <= 1.0, text + "; many shifts are tried at larger scales only")
    listed = " and ".join(f"{r:.2f} ({s})" for s, r in ratios.items())
    text += f"; against a single learner from 64 shifts on at most {listed} (accepted: below 1 on both streams)"
    for s, ratio in ratios.items():
        if ratio >= 1.0:
            # the theory bounds regret and violation together, and says nothing of one of them alone
            text += (
                f". On {s} the single learner violates less because it gives up on the cost: its weights leave it such "
                f"small steps that it stays on the safe side, at {v[f'least_regret_ratio_{s}']:.1f} to "
                f"{v[f'most_regret_ratio_{s}']:.1f} times the regret"
            )
    return Verdict.of(v["worst_share"] <= 1.0 and max(ratios.values()) < 1.0, text)


def _optimistic(e: Evidence) -> Verdict:
    v = e.values
    good = v["perfect_ccv"] < 1e-6 and v["smallest_rise"] >= 0.0 and v["worst_share"] <= 1.0 and v["gap"] <= 1e-9
    when = "never" if v["smallest_rise"] >= 0.0 else "sometimes"
    return Verdict.of(
        good,
        f"CCV {v['perfect_ccv']:.1e} with perfect hints (accepted: 1e-6), {when} falling as their noise rises; "
        f"D^2/(2 eta) + R at most {v['worst_share']:.2f} of 2D sqrt(G^2 + Hm)",
    )


def _shortest_path(e: Evidence) -> Verdict:
    v = e.values
    good = v["worst_fixed"] <= 1.0 and v["worst_doubling"] <= 1.0
    reason = (
        f". No penalty has set in by then: the weights are at most {v['largest_weight']:.2f} and the violation at most "
        f"{100 * v['share_of_onset']:.0f}% of 4GD sqrt T log T, about where they reach 1, so that the order is that of "
        "the step sizes, which doubling starts anew"
    )
    return Verdict.of(
        good,
        "our data, not the paper's (RIPE Atlas delays, not available here): paper mode's CCV at T/100, T/10 and T is "
        f"at most {v['worst_fixed']:.2f} of the fixed horizon's and {v['worst_doubling']:.2f} of doubling's "
        "(accepted: 1 each). The paper's lower regret is not testable here: all regrets are negative, since violating "
        f"pays, and differ by {100 * v['regret_spread']:.0f}% at most" + ("" if good else reason),
    )


CLAIMS: tuple[Claim, ...] = (
    Claim(
        id="oco-anytime/anytime-ccv",
        statement="Cumulative violation is O(sqrt t log t) at every round t, without knowledge of a horizon.",
        source=f"{_PAPER}, abstract and main theorem",
        paper="CCV_t = O~(sqrt t) at all t",
        run=static.anytime_ccv,
        accept=_anytime_ccv,
    ),
    Claim(
        id="oco-anytime/anytime-regret",
        statement="Static regret is O(sqrt t) at every round t.",
        source=f"{_PAPER}, abstract and main theorem",
        paper="Regret_t = O(sqrt t) at all t",
        run=static.anytime_regret,
        accept=_anytime_regret,
    ),
    Claim(
        id="oco-anytime/no-horizon-needed",
        statement="One run without a horizon beats a fixed horizon looked at early, and restarts on doubling epochs.",
        source=f"{_PAPER}, introduction (motivation of the anytime method)",
        paper="no doubling trick, no restarts",
        run=static.no_horizon,
        accept=_no_horizon,
        # the gap opens with T: the bar of 4 is stated at 10^6 rounds, and at 2*10^4 says nothing
        scales=frozenset({Scale.LAPTOP, Scale.FULL}),
    ),
    Claim(
        id="oco-anytime/dynamic-regret",
        statement="Regret against moving comparators adapts to their path length P without knowing it.",
        source=f"{_PAPER}, dynamic regret (mechanism here: ours)",
        paper="O(sqrt((1+P) T))",
        run=moving.dynamic_regret,
        accept=_dynamic_regret,
    ),
    Claim(
        id="oco-anytime/dynamic-ccv",
        statement="Violation against moving comparators stays within sqrt((1+P) T).",
        source=f"{_PAPER}, dynamic regret (mechanism here: ours)",
        paper="O~(sqrt((1+P) T))",
        run=moving.dynamic_ccv,
        accept=_dynamic_ccv,
    ),
    Claim(
        id="oco-anytime/optimistic",
        statement="With predictions, regret and violation scale with the prediction error.",
        source=f"{_PAPER}, optimistic algorithm (mechanism here: inferred)",
        paper="bounds in the cumulative prediction error",
        run=moving.optimistic,
        accept=_optimistic,
    ),
    Claim(
        id="oco-anytime/shortest-path",
        statement="On online shortest paths the anytime method violates least (data differ from the paper's).",
        source=f"{_PAPER}, experiments",
        paper="lower violation and regret than the baselines",
        run=moving.shortest_path,
        accept=_shortest_path,
    ),
    Claim(
        id="oco-anytime/budgeted",
        statement="Ours, not the paper's: spending a stated share of the regret bound cuts violation at least tenfold.",
        source="this package, docs/theory (budgeted penalty)",
        paper="(not in the paper)",
        run=static.budgeted,
        accept=_budgeted,
    ),
    Claim(
        id="oco-anytime/summable-bounds",
        statement="With a square-summable schedule both clean bounds hold at every t (an inference from the paper).",
        source="this package, docs/theory; method of arXiv 2510.22579",
        paper="(inference)",
        run=static.clean_bounds,
        accept=_clean_bounds,
    ),
)

"""The claims that are training runs: what to train, and the rules that accept."""

from __future__ import annotations

from importlib import metadata
from importlib.util import find_spec
from statistics import fmean, stdev
from typing import TYPE_CHECKING, Any

from lemmata_core import Context, Evidence, Scale, Series, Table, Verdict

from optim_bas.claim_runs import NAMES, Cell, final_losses, gaps, loss_curves, run_cells

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

# AdamW's own best rates of a grid, which BAS then has to take over.
TEXT_RATES = {"kjv": 5e-3, "pydoc": 3e-3}
DIGITS = {"digits_pixels": (3e-3, 400), "digits_vit": (3e-3, 400), "digits_conv": (1e-2, 300)}
HEADS = ("heads", "nesterov-heads")
# These spend AdamW's eight bytes on a part of the weights; at scale full only.
DEARER = ("qkv", "embeddings")
RECIPE = "decay 0.1, betas (0.9, 0.95), clip 1.0, warm-up 10 %, cosine to 10 %"
SMOKE_STEPS = 20

_Results = dict[Cell, dict[str, Any]]


def seeds_of(scale: Scale, laptop: int = 3) -> range:
    """One seed at scale smoke, three at scale full; `laptop` where two cores have four minutes for all claims."""
    return range({Scale.SMOKE: 1, Scale.LAPTOP: laptop, Scale.FULL: 3}[scale])


def gap_table(results: _Results, groups: Iterable[tuple[str, str, Sequence[float], Sequence[float]]]) -> Table:
    """A row for every (problem, optimizer, its losses, AdamW's losses)."""
    rows = []
    for problem, name, ours, theirs in groups:
        found = gaps(ours, theirs)
        accuracy = [r["accuracy"] for c, r in results.items() if c.problem == problem and NAMES[c.optimizer] == name]
        rows.append(
            (
                problem,
                name,
                fmean(ours),
                stdev(ours) if len(ours) > 1 else None,
                fmean(ours) - fmean(theirs),
                fmean(found),
                ", ".join(f"{gap:+.1f}" for gap in found),
                fmean(accuracy),
            )
        )
    columns = ("problem", "optimizer", "loss", "deviation", "above AdamW", "in %", "each seed, %", "accuracy")
    return Table("Held-out loss at AdamW's own hyper-parameters", columns, rows)


def run_parity(context: Context) -> Evidence:
    """BAS and AdamW at AdamW's rate on two texts; the look-ahead for both; and the routes that spend more bytes."""
    smoke = context.scale is Scale.SMOKE
    steps = SMOKE_STEPS if smoke else 400
    kinds = ("adamw", "bas", "nesterov", "nadam")
    routes = {Scale.SMOKE: (), Scale.LAPTOP: HEADS, Scale.FULL: HEADS + DEARER}[context.scale]
    cells = [
        Cell(text, kind, rate, seed, steps)
        for text, rate in TEXT_RATES.items()
        for kind in (*kinds, *(routes if text == "kjv" else ()))
        # No verdict rests on AdamW's own look-ahead and on the routes: one seed where minutes count.
        for seed in seeds_of(context.scale, 1 if kind in ("nadam", *routes) else 3)
    ]
    if context.scale is Scale.FULL:
        cells += [Cell("kjv", k, 5e-3, 0, n, batch=b) for k in kinds for n, b in ((1200, 0), (250, 48))]
    results = run_cells(context, cells, "parity on text")
    groups, values = [], {}
    for text in TEXT_RATES:
        where = {"problem": text, "steps": steps, "batch": 0}
        base = final_losses(results, "adamw", **where)
        for kind in dict.fromkeys(cell.optimizer for cell in cells if cell.problem == text):
            ours = final_losses(results, kind, **where)
            groups.append((text, NAMES[kind], ours, base[: len(ours)]))
            values[f"{kind}_{text}"] = fmean(gaps(ours, base))
    return Evidence(
        headline="above AdamW: BAS {bas_kjv:+.1f} and {bas_pydoc:+.1f} %, with look-ahead {nesterov_kjv:+.1f} and "
        "{nesterov_pydoc:+.1f} %; AdamW itself with look-ahead {nadam_kjv:+.1f} and {nadam_pydoc:+.1f} %".format(
            **values
        ),
        values=values,
        tables=(gap_table(results, groups), *_longer(results)),
        series=tuple(
            loss_curves(
                results,
                [(k, rate) for k in kinds],
                f"Training on {text}",
                "nats a byte",
                problem=text,
                batch=0,
                steps=steps,
            )
            for text, rate in TEXT_RATES.items()
        ),
        settings={"steps": steps, "seeds": list(seeds_of(context.scale)), "rates": TEXT_RATES, "recipe": RECIPE},
    )


def _longer(results: _Results) -> tuple[Table, ...]:
    """The gap over steps and batch, where it was run."""
    rows = []
    for steps, batch in ((1200, 0), (250, 48)):
        base = final_losses(results, "adamw", steps=steps, batch=batch)
        for kind in ("bas", "nesterov", "nadam"):
            ours = final_losses(results, kind, steps=steps, batch=batch)
            if ours:
                rows.append((steps, batch or 12, NAMES[kind], fmean(ours), fmean(gaps(ours, base))))
    if not rows:
        return ()
    return (Table("The gap over steps and batch (kjv, seed 0)", ("steps", "batch", "optimizer", "loss", "in %"), rows),)


def accept_parity(evidence: Evidence) -> Verdict:
    """The default within 1 % of AdamW on both texts, mean of the seeds."""
    v = evidence.values
    text = (
        f"BAS {v['bas_kjv']:+.1f} % (kjv) and {v['bas_pydoc']:+.1f} % (pydoc) above AdamW; with nesterov=True "
        f"{v['nesterov_kjv']:+.1f} and {v['nesterov_pydoc']:+.1f} %. Models of 1e5 parameters in their steepest phase "
        "neither confirm nor refute parity at scale"
    )
    ok = v["bas_kjv"] <= 1 and v["bas_pydoc"] <= 1
    return Verdict.of(ok, text)


def run_parity_digits(context: Context) -> Evidence:
    """The same on three nets on digits, so that the finding does not rest on text."""
    smoke = context.scale is Scale.SMOKE
    problems = {"digits_vit": DIGITS["digits_vit"]} if smoke else DIGITS
    kinds = ("adamw", "bas", "nesterov")
    seeds = seeds_of(context.scale, 1)
    cells = [
        Cell(problem, kind, rate, seed, SMOKE_STEPS if smoke else steps)
        for problem, (rate, steps) in problems.items()
        for kind in kinds
        for seed in seeds
    ]
    results = run_cells(context, cells, "parity on digits")
    groups, values = [], {}
    for problem in problems:
        base = final_losses(results, "adamw", problem=problem)
        for kind in kinds:
            ours = final_losses(results, kind, problem=problem)
            groups.append((problem, NAMES[kind], ours, base))
            values[f"{kind}_{problem}"] = fmean(gaps(ours, base))
    shown = "; ".join(
        f"{p.removeprefix('digits_')} {values[f'bas_{p}']:+.1f} %, with look-ahead {values[f'nesterov_{p}']:+.1f} %"
        for p in problems
    )
    return Evidence(
        headline="above AdamW: " + shown,
        values=values,
        tables=(gap_table(results, groups),),
        series=tuple(
            loss_curves(results, [(k, rate) for k in kinds], f"Training on {problem}", "nats", problem=problem)
            for problem, (rate, _) in problems.items()
        ),
        settings={
            "seeds": list(seeds),
            "problems": {p: {"rate": r, "steps": s} for p, (r, s) in problems.items()},
            "recipe": RECIPE,
        },
    )


def accept_parity_digits(evidence: Evidence) -> Verdict:
    """The default within 1 % of AdamW on every net."""
    found = {k.removeprefix("bas_digits_"): v for k, v in evidence.values.items() if k.startswith("bas_")}
    text = "BAS above AdamW: " + ", ".join(f"{name} {gap:+.1f} %" for name, gap in found.items())
    return Verdict.of(max(found.values()) <= 1, text, asked="1 %")


def run_peers(context: Context) -> Evidence:
    """BAS beside other optimizers on the same text: those that share the second moment, Lion and Muon."""
    smoke = context.scale is Scale.SMOKE
    steps = SMOKE_STEPS if smoke else 400
    seeds = seeds_of(context.scale)
    # Gefen is no dependency, and takes seconds to make its codes, which twenty steps are not worth.
    gefen = ("gefen",) if not smoke and find_spec("gefen") is not None else ()
    shared = ("adamw", "bas", "nesterov", "mini", *gefen)
    cells = [Cell("kjv", kind, 5e-3, seed, steps) for kind in shared for seed in seeds]
    others = {"lion": 1e-3, "muon": 0.02}
    cells += [Cell("kjv", kind, rate, 0, steps) for kind, rate in others.items() if not smoke]
    results = run_cells(context, cells, "peers")
    base = final_losses(results, "adamw")
    kinds = dict.fromkeys(cell.optimizer for cell in cells)
    values = {}
    groups = []
    for kind in kinds:
        ours = final_losses(results, kind)
        groups.append(("kjv", NAMES[kind], ours, base[: len(ours)]))
        values[kind] = fmean(gaps(ours, base[: len(ours)]))
    headline = f"above AdamW: BAS {values['bas']:+.1f} %, Adam-mini's rule {values['mini']:+.1f} %"
    versions = {}
    if gefen:
        headline += f", Gefen {values['gefen']:+.1f} %"
        versions["gefen"] = metadata.version("gefen")
    chosen = [(kind, others.get(kind, 5e-3)) for kind in kinds]
    return Evidence(
        headline=headline,
        values=values,
        tables=(gap_table(results, groups),),
        series=(loss_curves(results, chosen, "Optimizers side by side on kjv", "nats a byte"),),
        settings={
            "steps": steps, "seeds": list(seeds), "rates": {"others": 5e-3, **others}, "recipe": RECIPE, **versions
        },
    )  # fmt: skip


def accept_peers(evidence: Evidence) -> Verdict:
    """At most as far above AdamW as Adam-mini's rule and, where it is installed, Gefen."""
    v = evidence.values
    text = f"above AdamW: BAS {v['bas']:+.1f} %, Adam-mini's rule {v['mini']:+.1f} %"
    ok = v["bas"] <= v["mini"]
    if "gefen" in v:
        text += f", Gefen {v['gefen']:+.1f} %"
        ok = ok and v["bas"] <= v["gefen"]
    else:
        text += "; Gefen was not run (scales laptop and full, where it is installed)"
    return Verdict.of(ok, text)


RATES = (1e-3, 3e-3, 1e-2, 3e-2)


def run_transfer(context: Context) -> Evidence:
    """A grid of learning rates for AdamW, BAS with and without look-ahead, and Lion."""
    smoke = context.scale is Scale.SMOKE
    steps = {Scale.SMOKE: SMOKE_STEPS, Scale.LAPTOP: 150, Scale.FULL: 400}[context.scale]
    others = {Scale.SMOKE: (), Scale.LAPTOP: ("lion",), Scale.FULL: ("nesterov", "lion")}[context.scale]
    kinds = ("adamw", "bas", *others)
    rates = (5e-3, 1e-2) if smoke else RATES
    cells = [Cell("kjv", kind, rate, 0, steps) for kind in kinds for rate in rates]
    results = run_cells(context, cells, "learning rates")
    losses = {kind: [final_losses(results, kind, lr=rate)[0] for rate in rates] for kind in kinds}
    best = {kind: min(range(len(rates)), key=lambda i, k=kind: losses[k][i]) for kind in kinds}  # type: ignore[misc]
    return Evidence(
        headline="best rates: " + ", ".join(f"{NAMES[kind]} {rates[best[kind]]:g}" for kind in kinds),
        values={kind: float(best[kind]) for kind in kinds},
        tables=(
            Table(
                "Held-out loss by learning rate",
                ("optimizer", *(f"{rate:g}" for rate in rates)),
                [(NAMES[kind], *losses[kind]) for kind in kinds],
            ),
        ),
        settings={"steps": steps, "seed": 0, "rates": list(rates), "recipe": RECIPE},
    )


def accept_transfer(evidence: Evidence) -> Verdict:
    """The best rate of the grid is AdamW's, or its neighbour."""
    away = evidence.values["bas"] - evidence.values["adamw"]
    text = f"BAS's best rate lies {away:+.0f} notches of the grid from AdamW's"
    return Verdict.of(abs(away) <= 1, text)


def run_fp8(context: Context) -> Evidence:
    """The same runs with the momentum in float8 and in float32."""
    smoke = context.scale is Scale.SMOKE
    steps = SMOKE_STEPS if smoke else 400
    seeds = seeds_of(context.scale, 2)
    cells = [Cell("kjv", kind, 5e-3, seed, steps) for kind in ("bas", "float32") for seed in seeds]
    results = run_cells(context, cells, "float8 momentum")
    eight, full = (final_losses(results, kind) for kind in ("bas", "float32"))
    found = gaps(eight, full)
    return Evidence(
        headline=f"float8 momentum {fmean(found):+.2f} % above float32 ({fmean(eight):.4f}, {fmean(full):.4f})",
        values={"gap": fmean(found)},
        tables=(
            Table(
                "Held-out loss, nats a byte",
                ("seed", "float8", "float32", "in %"),
                list(zip(seeds, eight, full, found)),
            ),
        ),
        settings={"steps": steps, "seeds": list(seeds), "rate": 5e-3, "recipe": RECIPE},
    )


def accept_fp8(evidence: Evidence) -> Verdict:
    """At most 0.5 % above, mean of the seeds."""
    gap = evidence.values["gap"]
    text = f"{gap:+.2f} % above float32 momentum"
    return Verdict.of(gap <= 0.5, text, asked="0.5 %")


def run_finetune(context: Context) -> Evidence:
    """A net that AdamW trained on one text goes on on the other, with AdamW and with BAS."""
    smoke = context.scale is Scale.SMOKE
    before, steps = (10, 10) if smoke else (200, 100)
    variants = {"adamw": False, "bas": False, "nesterov": False}
    cells = [
        Cell("pydoc", kind, 2e-3, seed, steps, pretrain=before, fresh=fresh)
        for seed in seeds_of(context.scale)
        for kind, fresh in (*variants.items(), *((("bas", True),) if context.scale is Scale.FULL else ()))
    ]
    results = run_cells(context, cells, "fine-tuning")
    base = [r for c, r in sorted(results.items(), key=lambda i: i[0].seed) if c.optimizer == "adamw"]
    rows, values = [], {}
    for name, kind, fresh in (("bas", "bas", False), ("nesterov", "nesterov", False), ("fresh", "bas", True)):
        own = [
            r for c, r in sorted(results.items(), key=lambda i: i[0].seed) if (c.optimizer, c.fresh) == (kind, fresh)
        ]
        if not own:
            continue
        end = gaps([r["held_out_loss"] for r in own], [r["held_out_loss"] for r in base])
        early = max(max(gaps(a["train_loss"][:10], b["train_loss"][:10])) for a, b in zip(own, base))
        values[name], values[f"{name}_early"] = fmean(end), early
        label = NAMES[kind] + (", state not taken over" if fresh else ", from AdamW's state")
        rows.append((label, fmean(end), ", ".join(f"{gap:+.2f}" for gap in end), early))
    return Evidence(
        headline=f"fine-tuned with BAS {values['bas']:+.2f} % above AdamW, worst of the first ten losses "
        f"{values['bas_early']:+.1f} %; with look-ahead {values['nesterov']:+.2f} %",
        values=values,
        tables=(Table("Above AdamW, in %", ("optimizer", "end", "each seed", "worst of the first ten losses"), rows),),
        settings={"before": f"{before} steps of AdamW at 5e-3 on kjv", "then": f"{steps} steps at 2e-3 on pydoc"},
    )


def accept_finetune(evidence: Evidence) -> Verdict:
    """At the end within 1 % of AdamW, mean of the seeds; none of the first ten losses more than 2 % above."""
    v = evidence.values
    text = f"{v['bas']:+.2f} % at the end, worst early loss {v['bas_early']:+.1f} %"
    ok = v["bas"] <= 1 and v["bas_early"] <= 2
    return Verdict.of(ok, text, asked="1 % and 2 %")


def run_convert(context: Context) -> Evidence:
    """AdamW to the middle of the run, then BAS with its state."""
    smoke = context.scale is Scale.SMOKE
    steps, switch = (SMOKE_STEPS, 10) if smoke else (400, 200)
    seeds = seeds_of(context.scale, 2)
    cells = [Cell("kjv", "adamw", 5e-3, seed, steps) for seed in seeds]
    cells += [Cell("kjv", "bas", 5e-3, seed, steps, switch=switch) for seed in seeds]
    results = run_cells(context, cells, "conversion")
    pairs = [tuple(results[c] for c in cells if c.seed == seed) for seed in seeds]
    early = [max(gaps(b["train_loss"][switch : switch + 10], a["train_loss"][switch : switch + 10])) for a, b in pairs]
    end = [gaps([b["held_out_loss"]], [a["held_out_loss"]])[0] for a, b in pairs]
    first, second = pairs[0]
    window = range(max(0, switch - 20), min(switch + 40, steps))
    lines = {
        name: ([float(i) for i in window], [run["train_loss"][i] for i in window])
        for name, run in (("AdamW", first), ("BAS from step " + str(switch), second))
    }
    return Evidence(
        headline=f"the first ten losses after the change are at most {max(early):+.2f} % above AdamW's; "
        f"end {fmean(end):+.1f} %",
        values={"early": max(early), "end": fmean(end)},
        tables=(
            Table(
                "Above AdamW, in %",
                ("seed", "worst of the first ten losses", "end"),
                list(zip(seeds, early, end)),
            ),
        ),
        series=(Series(f"The change at step {switch}", "step", "loss of the batch, nats a byte", lines),),
        settings={"steps": steps, "switch": switch, "seeds": list(seeds), "rate": 5e-3, "recipe": RECIPE},
    )


def accept_convert(evidence: Evidence) -> Verdict:
    """None of the first ten losses more than 0.2 % above AdamW's."""
    v = evidence.values
    text = f"worst of the first ten losses {v['early']:+.2f} %, end {v['end']:+.1f} %"
    return Verdict.of(v["early"] <= 0.2, text, asked="0.2 %")

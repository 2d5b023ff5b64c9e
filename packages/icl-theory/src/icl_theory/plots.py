"""Results as series, and series as pictures (extra `plot`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemmata_core import InvalidInput, Series

if TYPE_CHECKING:
    from icl_theory.risk import MixtureStudy, RiskReport
    from icl_theory.sweep import PhaseDiagram


def phase_series(diagram: PhaseDiagram) -> tuple[Series, ...]:
    """Mean error against the test share, a picture a model, rule and magnitude, a line a training share."""
    groups: dict[tuple[Any, ...], dict[float, dict[float, list[float]]]] = {}
    for row in diagram.table.rows:
        model, rule, kappa, share, alpha, _, error, *_ = row
        lines = groups.setdefault((model, rule, kappa), {})
        lines.setdefault(float(share), {}).setdefault(float(alpha), []).append(float(error))  # type: ignore[arg-type]
    names = {"mamba": "Mamba", "none": "linear attention"}
    return tuple(
        Series(
            f"{names.get(model, model)}, {rule} labels, kappa' = {kappa:.2f}",
            "share of outliers at test",
            "error",
            {f"p_a = {p:g}": _mean_line(curve) for p, curve in lines.items()},
        )
        for (model, rule, kappa), lines in groups.items()
    )


def _mean_line(curve: Mapping[float, Sequence[float]]) -> tuple[Sequence[float], ...]:
    xs = sorted(curve)
    means = [sum(curve[x]) / len(curve[x]) for x in xs]
    return xs, means, [min(curve[x]) for x in xs], [max(curve[x]) for x in xs]


def risk_series(report: RiskReport) -> Series:
    """Risk, Bayes gap and posterior variance against the number of pairs seen."""
    columns = list(report.per_k.columns)
    ks = [float(row[0]) for row in report.per_k.rows]  # type: ignore[arg-type]
    lines = {}
    for name in ("risk", "bayes_gap", "posterior_variance"):
        i = columns.index(name)
        value, error = ([float(row[j]) for row in report.per_k.rows] for j in (i, i + 1))  # type: ignore[arg-type]
        low, high = ([v + s * 1.96 * e for v, e in zip(value, error)] for s in (-1, 1))
        lines[name.replace("_", " ")] = (ks, value, low, high)
    return Series("Where the risk comes from", "pairs k", "squared error", lines)


def mixture_series(study: MixtureStudy) -> Series:
    """Weight of wrong types against the number of pairs, a line a true type."""
    lines = {f"true type {s.type}": (s.k.tolist(), s.wrong.tolist()) for s in study.types}
    return Series("Weight of wrong types", "pairs k", "E[1 - pi_true]", lines, log_y=True)


def draw(series: Sequence[Series], path: str | Path) -> None:
    """Draw series side by side into one file; the suffix decides the format.

    Parameters
    ----------
    series : sequence of Series
    path : path-like
        ``.svg``, ``.png`` or ``.pdf``.

    Raises
    ------
    InvalidInput
        Without matplotlib, or without a series.
    """
    target = Path(path)
    if target.suffix not in {".svg", ".png", ".pdf"}:
        raise InvalidInput.argument("path", expected="a .svg, .png or .pdf file", got=str(path))
    if not series:
        raise InvalidInput.argument("series", expected="one series at least", got="none")
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure
    except ImportError as err:
        raise InvalidInput.argument("plot", expected="the extra icl-theory[plot]", got="no matplotlib") from err
    figure = Figure(figsize=(5.2 * len(series), 3.8), layout="constrained")
    panels = figure.subplots(1, len(series), squeeze=False)[0]
    for panel, each in zip(panels, series):
        for name, (x, y, *band) in each.lines.items():
            (line,) = panel.plot(x, y, label=name)
            if band:
                panel.fill_between(x, *band, alpha=0.2, color=line.get_color(), linewidth=0)
        panel.set(title=each.title, xlabel=each.x_label, ylabel=each.y_label)
        if each.log_x:
            panel.set_xscale("log")
        if each.log_y:
            panel.set_yscale("log")
        panel.legend(fontsize="small")
    # Without a date, and with names of parts that do not change, the same figures give the same file.
    dated = {".svg": "Date", ".pdf": "CreationDate"}.get(target.suffix)
    with rc_context({"svg.hashsalt": "icl-theory"}):
        figure.savefig(path, metadata={dated: None} if dated else None)

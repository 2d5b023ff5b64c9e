"""Learning curves: on the terminal, and as a picture."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import os
    from pathlib import Path

Curve = tuple[list[float], list[float]]


def curves(path: str | os.PathLike[str]) -> dict[str, Curve]:
    """The returns that a ``progress.csv`` holds: of the training's episodes, and of evaluations where there are any.

    Returns
    -------
    dict of str to (x, y)
        Transitions and mean returns.
    """
    from rl_mfpo.loggers import read_csv

    found: dict[str, Curve] = {}
    rows = read_csv(path)
    for name, column in (("training", "rollout/return_mean"), ("evaluation", "eval/return_mean")):
        points = [(float(row["step"]), float(row[column])) for row in rows if row.get(column)]
        if points:
            found[name] = ([x for x, _ in points], [y for _, y in points])
    return found


def text_plot(lines: dict[str, Curve], *, width: int = 64, height: int = 14, x_label: str = "transitions") -> str:
    """Draw curves with characters.

    Parameters
    ----------
    lines : dict of str to (x, y)
        Drawn with ``*``, ``o``, ``+``, ... in their order.
    width, height : int
        Of the drawing in characters, axes not counted.
    x_label : str

    Returns
    -------
    str
        Lines without trailing blanks; "nothing to plot" where there is no finite point.
    """
    points = [
        (x, y, mark)
        for (xs, ys), mark in zip(lines.values(), "*o+x")
        for x, y in zip(xs, ys)
        if math.isfinite(x) and math.isfinite(y)
    ]
    if not points:
        return "nothing to plot"
    x_low, x_high = min(p[0] for p in points), max(p[0] for p in points)
    y_low, y_high = min(p[1] for p in points), max(p[1] for p in points)
    grid = [[" "] * width for _ in range(height)]
    for x, y, mark in points:
        column = round((x - x_low) / (x_high - x_low) * (width - 1)) if x_high > x_low else 0
        row = round((y_high - y) / (y_high - y_low) * (height - 1)) if y_high > y_low else height // 2
        grid[row][column] = mark
    labels = [f"{y_high:.4g}", *[""] * (height - 2), f"{y_low:.4g}"]
    margin = max(len(label) for label in labels)
    drawn = [f"{label:>{margin}} |{''.join(row)}".rstrip() for label, row in zip(labels, grid)]
    left, right = f"{x_low:.0f}", f"{x_high:.0f} {x_label}"
    legend = "   ".join(f"{mark} {name}" for name, mark in zip(lines, "*o+x"))
    axis = f"{'':>{margin}} +{'-' * width}"
    return "\n".join([*drawn, axis, f"{'':>{margin}}  {left}{right:>{max(width - len(left), len(right) + 1)}}", legend])


def picture(lines: dict[str, Curve], path: Path, title: str) -> bool:
    """Write the curves as a picture, if matplotlib is there (extra ``plot``).

    Returns
    -------
    bool
        Whether it was written.
    """
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        return False
    from lemmata_core.claims import Series
    from lemmata_core.page import plot_style
    from lemmata_core.svg import draw, lines_of

    series = Series(title, "transitions", "return", {k: (tuple(x), tuple(y)) for k, (x, y) in lines.items()})
    with plot_style():
        figure = draw(series, lines_of(series))
        if len(lines) > 1:
            figure.axes[0].legend(labels=list(lines))
        figure.savefig(path, dpi=150)
    return True

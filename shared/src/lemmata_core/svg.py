"""Plots as inline SVG whose colours follow the page, light and dark. Needs matplotlib (extra ``report``)."""

from __future__ import annotations

import io
import math
import re
import textwrap
import warnings
import xml.etree.ElementTree as ET
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from lemmata_core.errors import InvalidInput
from lemmata_core.markup import clean, number_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from matplotlib.axes import Axes
    from matplotlib.axis import Axis
    from matplotlib.figure import Figure
    from numpy.typing import NDArray

    from lemmata_core.claims import Series

# Okabe and Ito's colours, darkened until each has a contrast of 3:1 on white. page.css has their twins for the dark.
PALETTE = ("#0072b2", "#c8500a", "#00845f", "#a8498f", "#a06b00", "#4b5bd0", "#5f6770")
INK, MUTED, GRID = "#1c2128", "#59636e", "#d4dae0"
# matplotlib's own colours in a figure that was not drawn with `plot_style`.
_TAB10 = ("#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#17becf", "#7f7f7f")
_VARIABLES = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    GRID: "var(--grid)",
    "#000000": "currentColor",
    "#262626": "currentColor",
    "#ffffff": "var(--surface)",
    "#b0b0b0": "var(--grid)",
    "#cccccc": "var(--grid)",
    **{hue: f"var(--line-{i + 1})" for i, hue in enumerate(_TAB10)},
    **{hue: f"var(--line-{i + 1})" for i, hue in enumerate(PALETTE)},
}
DASHES = ("", "5 2", "1.5 1.5", "6 2 1.5 2")
MARKERS = ("o", "s", "^", "D", "v", "P", "X")
_SHAPES = (  # the markers, for a legend
    "M11.4 6a3.6 3.6 0 1 0 7.2 0a3.6 3.6 0 1 0 -7.2 0z",
    "M11.5 2.5h7v7h-7z",
    "M15 1.5l4 8h-8z",
    "M15 1.2l4.8 4.8l-4.8 4.8l-4.8 -4.8z",
    "M15 10.5l4 -8h-8z",
    "M13.4 1.5h3.2v2.9h2.9v3.2h-2.9v2.9h-3.2v-2.9h-2.9v-3.2h2.9z",
    "M12 2l3 2.3l3 -2.3l1 1l-2.3 3l2.3 3l-1 1l-3 -2.3l-3 2.3l-1 -1l2.3 -3l-2.3 -3z",
)
SIZE = (5.3, 3.2)  # inches; 381 units wide, so that a phone shows the text at nearly its nominal size
FONT = 10.5  # units
_LARGEST = 1e150  # beyond it an axis with its margins and ticks may overflow
_MOST_POINTS = 1000
_MOST_MARKERS = 30


@dataclass(frozen=True)
class Line:
    """A line as it is drawn: finite points only, in the order given; `low` and `high` are both there or both None."""

    name: str
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    low: NDArray[np.float64] | None
    high: NDArray[np.float64] | None
    dropped: int

    @property
    def marked(self) -> bool:
        """Whether each point has a marker; many points are a line alone."""
        return self.x.size <= _MOST_MARKERS


@contextmanager
def plot_style() -> Iterator[None]:
    """Let matplotlib draw as the pages here do: their palette, grid and sizes.

    Figures made inside the block follow the page's light and dark colours exactly; of others, black, white, greys and
    the default colour cycle do.
    """
    import matplotlib as mpl
    from cycler import cycler

    with mpl.rc_context(
        {
            "axes.axisbelow": True,
            "axes.edgecolor": MUTED,
            "axes.grid": True,
            "axes.labelcolor": INK,
            "axes.linewidth": 0.8,
            "axes.prop_cycle": cycler(color=PALETTE),
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": 11.5,
            "figure.dpi": 72,
            "figure.figsize": SIZE,
            "font.size": FONT,
            "grid.color": GRID,
            "grid.linewidth": 0.7,
            "legend.edgecolor": GRID,
            "legend.framealpha": 0.8,
            "lines.linewidth": 1.8,
            "lines.markersize": 4.5,
            "text.color": INK,
            "xtick.color": MUTED,
            "xtick.labelcolor": INK,
            "ytick.color": MUTED,
            "ytick.labelcolor": INK,
        }
    ):
        yield


def lines_of(series: Series) -> list[Line]:
    """The lines of `series` as arrays, without the points that its axes cannot show.

    Raises
    ------
    InvalidInput
        Where a line is not ``(x, y)`` or ``(x, y, low, high)`` of one length, or holds something but numbers.
    """
    return [_line(series, name, columns) for name, columns in series.lines.items()]


def _line(series: Series, name: str, columns: Sequence[Sequence[float]]) -> Line:
    argument = f"series {series.title!r}, line {name!r}"
    expected = "(x, y) or (x, y, low, high), sequences of numbers of one length"
    if len(columns) not in {2, 4}:
        raise InvalidInput.argument(argument, expected=expected, got=f"{len(columns)} sequences")
    try:
        data = [_numbers(column) for column in columns]
    except (TypeError, ValueError, OverflowError) as err:
        raise InvalidInput.argument(argument, expected=expected, got=str(err)) from err
    if len({column.size for column in data}) != 1:
        raise InvalidInput.argument(argument, expected=expected, got=f"lengths {[c.size for c in data]}")
    x, y = data[:2]
    shown = (np.abs(x) < _LARGEST) & (np.abs(y) < _LARGEST)
    if series.log_x:
        shown &= x > 1 / _LARGEST
    if series.log_y:
        shown &= y > 1 / _LARGEST
    kept = np.flatnonzero(shown)
    kept = kept[_thin([column[kept] for column in data[1:]])]
    low, high = [np.clip(column[kept], -_LARGEST, _LARGEST) for column in data[2:]] or (None, None)
    return Line(clean(name), x[kept], y[kept], low, high, int((~shown).sum()))


def _numbers(column: Sequence[Any]) -> NDArray[np.float64]:
    # None and the strings "nan", "inf", "-inf" stand for what JSON cannot hold.
    return np.array([math.nan if value is None else float(value) for value in column], dtype=np.float64)


def _thin(columns: Sequence[NDArray[np.float64]]) -> NDArray[np.intp]:
    # Of a long line each bucket keeps its lowest and highest point, so that no peak is lost.
    n = columns[0].size
    if n <= _MOST_POINTS:
        return np.arange(n)
    kept = {0, n - 1}
    for bucket in np.array_split(np.arange(n), _MOST_POINTS // 4):
        for column in columns:
            values = np.nan_to_num(column[bucket])
            kept.update((int(bucket[values.argmin()]), int(bucket[values.argmax()])))
    return np.array(sorted(kept))


def draw(series: Series, lines: Sequence[Line]) -> Figure:
    """Draw `lines`, of which one at least has a point, on the axes of `series`."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=SIZE, dpi=72)
    axes = figure.add_subplot()
    axes.set_xscale("log" if series.log_x else "linear")
    axes.set_yscale("log" if series.log_y else "linear")
    for i, line in enumerate(lines):
        colour = PALETTE[i % len(PALETTE)]
        if line.low is not None and line.high is not None:
            _band(axes, line, colour, log=series.log_y)
        dash = [float(v) for v in DASHES[i // len(PALETTE) % len(DASHES)].split()]
        axes.plot(
            line.x,
            line.y,
            color=colour,
            linestyle=(0, dash) if dash else "-",
            linewidth=1.8 if line.marked else 1.4,
            marker=MARKERS[i % len(MARKERS)] if line.marked else "",
            gid=f"line-{i}",
            zorder=3 - i / (len(lines) + 1),  # the first, mostly ours, lies on top
        )
    x_label, y_label = textwrap.fill(clean(series.x_label), 60), textwrap.fill(clean(series.y_label), 36)
    # A label may hold dollars: it is text, not a formula.
    axes.set_xlabel(x_label, parse_math=False)
    axes.set_ylabel(y_label, parse_math=False)
    _ticks(axes.xaxis, np.concatenate([line.x for line in lines]), log=series.log_x, horizontal=True)
    _ticks(axes.yaxis, np.concatenate([line.y for line in lines]), log=series.log_y, horizontal=False)
    _margins(figure, axes)
    return figure


def _margins(figure: Figure, axes: Axes) -> None:
    # matplotlib's own layouts draw the figure once more to measure it, and a report has a hundred figures.
    texts = axes.yaxis.get_major_formatter().format_ticks(axes.yaxis.get_majorticklocs().tolist())
    digit = 0.65 * FONT
    lines = [text.count("\n") + 1 if text else 0 for text in (axes.get_xlabel(), axes.get_ylabel())]
    left = 7 + digit * max(map(len, texts), default=1) + 1.3 * FONT * lines[1]
    bottom = 9 + FONT + 1.4 * FONT * lines[0]
    top = 6 + (1.5 * FONT if axes.yaxis.get_major_formatter().get_offset() else 0)
    width, height = (72 * inches for inches in SIZE)
    figure.subplots_adjust(left=left / width, right=1 - 16 / width, bottom=bottom / height, top=1 - top / height)


def key(i: int, *, marked: bool) -> str:
    """The sign of line `i` in a legend, as SVG."""
    colour = f"var(--line-{i % len(PALETTE) + 1})"
    dash = DASHES[i // len(PALETTE) % len(DASHES)]
    dashes = f' stroke-dasharray="{dash}"' if dash else ""
    shape = f'<path d="{_SHAPES[i % len(_SHAPES)]}" style="fill: {colour}"/>' if marked else ""
    return (
        f'<svg viewBox="0 0 30 12" aria-hidden="true"><path d="M0 6h30" style="stroke: {colour}" stroke-width="2"'
        f"{dashes}/>{shape}</svg>"
    )


def _band(axes: Axes, line: Line, colour: str, *, log: bool) -> None:
    low, high = line.low, line.high
    if log and low is not None and high is not None:
        # A band that reaches zero ends at the axis, far below the line.
        floor = float(line.y.min()) / 1e3 if line.y.size else 1.0
        low, high = np.maximum(low, floor), np.maximum(high, floor)
    if low is not None and high is not None:
        axes.fill_between(line.x, low, high, color=colour, alpha=0.2, linewidth=0)


def _ticks(axis: Axis, values: NDArray[np.float64], *, log: bool, horizontal: bool) -> None:
    from matplotlib import ticker

    if not log:
        formatter = ticker.ScalarFormatter(useOffset=False, useMathText=False)
        formatter.set_powerlimits((-3, 5))
        axis.set_major_formatter(formatter)
        axis.set_major_locator(ticker.MaxNLocator(6))
        return
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number_text(float(value))))
    axis.set_minor_locator(ticker.NullLocator())
    points = np.unique(values)
    logs = np.log10(points)
    span = float(np.ptp(logs))
    if horizontal and 2 <= points.size <= 7 and float(np.diff(logs).min()) >= span / 8:
        axis.set_major_locator(ticker.FixedLocator(points.tolist()))  # the sizes that were measured
    elif span < 0.7:
        axis.set_major_locator(ticker.MaxNLocator(5))
    else:
        subs = (1.0, 2.0, 5.0) if span < 2 else (1.0,)
        axis.set_major_locator(ticker.LogLocator(base=10, subs=subs, numticks=7 if len(subs) == 1 else 12))


def describe(series: Series, lines: Sequence[Line]) -> str:
    """A sentence a line for those who do not see the plot."""
    scales = [name for name, log in (("x", series.log_x), ("y", series.log_y)) if log]
    note = f" ({' and '.join(scales)} logarithmic)" if scales else ""
    parts = [f"{series.y_label} against {series.x_label}{note}."]
    for line in lines:
        x, y = ([number_text(float(value)) for value in column] for column in (line.x, line.y))
        if not x:
            parts.append(f"{line.name}: nothing to show.")
        elif len(x) == 1:
            parts.append(f"{line.name}: {y[0]} at {x[0]}.")
        else:
            low, high = number_text(float(line.y.min())), number_text(float(line.y.max()))
            parts.append(f"{line.name}: from {y[0]} at {x[0]} to {y[-1]} at {x[-1]}, lowest {low}, highest {high}.")
    return clean(" ".join(parts))


def inline(figure: Figure, *, prefix: str, title: str, description: str, names: Sequence[str] = ()) -> str:
    """Write a figure as SVG to stand inside an HTML page.

    Parameters
    ----------
    figure : matplotlib.figure.Figure
        Drawn as it is, on a transparent ground; not changed.
    prefix : str
        Before every id, so that ids of several plots in one page differ.
    title, description : str
        The accessible name and description.
    names : sequence of str
        What to show when the pointer is on the artist with the gid ``line-0``, ``line-1``, ...

    Returns
    -------
    str
        An ``<svg>`` element; the same for the same input. Text stays text. Colours of `plot_style`, black, white, greys
        and matplotlib's default cycle are CSS variables of the page.
    """
    import matplotlib as mpl

    buffer = io.BytesIO()
    with warnings.catch_warnings(), np.errstate(all="ignore"), mpl.rc_context():
        warnings.simplefilter("ignore")  # a glyph that the measuring font lacks: the browser's has it
        mpl.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lemmata"})
        figure.savefig(buffer, format="svg", dpi=72, transparent=True, metadata={"Date": None, "Creator": None})
    root = ET.fromstring(clean(buffer.getvalue().decode("utf-8")))  # noqa: S314 - matplotlib wrote it just now
    _strip(root)
    _recolour(root)
    _label_lines(root, names)
    _rename_ids(root, prefix)
    for attribute in ("width", "height", "version"):
        root.attrib.pop(attribute, None)
    root.attrib.update(
        {
            "role": "img",
            "aria-labelledby": f"{prefix}-title {prefix}-desc",
            "stroke-linejoin": "round",
            "fill": "currentColor",
        }
    )
    for place, (tag, text) in enumerate((("title", title), ("desc", description))):
        element = ET.Element(tag, {"id": f"{prefix}-{tag}"})
        element.text = clean(text)
        root.insert(place, element)
    return ET.tostring(root, encoding="unicode")


def _strip(root: ET.Element) -> None:
    # Namespaces, metadata, and a style element that would rule the whole page; digits that no screen shows.
    for parent in root.iter():
        parent.tag = parent.tag.rpartition("}")[2]
        for child in list(parent):
            if child.tag.rpartition("}")[2] in {"metadata", "style"}:
                parent.remove(child)
        for name in list(parent.attrib):
            value = parent.attrib.pop(name)
            if name in {"d", "x", "y", "points"}:
                value = re.sub(r"-?\d+\.\d+", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), value)
            parent.attrib[name.rpartition("}")[2]] = " ".join(value.split())
        for part in ("text", "tail"):
            if not (getattr(parent, part) or "").strip():
                setattr(parent, part, None)


def _recolour(root: ET.Element) -> None:
    for element in root.iter():
        for name in ("style", "fill", "stroke"):
            value = element.get(name)
            if value is not None:
                value = re.sub(r"#[0-9a-fA-F]{6}", lambda m: _VARIABLES.get(m[0].lower(), m[0]), value)
                # The page's fonts; every one of them runs narrower than the font that measured.
                element.set(name, re.sub(r"font: ([^;]*?px) [^;]*", r"font: \1 var(--font)", value))


def _label_lines(root: ET.Element, names: Sequence[str]) -> None:
    groups = {element.get("id"): element for element in root.iter("g")}
    for i, name in enumerate(names):
        group = groups.get(f"line-{i}")
        if group is not None:
            title = ET.Element("title")
            title.text = clean(name)
            group.insert(0, title)


def _rename_ids(root: ET.Element, prefix: str) -> None:
    used: dict[str, str] = {}
    for element in root.iter():
        for value in element.attrib.values():
            for name in re.findall(r"url\(#([^)]+)\)", value) + re.findall(r"^#(.+)$", value):
                used.setdefault(name, f"{prefix}-{len(used)}")
    for element in root.iter():
        own = element.attrib.pop("id", None)
        if own in used:
            element.set("id", used[own])
        for name, value in element.attrib.items():
            if "#" in value:
                element.set(name, _redirect(value, used))


def _redirect(value: str, used: dict[str, str]) -> str:
    def new(match: re.Match[str]) -> Any:
        return match[1] + used[match[2]] + match[3] if match[2] in used else match[0]

    return re.sub(r"(url\(#)([^)]+)(\))", new, re.sub(r"^(#)(.+)()$", new, value))

"""One self-contained HTML page of text, tables and plots: light and dark, on a phone and on paper, without a network.

Plots need matplotlib (extra ``report``), which is loaded when the first one is drawn.

Examples
--------
>>> from lemmata_core import Series, Table
>>> from lemmata_core.page import Page
>>> page = Page("Two sorts", subtitle="Measured on one core")
>>> part = page.section("Times")
>>> part.table(Table("Seconds", ["n", "quick", "merge"], [[1000, 0.11, 0.13], [2000, 0.24, 0.28]]))
>>> "<table" in page.html()
True
"""

from __future__ import annotations

import base64
import hashlib
import re
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemmata_core.check import one_of
from lemmata_core.errors import InvalidInput
from lemmata_core.files import atomic_write
from lemmata_core.markup import Cell, flat, quoted, table_html, tag, text_html, value_html

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from lemmata_core.claims import Series, Table

__all__ = ["Cell", "Page", "Section", "plot_style"]

_MANY_ROWS = 15


def plot_style() -> Any:
    """A context in which matplotlib draws with the page's palette, grid and sizes.

    Returns
    -------
    context manager
        Figures made inside it follow light and dark exactly. Of others, black, white, greys and the default colour
        cycle do.
    """
    _require_matplotlib()
    from lemmata_core import svg

    return svg.plot_style()


class Section:
    """A part of a page. Its methods append. Made by `Page.section`.

    Attributes
    ----------
    id : str
        The anchor of a section; else empty.
    """

    def __init__(self, page: Page, level: int) -> None:
        self.id = ""
        self._page = page
        self._level = level
        self._parts: list[str | Section] = []
        self._open = self._close = ""

    def section(self, title: str, *, id: str | None = None) -> Section:  # noqa: A002 - HTML's word
        """Begin a section inside this one.

        Parameters
        ----------
        title : str
        id : str, optional
            The anchor; made from the title unless given. Letters, digits and ``_ . / -`` stand, the rest is turned
            into hyphens; where it is taken already, ``-2`` is added.

        Returns
        -------
        Section
            Its `id` is the anchor, for links to it.
        """
        level = min(self._level + 1, 6)
        part = self._add(Section(self._page, level))
        part.id = self._page._anchor(title if id is None else id)
        link = tag("a", "#", class_="anchor", href=f"#{part.id}", aria_label=f"Link to {title}")
        part._open = f"<section id={quoted(part.id)}>{tag(f'h{level}', text_html(title) + link)}"
        part._close = "</section>"
        return part

    def details(self, summary: str) -> Section:
        """Begin a part that is closed until the reader opens it, or prints.

        Returns
        -------
        Section
        """
        part = self._add(Section(self._page, self._level))
        part._open, part._close = f"<details>{tag('summary', text_html(summary))}", "</details>"
        return part

    def text(self, text: str, *, kind: str = "") -> None:
        """Append paragraphs, which blank lines part. Nothing in `text` is markup.

        Parameters
        ----------
        text : str
        kind : {"", "lead", "note"}
            A finding to be seen first, or small print.
        """
        one_of(kind, "kind", ("", "lead", "note"))
        for paragraph in re.split(r"\n\s*\n", str(text).strip()):
            if paragraph:
                self._parts.append(tag("p", text_html(paragraph), class_=kind or None))

    def badge(self, value: str, text: str = "", *, kind: str = "neutral") -> None:
        """Append a verdict: a badge of `kind` (see `Cell`), and what there is to say on it."""
        self._parts.append(tag("p", f"{value_html(Cell(value, kind=kind))} {text_html(text)}".rstrip()))

    def code(self, text: str, *, wrap: bool = False) -> None:
        """Append text as it stands: a command, a traceback; long lines scroll, or `wrap`."""
        self._parts.append(tag("pre", text_html(text), class_="wrap" if wrap else None, tabindex="0"))

    def facts(self, facts: Mapping[str, object]) -> None:
        """Append names with their values; a nested mapping or sequence is written out in one line."""
        if facts:
            pairs = [tag("dt", text_html(k)) + tag("dd", value_html(flat(v))) for k, v in facts.items()]
            self._parts.append(tag("dl", "".join(pairs), class_="facts"))

    def table(
        self, table: Table, *, search: bool | None = None, filters: Sequence[str] = (), stack: bool = False
    ) -> None:
        """Append a table; a click on a column's name sorts by it.

        Parameters
        ----------
        table : Table
            Values may be `Cell` too. Numbers are shown with four digits and sorted in full; the strings "nan", "inf"
            and "-inf" stand for the numbers; None is an empty cell.
        search : bool, optional
            Whether a box above filters by words; told nothing, a table of more than 15 rows has one.
        filters : sequence of str
            Columns by whose values the reader can filter.
        stack : bool
            Whether a narrow screen shows each row as a card; else the table scrolls sideways.

        Raises
        ------
        InvalidInput
            Where a row is not as long as the columns, or a filter is no column.
        """
        searching = len(table.rows) > _MANY_ROWS if search is None else search
        self._parts.append(table_html(table, filters=filters, search=searching, stack=stack))

    def series(self, series: Series) -> None:
        """Append a plot of lines, with a legend and the bands between `low` and `high`.

        Points that are not finite, or not positive on a logarithmic axis, are left out, and the plot says how many.
        Plots that follow one another stand side by side where there is room.

        Raises
        ------
        InvalidInput
            Where a line is not ``(x, y)`` or ``(x, y, low, high)`` of one length, holds something but numbers, or
            matplotlib is not installed.
        """
        _require_matplotlib()
        from lemmata_core import svg

        lines = svg.lines_of(series)
        content = tag("figcaption", text_html(series.title))
        if any(line.x.size for line in lines):
            with svg.plot_style():
                content += svg.inline(
                    svg.draw(series, lines),
                    prefix=self._page._plot_id(),
                    title=series.title,
                    description=svg.describe(series, lines),
                    names=[line.name for line in lines],
                )
        else:
            content += tag("p", "Nothing to show.", class_="muted")
        keys = [svg.key(i, marked=line.marked) + tag("span", text_html(line.name)) for i, line in enumerate(lines)]
        content += tag("ul", "".join(tag("li", key) for key in keys), class_="legend") if lines else ""
        dropped = sum(line.dropped for line in lines)
        if dropped:
            what = "not finite, or not positive" if series.log_x or series.log_y else "not finite"
            content += tag("p", f"Not shown: {dropped} point{'s' if dropped > 1 else ''} {what}.", class_="note")
        self._parts.append(tag("figure", content))

    def figure(self, figure: Figure, *, title: str, description: str = "") -> None:
        """Append any matplotlib figure as SVG.

        Parameters
        ----------
        figure : matplotlib.figure.Figure
            Best made inside `plot_style`, 5.3 inches wide, so that it is readable on a phone. Not changed.
        title : str
            The caption, and the picture's accessible name.
        description : str
            What a reader who does not see it should know.
        """
        _require_matplotlib()
        from lemmata_core import svg

        prefix = self._page._plot_id()
        picture = svg.inline(figure, prefix=prefix, title=title, description=description or title)
        self._parts.append(tag("figure", tag("figcaption", text_html(title)) + picture))

    def _add(self, part: Section) -> Section:
        self._parts.append(part)
        return part

    def _html(self) -> str:
        out, row = [self._open], False
        for part in self._parts:
            plot = isinstance(part, str) and part.startswith("<figure")
            if plot != row:
                out.append('<div class="plots">' if plot else "</div>")
                row = plot
            out.append(part if isinstance(part, str) else part._html())
        return "\n".join([*out, *(["</div>"] if row else []), self._close])


class Page(Section):
    """A page: a `Section` with a title that can be written to a file.

    Equal content gives an equal file, byte for byte.

    Parameters
    ----------
    title : str
    subtitle : str, optional
    """

    def __init__(self, title: str, *, subtitle: str = "") -> None:
        super().__init__(self, 1)
        self._title = title
        self._subtitle = subtitle
        self._anchors: set[str] = set()
        self._plots = 0

    def html(self) -> str:
        """The page as a string.

        Returns
        -------
        str
            A complete document that loads nothing; its content security policy forbids it to.
        """
        script, style = _asset("page.js"), _asset("page.css")
        digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        policy = (
            f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'; "
            "base-uri 'none'; form-action 'none'"
        )
        subtitle = tag("p", text_html(self._subtitle), class_="subtitle") if self._subtitle else ""
        head = [
            '<meta charset="utf-8">',
            f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            '<meta name="color-scheme" content="light dark">',
            '<link rel="icon" href="data:,">',
            tag("title", text_html(self._title)),
            f"<style>\n{style}</style>",
        ]
        body = f"<main>\n<header>{tag('h1', text_html(self._title))}{subtitle}</header>\n{self._html()}\n</main>"
        document = ["<!doctype html>", '<html lang="en">', "<head>", *head, "</head>", "<body>", body]
        return "\n".join([*document, f"<script>{script}</script>", "</body>", "</html>", ""])

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the page to `path`, whole or not at all.

        Returns
        -------
        pathlib.Path
            `path`.
        """
        text = self.html()
        with atomic_write(path) as file:
            file.write(text)
        return Path(path)

    def _anchor(self, wanted: str) -> str:
        base = re.sub(r"[^\w./-]+", "-", wanted).strip("-") or "part"
        free, n = base, 1
        while free in self._anchors:
            n += 1
            free = f"{base}-{n}"
        self._anchors.add(free)
        return free

    def _plot_id(self) -> str:
        self._plots += 1
        return f"plot:{self._plots}"  # no anchor has a colon


def _require_matplotlib() -> None:
    from importlib.util import find_spec

    if find_spec("matplotlib") is None:
        raise InvalidInput.argument("plots", expected="matplotlib (lemmata-core[report])", got="an environment without")


def _asset(name: str) -> str:
    return resources.files("lemmata_core").joinpath(name).read_text(encoding="utf-8")

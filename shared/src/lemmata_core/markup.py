"""Text, values and tables as HTML. Everything that comes in is text: nothing in it is markup."""

from __future__ import annotations

import html
import json
import math
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from lemmata_core.check import one_of
from lemmata_core.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lemmata_core.claims import Table

KINDS = ("", "good", "bad", "alert", "neutral")
_NON_FINITE = {"nan": "NaN", "inf": "∞", "-inf": "−∞"}
_SUPERSCRIPTS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")
_MANY_COLUMNS = 10  # beyond them paper breaks words
_LONG = 160  # characters of a cell that a table shows in full
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")


def clean(text: object) -> str:
    """The text without control characters and lone surrogates, which neither XML nor UTF-8 can hold."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", str(text))


@dataclass(frozen=True)
class Cell:
    """A value of a table with more than its text.

    Attributes
    ----------
    value : object
        str, int, float, bool or None.
    href : str
        A link: ``"#anchor"`` or an address that begins with ``https://``, ``http://`` or ``mailto:``.
    kind : {"", "good", "bad", "alert", "neutral"}
        Drawn as a badge of that colour, with a sign, so that colour alone says nothing.
    note : str
        Small print under the value.
    """

    value: object
    href: str = ""
    kind: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        one_of(self.kind, "kind", KINDS)
        if self.href and not re.match(r"#|https?://|mailto:", self.href):
            raise InvalidInput.argument("href", expected="#anchor, https://, http:// or mailto:", got=self.href)


def text_html(value: object) -> str:
    """Escape text for content and quoted attributes."""
    return html.escape(clean(value))


def quoted(value: object) -> str:
    """An attribute's value in its quotes."""
    return f'"{text_html(value)}"'


def tag(name: str, content: str, **attributes: str | None) -> str:
    """An element around `content`, which is HTML. ``class_`` stands for class, ``_`` for a hyphen; None is left out."""
    given = "".join(
        f" {key.rstrip('_').replace('_', '-')}={quoted(value)}"
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{given}>{content}</{name}>"


def number_text(value: int | float) -> str:
    """A number to be read: four digits, thousands grouped, powers of ten as such.

    Integers keep all their digits.
    """
    if isinstance(value, float) and not math.isfinite(value):
        return _NON_FINITE[str(value)]
    if isinstance(value, int) or 9999.5 <= abs(value) < 1e7:
        text = f"{value:,.0f}" if isinstance(value, float) else f"{value:,}"
        text = text.replace(",", "" if len(text.lstrip("-")) <= 5 else "\u202f")
    else:
        text = f"{value:.4g}"
        head, exponent = text.partition("e")[::2]
        if exponent:
            power = str(int(exponent)).translate(_SUPERSCRIPTS)
            text = f"{'' if head == '1' else head + '·'}10{power}"
    return text.replace("-", "−")


def _number(value: object) -> float | None:
    if isinstance(value, str):
        return float(value) if value in _NON_FINITE else None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _unwrapped(value: object) -> object:
    # A Cell's value; a NumPy scalar as Python's own.
    inner = value.value if isinstance(value, Cell) else value
    return inner.item() if hasattr(inner, "item") and getattr(inner, "ndim", None) == 0 else inner


def shown(value: object) -> str:
    """A value as the reader sees it, as text."""
    plain = _unwrapped(value)
    if plain is None:
        return "–"
    if isinstance(plain, bool):
        return "yes" if plain else "no"
    if isinstance(plain, (dict, list, tuple)):
        return f"({flat(plain)})"
    if isinstance(plain, (int, float)):
        return number_text(plain)
    return str(plain)


def flat(value: object) -> object:
    """A mapping or sequence in one line; anything else as it is."""
    if isinstance(value, dict):
        return ", ".join(f"{key} {shown(item)}" for key, item in value.items())
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(item) for item in value)
    return value


def value_html(value: object, *, clamp: bool = False) -> str:
    """A value, with what its `Cell` says of it; `clamp` shows four lines of a long one."""
    cell = value if isinstance(value, Cell) else Cell(value)
    plain = shown(cell)
    out = text_html(plain)
    if cell.href:
        out = tag("a", out, href=cell.href)
    if cell.kind:
        out = tag("span", out, class_=f"badge {cell.kind}")
    elif clamp and len(plain) > _LONG:
        out = tag("div", out, class_="cut", title=plain)
    return out + (tag("div", text_html(cell.note), class_="note") if cell.note else "")


def table_html(table: Table, *, filters: Sequence[str], search: bool, stack: bool) -> str:
    """A table in its scrolling region. The page's script reads the data attributes."""
    columns = [str(column) for column in table.columns]
    for i, row in enumerate(table.rows):
        if len(row) != len(columns):
            raise InvalidInput.argument(
                f"table {table.title!r}, row {i}", expected=f"{len(columns)} values", got=f"{len(row)} values"
            )
    choices = [columns.index(one_of(column, "filters", columns)) for column in filters]
    kinds = [_is_numeric([_unwrapped(row[i]) for row in table.rows]) for i in range(len(columns))]
    head = "".join(
        tag("th", text_html(name), scope="col", role="columnheader", class_="number" if numeric else None)
        for name, numeric in zip(columns, kinds)
    )
    body = "\n".join(tag("tr", _row(row, columns, kinds), role="row") for row in table.rows)
    content = (
        tag("caption", text_html(table.title))
        + tag("thead", tag("tr", head, role="row"), role="rowgroup")
        + tag("tbody", body, role="rowgroup")
    )
    inner = tag(
        "table",
        content,
        role="table",
        class_="stack" if stack else "wide" if len(columns) > _MANY_COLUMNS else None,
        data_sortable="",
        data_search="" if search else None,
        data_choices=json.dumps(choices) if choices else None,
    )
    out = tag("div", inner, class_="scroll", role="region", aria_label=table.title or "table", tabindex="0")
    if table.timed:
        out += tag("p", text_html(f"Varies from run to run: {', '.join(table.timed)}."), class_="note")
    return tag("div", out, class_="table")


def _with_number(value: object, number: float) -> object:
    return replace(value, value=number) if isinstance(value, Cell) else number


def _width(value: object) -> str | None:
    # Short values stay on one line; columns of sentences get room for them.
    length = len(shown(value))
    return "short" if length <= 24 else "long" if length > 60 else None


def _is_numeric(values: Sequence[object]) -> bool:
    numbers = [_number(value) for value in values if value is not None]
    return bool(numbers) and None not in numbers


def _row(row: Sequence[object], columns: Sequence[str], kinds: Sequence[bool]) -> str:
    cells = []
    for i, (value, column, numeric) in enumerate(zip(row, columns, kinds)):
        plain = _unwrapped(value)
        # "nan" among words is a word; among numbers it is what JSON has for NaN.
        number = _number(plain) if numeric or not isinstance(plain, str) else None
        empty = plain is None or plain == ""
        if number is not None:
            key = str(number).replace("inf", "Infinity").replace("nan", "NaN")
            value = _with_number(value, number) if isinstance(plain, str) else value
        else:
            key = "" if empty else shown(plain)
        style = "empty" if empty else "number" if numeric else _width(value)
        needed = number is not None or empty or (isinstance(value, Cell) and bool(value.note))
        cells.append(
            tag(
                "td" if i else "th",
                tag("div", value_html(value, clamp=True)),
                scope=None if i else "row",
                role="cell" if i else "rowheader",
                class_=style,
                data_label=column,
                data_sort=key if needed else None,
                data_number="" if number is not None else None,
            )
        )
    return "".join(cells)

"""Pages to test, and what can be read from one."""

import re
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

from lemmata_core import Series, Table
from lemmata_core.page import Page

VOID = {"meta", "link", "input", "br"}


class Elements(HTMLParser):
    """Every element with its attributes; fails where a tag is closed that is not open."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(text)
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open, tag
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] not in {"script", "style"}:
            self.words.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.found if name == tag]


def page_with(series: Series) -> str:
    page = Page("t")
    page.series(series)
    return page.html()


def lines(n: int = 3, **kinds: bool) -> Series:
    x = [1.0, 2.0, 4.0, 8.0]
    data = {f"line {i}": (x, [v + i for v in x], [v + i - 0.5 for v in x], [v + i + 0.5 for v in x]) for i in range(n)}
    return Series("A title", "size", "seconds", data, **kinds)


def full_page() -> Page:
    page = Page("Title", subtitle="Subtitle")
    part = page.section("One")
    part.text("First.\n\nSecond.")
    part.facts({"a": 1, "b": {"c": [1.5, None, True]}})
    part.table(Table("Numbers", ["n", "x"], [[1, 0.5], [2, "nan"]], timed=["x"]))
    part.series(lines())
    part.series(lines(log_x=True, log_y=True))
    part.details("More").code("x < y")
    part.badge("holds", "because", kind="good")
    return page


def svgs(text: str) -> list[ET.Element]:
    return [ET.fromstring(found) for found in re.findall(r'(<svg[^>]*role="img".*?</svg>)', text, flags=re.DOTALL)]  # noqa: S314

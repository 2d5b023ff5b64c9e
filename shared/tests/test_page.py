"""The page: what it promises about escaping, accessibility, equal output and plots. Its look is tested in a browser."""

import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from html.parser import HTMLParser

import numpy as np
import pytest
from lemmata_core import InvalidInput, Series, Table
from lemmata_core.markup import number_text
from lemmata_core.page import Cell, Page, plot_style

HOSTILE = "<script>alert(1)</script> & \"quoted\" 'single' $\\frac{}$ \x00\x1b\ud800"
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


# The document


def test_every_tag_is_closed_and_every_id_is_unique():
    found = Elements(full_page().html()).found
    ids = [attributes["id"] for _, attributes in found if "id" in attributes]
    assert len(ids) == len(set(ids))
    assert len(ids) > 10


def test_every_reference_into_the_page_has_its_target():
    text = full_page().html()
    ids = set(re.findall(r'\bid="([^"]+)"', text))
    wanted = set(re.findall(r"url\(#([^)]+)\)", text)) | set(re.findall(r'href="#([^"]+)"', text))
    wanted |= {i for group in re.findall(r'aria-labelledby="([^"]+)"', text) for i in group.split()}
    assert wanted
    assert wanted <= ids


def test_nothing_is_loaded():
    found = Elements(full_page().html()).found
    for tag, attributes in found:
        assert tag not in {"iframe", "object", "embed", "img", "base"}
        assert "src" not in attributes
        assert not (attributes.get("href") or "#").startswith(("http", "//", "file"))
    assert "@import" not in full_page().html()
    [policy] = [a["content"] for a in Elements(full_page().html()).named("meta") if "http-equiv" in a]
    assert policy is not None
    assert "default-src 'none'" in policy


def test_equal_content_gives_equal_bytes():
    assert full_page().html() == full_page().html()


def test_equal_content_gives_equal_bytes_in_another_process():
    code = (
        "from lemmata_core import Series; from lemmata_core.page import Page; import hashlib; p = Page('t');"
        "p.series(Series('t', 'x', 'y', {'a': ([1, 2], [3, 4], [2, 3], [4, 5])}));"
        "print(hashlib.sha256(p.html().encode()).hexdigest())"
    )
    outputs = {
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    }
    assert len(outputs) == 1


def test_hostile_text_stays_text_everywhere():
    page = Page(HOSTILE, subtitle=HOSTILE)
    part = page.section(HOSTILE)
    part.section("inner", id=HOSTILE)
    part.text(HOSTILE)
    part.text(HOSTILE, kind="note")
    part.code(HOSTILE)
    part.facts({HOSTILE: HOSTILE})
    part.badge(HOSTILE, HOSTILE)
    part.details(HOSTILE)
    part.table(
        Table(HOSTILE, [HOSTILE, "b"], [[HOSTILE, Cell(HOSTILE, href="#" + HOSTILE, note=HOSTILE)]], timed=[HOSTILE]),
        filters=[HOSTILE],
    )
    part.series(Series(HOSTILE, HOSTILE, HOSTILE, {HOSTILE: ([1, 2], [3, 4])}))
    text = page.html()
    assert text.count("<script") == 1  # the page's own
    assert "alert(1)</script>" not in text
    text.encode("utf-8")
    assert "\x00" not in text
    assert any("alert(1)" in words for words in Elements(text).words)


def test_sections_nest_and_their_headings_follow():
    page = Page("t")
    page.section("a").section("b").section("c")
    names = [name for name, _ in Elements(page.html()).found if re.fullmatch(r"h\d", name)]
    assert names == ["h1", "h2", "h3", "h4"]


def test_headings_end_at_the_sixth():
    part = Page("t").section("a")
    for _ in range(8):
        part = part.section("deeper")
    assert "<h6>" in part._page.html()


def test_anchors_are_stable_and_unique():
    page = Page("t")
    ids = [
        page.section("x", id=wanted).id for wanted in ("optim-rmnp/cost", "a b&c", "a b&c", "///", "Größe", "!?", "!?")
    ]
    assert ids == ["optim-rmnp/cost", "a-b-c", "a-b-c-2", "///", "Größe", "part", "part-2"]


def test_write_replaces_the_file_as_a_whole(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("old")
    assert full_page().write(path) == path
    assert path.read_text(encoding="utf-8") == full_page().html()
    assert [p.name for p in tmp_path.iterdir()] == ["page.html"]


def test_a_folder_that_is_not_there_is_an_os_error(tmp_path):
    with pytest.raises(OSError, match="none"):
        Page("t").write(tmp_path / "none" / "page.html")


def test_unknown_kinds_are_refused():
    with pytest.raises(InvalidInput, match="kind"):
        Page("t").text("x", kind="loud")
    with pytest.raises(InvalidInput, match="kind"):
        Cell("x", kind="fine")


@pytest.mark.parametrize("href", ["javascript:alert(1)", "JavaScript:x", "data:text/html,x", "//host", "file:///etc"])
def test_links_that_are_not_links_are_refused(href):
    with pytest.raises(InvalidInput, match="href"):
        Cell("x", href=href)


def test_facts_write_nested_values_in_one_line_and_nothing_for_none():
    page = Page("t")
    page.facts({})
    assert "<dl" not in page.html()
    page.facts({"sizes": [256, 512], "peers": {"torch": "2.9.0", "more": {"a": 1}}, "none": None})
    words = Elements(page.html()).words
    assert {"256, 512", "torch 2.9.0, more (a 1)", "–"} <= set(words)


# Numbers and tables


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0, "0"),
        (1234, "1234"),
        (-1234, "−1234"),
        (1234567, "1\u202f234\u202f567"),
        (0.123456, "0.1235"),
        (12345.6, "12\u202f346"),
        (-12345.6, "−12\u202f346"),
        (9999.6, "10\u202f000"),
        (9999.4, "9999"),
        (1e-5, "10⁻⁵"),
        (1.5e-5, "1.5·10⁻⁵"),
        (-2e20, "−2·10²⁰"),
        (math.nan, "NaN"),
        (math.inf, "∞"),
        (-math.inf, "−∞"),
        (10**400, None),
    ],
)
def test_numbers_are_shown_to_be_read(value, shown):
    assert number_text(value) == shown or shown is None


def cells(*values: object) -> list[dict[str, str | None]]:
    page = Page("t")
    page.table(Table("t", ["name", "value"], [["row", value] for value in values]))
    return Elements(page.html()).named("td")


def test_numbers_sort_in_full_precision():
    found = cells(0.1234567, 0.1234568, "nan", "inf", None, np.float32(0.5), np.int64(7), 10**400)
    assert [c["data-sort"] for c in found] == [
        "0.1234567",
        "0.1234568",
        "NaN",
        "Infinity",
        "",
        "0.5",
        "7.0",
        "Infinity",
    ]
    assert all("data-number" in c for c in found if c["data-sort"])
    assert found[0]["class"] == "number"
    assert cells(-(10**400))[0]["data-sort"] == "-Infinity"


def test_nan_among_words_is_a_word():
    page = Page("t")
    page.table(Table("t", ["name", "value"], [["nan", 1.0], ["inf", 2.0], ["other", "nan"]]))
    words = Elements(page.html()).words
    assert words.count("nan") == 1
    assert words.count("inf") == 1
    assert words.count("NaN") == 1


def test_a_cell_keeps_its_badge_where_the_number_is_not_finite():
    page = Page("t")
    page.table(Table("t", ["name", "value"], [["a", Cell("nan", kind="bad", note="diverged")], ["b", 1.0]]))
    assert '<span class="badge bad">NaN</span>' in page.html()
    assert '<div class="note">diverged</div>' in page.html()


def test_truth_values_are_words():
    page = Page("t")
    page.table(Table("t", ["a", "b"], [[True, False]]))
    assert {"yes", "no"} <= set(Elements(page.html()).words)


def test_tables_are_accessible():
    page = Page("t")
    page.table(Table("The caption", ["name", "value"], [["a", 1]]), stack=True)
    found = Elements(page.html())
    assert "The caption" in found.words
    assert [h.get("scope") for h in found.named("th")] == ["col", "col", "row"]
    [region] = [a for a in found.named("div") if a.get("class") == "scroll"]
    assert (region["role"], region["tabindex"], region["aria-label"]) == ("region", "0", "The caption")
    assert found.named("td")[0]["data-label"] == "value"


@pytest.mark.parametrize(
    ("rows", "search", "there"), [(3, None, False), (16, None, True), (3, True, True), (16, False, False)]
)
def test_long_tables_can_be_searched(rows, search, there):
    page = Page("t")
    page.table(Table("t", ["n"], [[i] for i in range(rows)]), search=search)
    assert ("data-search" in Elements(page.html()).named("table")[0]) is there


def test_filters_name_columns():
    page = Page("t")
    page.table(Table("t", ["a", "b"], [[1, 2]]), filters=["b"])
    assert Elements(page.html()).named("table")[0]["data-choices"] == "[1]"
    with pytest.raises(InvalidInput, match="filters"):
        page.table(Table("t", ["a", "b"], [[1, 2]]), filters=["c"])


def test_a_row_of_another_length_is_refused():
    with pytest.raises(InvalidInput, match="row 1: expected 2 values, got 3 values"):
        Page("t").table(Table("t", ["a", "b"], [[1, 2], [1, 2, 3]]))


def test_a_table_without_rows_has_its_head():
    page = Page("t")
    page.table(Table("", ["a", "b"], []))
    assert len(Elements(page.html()).named("th")) == 2


def test_long_text_is_cut_in_a_table_and_whole_in_facts():
    page = Page("t")
    page.table(Table("t", ["a"], [["word " * 60]]))
    assert page.html().count('class="cut"') == 1
    page.facts({"a": "word " * 60})
    assert page.html().count('class="cut"') == 1


# Plots


def svgs(text: str) -> list[ET.Element]:
    return [ET.fromstring(found) for found in re.findall(r'(<svg[^>]*role="img".*?</svg>)', text, flags=re.DOTALL)]  # noqa: S314


def test_a_plot_has_a_name_and_a_description():
    [plot] = svgs(page_with(lines(2, log_x=True)))
    assert plot.get("role") == "img"
    title, description = plot.findall("title")[0], plot.findall("desc")[0]
    assert plot.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert title.text == "A title"
    assert description.text == (
        "seconds against size (x logarithmic). line 0: from 1 at 1 to 8 at 8, lowest 1, highest 8. "
        "line 1: from 2 at 1 to 9 at 8, lowest 2, highest 9."
    )


def test_every_colour_of_a_plot_is_the_page_s():
    text = re.search(r"<figure>.*</figure>", page_with(lines(9, log_y=True)), flags=re.DOTALL)
    assert text is not None
    assert re.findall(r"#[0-9a-fA-F]{6}\b", text[0]) == []
    for name in ("--line-1", "--line-7", "--grid", "--muted", "currentColor"):
        assert name in text[0]


def test_the_page_defines_every_colour_in_light_and_dark():
    style = full_page().html().partition("<style>")[2].partition("</style>")[0]
    light, dark = style.partition("prefers-color-scheme: dark")[::2]
    for name in {*re.findall(r"var\((--[\w-]+)\)", full_page().html())} - {"--font", "--mono"}:
        assert f"{name}:" in light
        assert f"{name}:" in dark


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("mode", [0, 1])
def test_colours_stand_out_from_the_ground(mode):
    # WCAG 2.2: 3:1 for graphics (1.4.11), 4.5:1 for text (1.4.3).
    block = re.findall(r":root \{(.*?)\}", full_page().html(), flags=re.DOTALL)[mode]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))

    def contrast(a: str, b: str) -> float:
        low, high = sorted((luminance(colours[a]), luminance(colours[b])))
        return (high + 0.05) / (low + 0.05)

    assert all(contrast(f"line-{i}", "ground") >= 3 for i in range(1, 8))
    assert all(contrast(name, "ground") >= 4.5 for name in ("text", "muted", "link"))
    assert all(contrast(kind, f"{kind}-ground") >= 4.5 for kind in ("good", "bad", "alert", "neutral"))


def test_lines_beyond_the_palette_differ_by_their_dashes():
    text = page_with(lines(9))
    assert text.count("stroke-dasharray=") == 2


def test_the_legend_names_every_line():
    found = Elements(page_with(lines(3)))
    assert {"line 0", "line 1", "line 2"} <= set(found.words)


def test_a_line_shows_its_name_under_the_pointer():
    [plot] = svgs(page_with(lines(2)))
    assert [g.findtext("title") for g in plot.iter("g") if g.find("title") is not None] == [
        "line 1",
        "line 0",
    ]  # the first is drawn last, on top


def test_bands_are_drawn():
    with_band = page_with(Series("t", "x", "y", {"a": ([1, 2, 3], [1, 2, 3], [0, 1, 2], [2, 3, 4])}))
    without = page_with(Series("t", "x", "y", {"a": ([1, 2, 3], [1, 2, 3])}))
    assert "fill-opacity: 0.2" in with_band
    assert "fill-opacity: 0.2" not in without


def test_a_band_that_reaches_zero_ends_at_a_logarithmic_axis():
    page_with(Series("t", "x", "y", {"a": ([1, 2, 3], [1, 2, 3], [0, -1, "-inf"], [2, "inf", "nan"])}, log_y=True))


def test_dollars_and_markup_in_labels_stay_as_they_are():
    text = page_with(Series("cost in $", "a $x^2 & <b>", "$\\notaformula{", {"$y$": ([1, 2], [1, 2])}))
    assert "a $x^2 &amp; &lt;b&gt;" in text
    assert "$\\notaformula{" in text


def test_labels_longer_than_an_axis_are_folded():
    [plot] = svgs(page_with(Series("t", "x " * 80, "y " * 40, {"a": ([1, 2], [1, 2])})))
    assert sum("y y y" in (t.text or "") for t in plot.iter("text")) >= 2


@pytest.mark.parametrize(
    ("x", "y", "log", "note"),
    [
        ([1, 2, 3], [1, "nan", 3], False, "Not shown: 1 point not finite."),
        ([1, 2, 3], [1, "inf", None], False, "Not shown: 2 points not finite."),
        ([0, 1, 2], [1, -1, 3], True, "Not shown: 2 points not finite, or not positive."),
        ([1, 2], [1, 2], True, None),
    ],
)
def test_points_that_cannot_be_shown_are_counted(x, y, log, note):
    text = page_with(Series("t", "x", "y", {"a": (x, y)}, log_x=log, log_y=log))
    assert (note in text) if note else ("Not shown" not in text)


@pytest.mark.parametrize("data", [{}, {"a": ([], [])}, {"a": ([1, 2], ["nan", None])}])
def test_a_plot_without_points_says_so(data):
    text = page_with(Series("t", "x", "y", data, log_y=True))
    assert "Nothing to show." in text
    assert svgs(text) == []


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize(
    "x", [[3], [3, 3], [1e-149, 1e149], [1, 1.0000001], [1e-9, 2e-9], [1e15, 2e15], [1, 10, 12, 1e6]]
)
def test_awkward_ranges_are_drawn(x, log):
    [plot] = svgs(page_with(Series("t", "x", "y", {"a": (x, x), "empty": ([], [])}, log_x=log, log_y=log)))
    texts = ["".join(t.itertext()) for t in plot.iter("text")]
    assert len(texts) > 2
    assert "nothing to show" in (plot.findtext("desc") or "")


def test_measured_sizes_are_the_ticks_of_a_logarithmic_axis():
    sizes = [512, 1024, 2048, 4096]
    [plot] = svgs(page_with(Series("t", "size", "y", {"a": (sizes, [1, 2, 3, 4])}, log_x=True)))
    assert {"512", "1024", "2048", "4096"} <= {t.text for t in plot.iter("text")}


def test_a_long_line_keeps_its_peak_and_its_size_is_bounded():
    y = np.zeros(200_000)
    y[123_456] = 7.0
    text = page_with(Series("t", "x", "y", {"a": (range(y.size), y, y - 0.1, y + 0.1)}))
    assert "highest 7" in text
    assert len(text) < 150_000


def test_the_caller_s_arrays_are_not_changed():
    x, y = np.array([1.0, np.nan, 3.0]), np.array([0.0, 1.0, 2.0])
    before = x.copy(), y.copy()
    page_with(Series("t", "x", "y", {"a": (x, y)}, log_y=True))
    np.testing.assert_array_equal(x, before[0])
    np.testing.assert_array_equal(y, before[1])


@pytest.mark.parametrize(
    "columns", [([1, 2],), ([1, 2], [1, 2], [1, 2]), ([1, 2], [1]), ([1], ["one"]), ([1], [[2]]), ([1], [10**400])]
)
def test_lines_that_are_not_lines_are_refused(columns):
    with pytest.raises(InvalidInput, match="series 't', line 'a'"):
        page_with(Series("t", "x", "y", {"a": columns}))


def test_plots_that_follow_one_another_stand_together():
    page = Page("t")
    page.series(lines())
    page.series(lines())
    page.text("between")
    page.series(lines())
    assert page.html().count('<div class="plots">') == 2


def test_any_figure_can_be_shown_and_follows_the_page():
    from matplotlib.figure import Figure

    with plot_style():
        figure = Figure()
        axes = figure.add_subplot()
        axes.bar(["a", "b"], [1, 2], label="bars")
        axes.imshow(np.eye(3), extent=(0.0, 1.0, 0.0, 1.0), aspect="auto")
        axes.set_title("with a formula $x^2$")
        axes.legend()
    page = Page("t")
    page.figure(figure, title="Bars", description="b is twice a")
    page.figure(figure, title="Bars again")
    first, second = svgs(page.html())
    assert first.findtext("desc") == "b is twice a"
    assert second.findtext("desc") == "Bars again"
    assert "var(--line-1)" in page.html()
    assert any((image.get("href") or "").startswith("data:image/png") for image in first.iter("image"))
    ids = [e.get("id") for plot in (first, second) for e in plot.iter() if e.get("id")]
    assert len(ids) == len(set(ids))


def test_a_figure_of_matplotlib_s_own_style_follows_the_page():
    from matplotlib.figure import Figure

    figure = Figure()
    figure.add_subplot().plot([1, 2], [3, 4])
    face = figure.get_facecolor()
    page = Page("t")
    page.figure(figure, title="t")
    assert "var(--line-1)" in page.html()
    assert "#1f77b4" not in page.html()
    assert figure.get_facecolor() == face


def test_plotting_leaves_matplotlib_s_settings_alone():
    import matplotlib as mpl

    before = dict(mpl.rcParams)
    page_with(lines())
    assert dict(mpl.rcParams) == before


def test_glyphs_that_the_measuring_font_lacks_raise_no_warning():
    assert "数据" in page_with(Series("数据", "数据", "数据", {"数据": ([1, 2], [1, 2])}))


# Dependencies


def test_text_and_tables_need_no_matplotlib():
    code = (
        "import sys; from lemmata_core import Table; from lemmata_core.page import Page; p = Page('t');"
        "p.table(Table('t', ['a'], [[1]])); p.html(); assert 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_without_matplotlib_the_extra_is_named(monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "matplotlib" else find(name, *a))
    for use in (lambda: page_with(lines()), plot_style, lambda: Page("t").figure(None, title="t")):
        with pytest.raises(InvalidInput, match=r"lemmata-core\[report\]"):
            use()

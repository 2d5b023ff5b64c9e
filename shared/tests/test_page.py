"""The page: what it promises of escaping, accessibility, equal output and tables. Its look is tested in a browser."""

import math
import re
import subprocess
import sys

import numpy as np
import pytest
from lemmata_core import InvalidInput, Series, Table
from lemmata_core.markup import number_text
from lemmata_core.page import Cell, Page

from shared.tests.pages import Elements, full_page

HOSTILE = "<script>alert(1)</script> & \"quoted\" 'single' $\\frac{}$ \x00\x1b\ud800"


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

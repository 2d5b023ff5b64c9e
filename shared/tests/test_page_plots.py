"""Plots on a page: what they show, say and leave alone."""

import re
import subprocess
import sys

import numpy as np
import pytest
from lemmata_core import InvalidInput, Series
from lemmata_core.page import Page, plot_style

from shared.tests.pages import Elements, full_page, lines, page_with, svgs


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

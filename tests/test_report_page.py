"""The report page in a browser: Debian's chromium, no network. Screenshots lie in pytest's tmp_path."""

import itertools
import re
import shutil
from contextlib import contextmanager

import numpy as np
import pytest
from lemmata_core import Evidence, Series, Table
from lemmata_core.plain import plain
from lemmata_tools import results
from lemmata_tools.report import write_report
from lemmata_tools.results import Result

CHROMIUM = shutil.which("chromium")

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium"),
]

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def evidence(i):
    sizes = [256, 512, 1024, 2048]
    steps = list(range(0, 600, 5))
    cost = {
        name: (sizes, [c * n**1.5 for n in sizes], [0.8 * c * n**1.5 for n in sizes], [1.2 * c * n**1.5 for n in sizes])
        for name, c in (("row normalisation", 1e-7), ("Newton-Schulz", 2e-6))
    }
    loss = {name: (steps, [2 + 3 * np.exp(-t / r) for t in steps]) for name, r in (("ours", 120), ("AdamW", 170))}
    return Evidence(
        headline=f"{i + 1}.5x faster than Newton-Schulz at 2048 x 2048" + ", and so on" * (60 if i == 3 else 0),
        values={"ratio": i + 1.5, "gap": float("nan")},
        tables=(
            Table(
                "Seconds of one step", ["size", "ours", "peer", "ratio"], [[n, n / 1e6, n / 1e5, 10.0] for n in sizes]
            ),
            Table(
                "Awkward numbers",
                ["x"],
                [[v] for v in (0.25, float("nan"), 0.5, 1e-7, float("inf"), -3.0, 12000, None)],
            ),
            Table("A wide table", [f"column {j}" for j in range(20)], [list(range(20))] * 3),
        ),
        series=(
            Series("Time of one step", "rows", "seconds", cost, log_x=True, log_y=True),
            Series("Validation loss", "step", "nats per byte", loss),
        ),
        settings={"sizes": sizes, "peers": {"torch": "2.9.0"}},
    )


@pytest.fixture(scope="module")
def page_file(tmp_path_factory):
    found = []
    verdicts = ["holds", "does not hold", "not testable", "holds", "error", "holds"]
    for package in ("alpha", "beta"):
        for i, verdict in enumerate(verdicts):
            there = package == "alpha" and verdict in {"holds", "does not hold"}
            found.append(
                Result(
                    id=f"{package}/claim-{i}",
                    package=package,
                    version="0.1.0",
                    source_digest="0" * 16,
                    scale="smoke",
                    seed=0,
                    verdict=verdict,
                    reason="the ratio is read against the paper's",
                    evidence=plain(evidence(i)) if there else None,
                    seconds=[12.5, 3.0, 0.0, 100.25, 0.5, 7.0][i],
                    error="Traceback (most recent call last):\n  a line " + "that is long " * 30
                    if verdict == "error"
                    else "",
                    statement="Row normalisation costs a constant number of passes over the matrix.",
                    source="a paper, table 1",
                    paper="13x to 44x",
                )
            )
    folder = tmp_path_factory.mktemp("run")
    results.save_all(folder, found)
    return write_report(folder)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


@pytest.fixture
def opened(browser, page_file):
    """Opens the page; on leaving, what it asked for and complained of must be nothing."""

    @contextmanager
    def open_page(width=1280, scheme="light", scripts=True):
        context = browser.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True, java_script_enabled=scripts
        )
        page = context.new_page()
        asked, said = [], []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.goto(page_file.as_uri())
        yield page
        context.close()
        assert {url.partition("#")[0] for url in asked if not url.startswith("data:")} == {page_file.as_uri()}
        assert said == []

    return open_page


def shown(page):
    return page.locator("table[data-search] tbody tr:visible").count()


def column(page, n):
    return page.locator(f"table[data-search] tbody tr:visible > :nth-child({n})").all_inner_texts()


def test_it_loads_without_a_network_and_without_a_complaint(opened, tmp_path):
    with opened() as page:
        assert page.title() == "Claims of 2 packages"
        assert shown(page) == 12
        page.screenshot(path=tmp_path / "desktop.png", full_page=True)


def test_a_click_on_a_column_sorts_and_a_second_turns_it_round(opened):
    with opened() as page:
        seconds = page.get_by_role("columnheader", name="Seconds")
        before = column(page, 8)
        seconds.get_by_role("button").click()
        assert seconds.get_attribute("aria-sort") == "ascending"
        ascending = [float(text) for text in column(page, 8)]
        assert ascending == sorted(ascending)
        assert ascending[-1] > 100  # as numbers: as text 100.2 comes before 12.5
        seconds.get_by_role("button").click()
        assert seconds.get_attribute("aria-sort") == "descending"
        assert [float(text) for text in column(page, 8)] == ascending[::-1]
        seconds.get_by_role("button").click()
        assert seconds.get_attribute("aria-sort") == "none"
        assert column(page, 8) == before
        page.get_by_role("columnheader", name="Verdict").get_by_role("button").press("Enter")
        assert column(page, 6) == sorted(column(page, 6))


def test_numbers_are_sorted_as_numbers_and_what_is_missing_stands_last(opened):
    with opened() as page:
        table = page.get_by_role("table", name="Awkward numbers").first
        table.get_by_role("button").click()
        ascending = table.locator("tbody th").all_inner_texts()
        assert ascending == ["−3", "10⁻⁷", "0.25", "0.5", "12\u202f000", "∞", "NaN", "–"]
        table.get_by_role("button").click()
        assert table.locator("tbody th").all_inner_texts() == [*ascending[5::-1], "NaN", "–"]


def test_it_filters_by_words_by_package_and_by_verdict(opened):
    with opened() as page:
        search = page.get_by_label("Search")
        search.fill("BETA claim-3")
        assert column(page, 2) == ["claim-3"]
        assert page.locator("output").first.inner_text() == "1 of 12 rows"
        search.fill("no such words")
        assert shown(page) == 0
        search.press("Escape")
        assert shown(page) == 12
        page.locator("select[data-column=Verdict]").select_option(label="does not hold")
        assert shown(page) == 2
        assert {text.strip("✗ ") for text in column(page, 6)} == {"does not hold"}
        page.locator("select[data-column=Package]").select_option(label="alpha")
        assert (column(page, 1), column(page, 2)) == (["alpha"], ["claim-1"])


def test_a_link_leads_to_its_claim(opened):
    with opened() as page:
        page.get_by_role("link", name="claim-5").last.click()
        assert page.url.endswith("#beta/claim-5")
        box = page.locator('[id="beta/claim-5"]').bounding_box()
        assert 0 <= box["y"] < 900


def test_every_plot_is_to_be_seen(opened):
    with opened() as page:
        plots = page.locator("figure svg[role=img]")
        assert plots.count() == 8
        for i in range(plots.count()):
            box = plots.nth(i).bounding_box()
            assert box["width"] > 300
            assert box["height"] > 150
        drawn = plots.first.locator("[id]:not(title):not(desc), path").count()
        assert drawn > 5
        assert page.get_by_role("img", name="Time of one step").count() == 4


@pytest.mark.parametrize("width", [320, 390, 1000, 1280])
def test_nothing_sticks_out_at_any_width(opened, tmp_path, width):
    with opened(width=width) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        if width == 390:
            page.screenshot(path=tmp_path / "phone.png", full_page=True)
        font = page.evaluate("document.querySelector('figure svg text').getBoundingClientRect().height")
        assert font >= 9


def test_on_a_phone_rows_are_cards_and_can_be_sorted(opened):
    with opened(width=390) as page:
        page.get_by_label("Sort").select_option(label="Seconds ↓")
        first = page.locator("table[data-search] tbody tr").first
        assert "100.2" in first.inner_text()
        assert first.bounding_box()["width"] <= 390
        label = first.locator("td").first.evaluate("cell => getComputedStyle(cell, '::before').content")
        assert label == '"Claim"'


def numbers(colour):
    return [float(part) for part in re.findall(r"[\d.]+", colour)][:3]


def test_dark_mode_darkens_the_ground_and_lightens_the_plots(opened, tmp_path):
    seen = {}
    for scheme in ("light", "dark"):
        with opened(scheme=scheme) as page:
            seen[scheme] = page.evaluate(
                """() => {
                    const colour = (element, what) => getComputedStyle(element)[what];
                    const plot = document.querySelector("figure svg[role=img]");
                    const line = [...plot.querySelectorAll("path")].find((p) => p.style.stroke.includes("--line-1"));
                    return [colour(document.body, "backgroundColor"), colour(line, "stroke"),
                            colour(plot.querySelector("text"), "fill")];
                }"""
            )
            page.screenshot(path=tmp_path / f"{scheme}.png")
    (light_ground, light_line, light_text), (ground, line, text) = seen["light"], seen["dark"]
    assert min(numbers(light_ground)) > 240
    assert max(numbers(ground)) < 40
    assert sum(numbers(line)) > sum(numbers(light_line))
    assert min(numbers(text)) > 200 > 100 > max(numbers(light_text))


def test_on_paper_it_is_light_and_everything_is_open(opened, tmp_path):
    with opened(scheme="dark") as page:
        assert page.locator("details[open]").count() == 0
        page.pdf(path=tmp_path / "page.pdf")
        page.emulate_media(media="print", color_scheme="dark")
        assert min(numbers(page.evaluate("getComputedStyle(document.body).backgroundColor"))) > 240
        assert page.locator(".controls").first.is_hidden()
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.locator("details:not([open])").count() == 0
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.locator("details[open]").count() == 0
    assert (tmp_path / "page.pdf").stat().st_size > 10_000


def test_without_scripts_everything_is_there(opened):
    with opened(scripts=False) as page:
        assert shown(page) == 12
        assert page.locator(".controls").count() == 0
        assert page.locator("figure svg[role=img]").count() == 8


def test_it_can_be_used_by_keyboard_and_read_aloud(opened):
    with opened() as page:
        assert page.locator("html").get_attribute("lang") == "en"
        assert page.get_by_role("table", name="What was claimed and what was found").count() == 1
        unnamed = page.evaluate(
            """() => [...document.querySelectorAll("input, select, button, svg[role=img], [role=region]")].filter((e) =>
                !(e.labels?.length || e.textContent.trim() || e.getAttribute("aria-label"))).length"""
        )
        assert unnamed == 0
        levels = page.evaluate("[...document.querySelectorAll('h1,h2,h3,h4,h5,h6')].map((h) => Number(h.tagName[1]))")
        assert levels.count(1) == 1
        assert all(b - a <= 1 for a, b in itertools.pairwise(levels))

"""Take the picture of a report that the README shows: the top of its page, and one of its claims.

Needs Debian's chromium::

    python docs/report_picture.py lemmata-results/index.html optim-rmnp/cost
"""

import io
import shutil
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import Locator, Page, sync_playwright

WIDTH, GAP = 1200, 28  # pixels
ROWS = 5
FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]


def between(page: Page, first: Locator, last: Locator) -> Image.Image:
    """The page from the top of one element to the bottom of another."""
    top = first.evaluate("element => element.getBoundingClientRect().top + scrollY")
    bottom = last.evaluate("element => element.getBoundingClientRect().bottom + scrollY")
    clip = {"x": 0, "y": top, "width": WIDTH, "height": bottom - top + GAP / 2}
    return Image.open(io.BytesIO(page.screenshot(full_page=True, clip=clip)))


def main(source: Path, claim: str) -> None:
    """Write ``images/report.png`` beside this file."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": 900}, color_scheme="light")
        page.goto(source.resolve().as_uri())
        rows = page.locator("table[data-search]").first.locator("tbody tr")
        section = page.locator(f'[id="{claim}"]')
        figures = section.locator("figure")
        last = figures.nth(min(figures.count(), 2) - 1) if figures.count() else section
        parts = [
            between(page, page.locator("body"), rows.nth(min(rows.count(), ROWS) - 1)),
            between(page, section, last),
        ]
        browser.close()
    picture = Image.new("RGB", (WIDTH, sum(part.height for part in parts) + GAP), "white")
    picture.paste(parts[0], (0, 0))
    picture.paste((212, 218, 224), (0, parts[0].height, WIDTH, parts[0].height + 2))
    picture.paste(parts[1], (0, parts[0].height + GAP))
    small = picture.quantize(256, method=Image.Quantize.FASTOCTREE, dither=Image.Dither.NONE)
    small.save(Path(__file__).parent / "images" / "report.png", optimize=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

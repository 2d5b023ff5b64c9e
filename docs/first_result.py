"""Time the way from an empty environment to the first result, and put it into the READMEs.

Each distribution is built, and installed as its README says into an environment with nothing but Python: once with an
empty cache, so that all is downloaded, and once from what is then there. In the second environment the README's first
example runs twice, since the first time compiles. A quarter of an hour for all, most of it downloads::

    uv run python docs/first_result.py            # prints a line each
    uv run python docs/first_result.py --write    # and puts it into the README
    uv run python docs/first_result.py NAME ...   # of some
"""

from __future__ import annotations

import argparse
import os
import re
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from lemmata_core.progress import track
from lemmata_tools import clean, readme
from lemmata_tools.workspace import CORE, Member, members

ROOT = Path(__file__).parents[1]
START = "From an empty environment to the first result:"
PARAGRAPH = re.compile(rf"^{START}.*?(?=\n\n|\n?\Z)", re.MULTILINE | re.DOTALL)
INSTALL = re.compile(r"^```console\n\$ pip install .*?^```\n", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Times:
    """Seconds, and bytes on disk.

    Attributes
    ----------
    download, install : float
        To install with an empty cache, and with a full one.
    first, again : float
        Of the example, in a fresh environment and with the compiled code that the first run left there.
    size : int
        Of all files of the environment after both.
    """

    download: float
    install: float
    first: float
    again: float
    size: int


def paragraph(name: str, times: Times) -> str:
    """What a README says."""
    return (
        f"{START} {_seconds(times.download)} s to install with uv ({_seconds(times.install)} s from its cache, "
        f"{_bytes(times.size)} on disk) and {_seconds(times.first)} s for the\n"
        f"first example ({_seconds(times.again)} s the next time, with the compiled code that is kept), on "
        f"{os.cpu_count()} cores. In a checkout\n`uv run python docs/first_result.py {name}` measures it."
    )


def placed(text: str, paragraph: str) -> str:
    """The README with the paragraph in place of the one it has; below the block that installs, where it has none."""
    if PARAGRAPH.search(text):
        return PARAGRAPH.sub(lambda _: paragraph, text, count=1)
    return INSTALL.sub(lambda block: f"{block[0]}\n{paragraph}\n", text, count=1)


def _seconds(value: float) -> str:
    return f"{value:.0f}" if value >= 10 else f"{value:.1f}"


def _bytes(value: int) -> str:
    return f"{value / 1e9:.1f} GB" if value >= 1e9 else f"{value / 1e6:.0f} MB"


def first_example(text: str) -> str:
    """The first block of a README that is run, as a page of its own."""
    block = next(block for block in readme.blocks(text) if not block.skip)
    return f"```{block.language}\n{block.text}```\n"


def measure(member: Member, folder: Path) -> Times:
    """Build, install and try one distribution in an empty folder.

    Raises
    ------
    lemmata_tools.clean.Failed
        Where it cannot be built or installed, or the example fails.
    """
    wheels, page = folder / "wheels", folder / member.name / "README.md"
    for name in {member.name, CORE}:
        clean.run(["uv", "build", "--quiet", "--wheel", "--package", name, "--out-dir", str(wheels)], ROOT)
    text = (member.folder / "README.md").read_text(encoding="utf-8")
    page.parent.mkdir()
    page.write_text(first_example(text), encoding="utf-8")
    wheel = next(wheels.glob(f"{member.module}-*.whl")).as_uri()
    what = [f"{readme.install_line(text, member.name)} @ {wheel}", "--find-links", wheels]
    download, install = (
        clean.Environment.make(folder / kind).install(*what, "--cache-dir", folder / "cache")
        for kind in ("cold", "warm")
    )
    environment = clean.Environment(folder / "warm")
    first, again = (_run(page, environment) for _ in range(2))
    size = sum(path.stat().st_size for path in environment.folder.rglob("*") if path.is_file())
    return Times(download, install, first, again, size)


def _run(page: Path, environment: clean.Environment) -> float:
    start = time.perf_counter()
    problems = readme.run(page, environment.python)
    if problems:
        raise clean.Failed("\n".join(problems))
    return time.perf_counter() - start


def main(words: list[str]) -> None:
    """Measure, print, and write where that is asked for."""
    found = members(ROOT)
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help="all, if none is given")
    parser.add_argument("--write", action="store_true", help="put the lines into the READMEs")
    options = parser.parse_args(words)
    unknown = set(options.names) - set(found)
    if unknown:
        parser.error(f"expected some of {', '.join(found)}, got {', '.join(sorted(unknown))}")
    for name in track(options.names or list(found), "first results"):
        with tempfile.TemporaryDirectory(prefix="lemmata-first-") as folder:
            text = paragraph(name, measure(found[name], Path(folder)))
        print(f"{text}\n", flush=True)  # noqa: T201 - what the script is for
        if options.write:
            path = found[name].folder / "README.md"
            path.write_text(placed(path.read_text(encoding="utf-8"), text), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])

"""Puts into the site what stands elsewhere: READMEs, CONTRIBUTING.md, and the claims of the installed packages."""

from __future__ import annotations

import re
import runpy
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import Any

from lemmata_core import Package, discover

ROOT = Path(__file__).parents[1]

_INCLUDE = re.compile(r"^<!-- include: (?P<file>\S+) -->$", re.MULTILINE)
_CLAIMS = re.compile(r"^<!-- claims -->$", re.MULTILINE)
_VERDICTS = re.compile(r"^<!-- verdicts -->$", re.MULTILINE)
# Code comes first, so that what looks like a link inside it is left alone.
_CODE_OR_LINK = re.compile(
    r"^```.*?^```|`[^`\n]+`|(?P<image>!?)\[(?P<text>[^\]]*)\]\((?P<target>[^)\s]+)\)", re.MULTILINE | re.DOTALL
)
_NO_TEST = re.compile(r"^<!-- no-test:.*?-->\n", re.MULTILINE)


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Any) -> str:  # noqa: ARG001 - mkdocs calls it so
    """Replace the marks of a page."""
    here = PurePosixPath(page.file.src_uri).parent
    markdown = _NO_TEST.sub("", markdown)
    markdown = _INCLUDE.sub(lambda m: _include(m["file"], here), markdown)
    markdown = _VERDICTS.sub(lambda _: _counts(), markdown)
    return _CLAIMS.sub(lambda _: _claims(), markdown)


def _include(file: str, here: PurePosixPath) -> str:
    path = ROOT / file
    text = _NO_TEST.sub("", path.read_text(encoding="utf-8"))
    return _CODE_OR_LINK.sub(lambda m: _link(m, path.parent, here), text)


def _link(match: re.Match[str], folder: Path, here: PurePosixPath) -> str:
    if match["target"] is None:
        return match[0]
    target, _, anchor = match["target"].partition("#")
    if not target or re.match(r"[a-z]+:", target):
        return match[0]
    inside = (folder / target).resolve().relative_to(ROOT).as_posix()
    page = _page(inside)
    if page is None:
        # In the checkout but not in the site: named, not linked.
        return match["text"] if match["image"] else f"{match['text']} (`{inside}`)"
    up = "../" * len([part for part in here.parts if part != "."])
    return f"{match['image']}[{match['text']}]({up}{page}{'#' + anchor if anchor else ''})"


def _page(inside: str) -> str | None:
    known = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "shared": "core.md", "tools": "tools.md"}
    if inside in known:
        return known[inside]
    name = re.fullmatch(r"packages/([^/]+)(/README\.md)?", inside)
    if name:
        inside = f"docs/packages/{name[1]}.md"
    return inside.removeprefix("docs/") if inside.startswith("docs/") and (ROOT / inside).is_file() else None


def _found() -> dict[str, dict[str, str]]:
    """What the last laptop runs found, by claim."""
    # mkdocs loads this file by its path, so that its neighbour cannot be imported by name.
    rows: dict[str, dict[str, str]] = runpy.run_path(str(ROOT / "docs" / "verdicts.py"))["rows"]()
    return rows


def _counts() -> str:
    """A row a package: how many claims hold, do not, and could not be tested."""
    verdicts = ("holds", "does not hold", "not testable")
    counts = Counter((name.partition("/")[0], row["verdict"]) for name, row in _found().items())
    rows = [
        f"| [{package}](claims.md#{package}) | {' | '.join(str(counts[package, verdict]) for verdict in verdicts)} |"
        for package in sorted({package for package, _ in counts})
    ]
    head = ["| package | hold | do not hold | not testable here |", "| --- | --- | --- | --- |"]
    return "\n".join([*head, *rows, ""])


def _claims() -> str:
    found = [package for package in discover().values() if package.claims or package.error]
    kept = _found()
    return "\n".join(_section(package, kept) for package in found) if found else "No installed package offers claims."


def _section(package: Package, found: dict[str, dict[str, str]]) -> str:
    if not package.claims:
        return f"## {package.name}\n\n{package.error}\n"
    head = [
        f"## {package.name} {package.version} {{ #{package.name} }}",
        "",
        "| claim | statement | source | paper's figure | ours | verdict |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    rows = []
    for claim in package.claims:
        ours = found.get(claim.id, {"found": "", "verdict": "not run yet", "reason": ""})
        name = claim.id.partition("/")[2]
        cells = [claim.statement, claim.source, claim.paper, ours["found"], f"**{ours['verdict']}**: {ours['reason']}"]
        rows.append(f"| `{name}` | {' | '.join(map(_cell, cells))} |")
    return "\n".join([*head, *rows, ""])


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

"""Puts into the site what stands elsewhere: READMEs, CONTRIBUTING.md, and the claims of the installed packages."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath
from typing import Any

from lemmata_core import Package, discover

ROOT = Path(__file__).parents[1]

_INCLUDE = re.compile(r"^<!-- include: (?P<file>\S+) -->$", re.MULTILINE)
_CLAIMS = re.compile(r"^<!-- claims -->$", re.MULTILINE)
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


def _claims() -> str:
    found = [package for package in discover().values() if package.claims or package.error]
    return "\n".join(map(_section, found)) if found else "No installed package offers claims."


def _section(package: Package) -> str:
    rows = [
        f"| `{c.id.partition('/')[2]}` | {_cell(c.statement)} | {_cell(c.source)} | {_cell(c.paper)} |"
        for c in package.claims
    ]
    head = [f"## {package.name} {package.version}", "", "| claim | statement | source | paper's figure |"]
    return (
        "\n".join([*head, "| --- | --- | --- | --- |", *rows, ""])
        if rows
        else f"## {package.name}\n\n{package.error}\n"
    )


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")

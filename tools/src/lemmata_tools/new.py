"""`lemmata new`: a package that passes everything at once, and its place in the workspace."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import itertools
import keyword
import re
import shutil
import sys
import tempfile
import tomllib
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemmata_core import InvalidInput
from lemmata_core.files import atomic_write

if TYPE_CHECKING:
    from importlib.resources.abc import Traversable

LONGEST_NAME = 40
SUFFIX = ".in"
NAVIGATION = "      - packages/index.md"  # the pages of packages stand below it
_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# Imports that a folder of the checkout, or pytest, would answer to.
_RESERVED = frozenset({"conftest", "docs", "packages", "shared", "site", "test", "tests", "tools"})


def new_package(root: Path, name: str) -> list[Path]:
    """Make ``packages/NAME`` with a worked example, and enter it in the lists of the workspace.

    Parameters
    ----------
    root : pathlib.Path
        The top level of a checkout.
    name : str
        Name of the distribution: lower case, digits, single hyphens. The import has underscores instead.

    Returns
    -------
    list of pathlib.Path
        The files made and changed, sorted.

    Raises
    ------
    InvalidInput
        For a name that cannot be used or is taken, and where the root files lack the lists to enter it in. Whatever
        goes wrong, the checkout is as it was.
    """
    module = _checked(root, name)
    words = {"@NAME@": name, "@IMPORT@": module}
    package, page = root / "packages" / name, root / "docs" / "packages" / f"{name}.md"
    changed = {
        root / "pyproject.toml": _edit_pyproject(_read(root / "pyproject.toml"), name),
        root / "mkdocs.yml": insert_line(
            _read(root / "mkdocs.yml"), NAVIGATION, None, f"      - {name}: packages/{name}.md", "mkdocs.yml"
        ),
        root / "README.md": _edit_readme(_read(root / "README.md"), name),
    }
    before = {path: path.read_bytes() for path in changed}
    made_folders = [folder for folder in (package.parent, page.parent) if not folder.exists()]
    package.parent.mkdir(parents=True, exist_ok=True)
    page.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=f".{name}.", suffix=".tmp", dir=package.parent))
    templates = resources.files("lemmata_tools") / "templates"
    try:
        _render_folder(templates / "package", draft, words)
        draft.chmod(0o755)
        draft.rename(package)
        text = _render((templates / f"docs_page.md{SUFFIX}").read_text(encoding="utf-8"), words)
        for path, content in {page: text, **changed}.items():
            with atomic_write(path) as file:
                file.write(content)
    except BaseException:
        for folder in (draft, package):
            shutil.rmtree(folder, ignore_errors=True)
        page.unlink(missing_ok=True)
        for path, old in before.items():
            if path.read_bytes() != old:
                path.write_bytes(old)
        for folder in made_folders:
            folder.rmdir()
        raise
    return sorted([*(p for p in package.rglob("*") if p.is_file()), page, *changed])


def _checked(root: Path, name: str) -> str:
    expected = f"a new name of lower-case letters, digits and single hyphens, {LONGEST_NAME} characters at most"
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise InvalidInput.argument("name", expected=expected, got=name)
    module = name.replace("-", "_")
    if keyword.iskeyword(module) or module in sys.stdlib_module_names:
        raise InvalidInput.argument("name", expected=expected, got=f"{name}, which Python has for itself")
    folders = [root / "packages" / name, root / "docs" / "packages" / f"{name}.md"]
    if name in _members(root) or any(path.exists() for path in folders):
        raise InvalidInput.argument("name", expected=expected, got=f"{name}, which the workspace has already")
    if module in _RESERVED or _installed(name, module):
        raise InvalidInput.argument("name", expected=expected, got=f"{name}, whose import is taken here")
    return module


def _members(root: Path) -> set[str]:
    names = {_load(_read(root / "pyproject.toml"), "pyproject.toml")["project"]["name"]}
    for path in (*root.glob("packages/*/pyproject.toml"), *root.glob("*/pyproject.toml")):
        names.add(_load(_read(path), str(path.relative_to(root)))["project"]["name"])
    return names


def _installed(name: str, module: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return importlib.util.find_spec(module) is not None
    return True


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as err:
        raise InvalidInput.argument("root", expected="the top level of a checkout", got=f"no {path}") from err


def _load(text: str, place: str) -> dict[str, Any]:
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as err:
        raise InvalidInput.argument(place, expected="TOML", got=str(err)) from err


def _edit_pyproject(text: str, name: str) -> str:
    place = "pyproject.toml"
    old = _load(text, place)
    text = insert_line(text, "dependencies = [", "]", f'  "{name}",', place)
    text = insert_line(text, "members = [", "]", f'  "packages/{name}",', place)
    text = insert_line(text, "[tool.uv.sources]", None, f"{name} = {{ workspace = true }}", place)
    text = insert_line(text, "files = [", "]", f'  "packages/{name}/src",', place)
    new = _load(text, place)
    # The lines above are found by their looks: this is the proof that they were the right ones.
    for table, key, entry in (
        (old["project"], "dependencies", name),
        (old["tool"]["uv"]["workspace"], "members", f"packages/{name}"),
        (old["tool"]["mypy"], "files", f"packages/{name}/src"),
    ):
        table[key].append(entry)
    old["tool"]["uv"]["sources"][name] = {"workspace": True}
    if _unordered(old) != _unordered(new):
        raise InvalidInput.argument(place, expected="each list of the workspace one entry a line", got="another form")
    return text


def _unordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _unordered(item) for key, item in value.items()}
    return sorted(map(repr, value)) if isinstance(value, list) else value


def _edit_readme(text: str, name: str) -> str:
    row = f"| [{name}](packages/{name}) | The least value of a function of one variable (worked example) | `{name}` |"
    return insert_line(text, "| --- ", None, row, "README.md")


def insert_line(text: str, head: str, end: str | None, line: str, place: str) -> str:
    """Insert `line` in the sorted list of lines below the line that begins with `head`.

    Parameters
    ----------
    text : str
        A file's content. Comments and everything outside the list stay as they are.
    head : str
        How the line above the list begins.
    end : str or None
        The line that ends the list; None: the first line that is empty or starts otherwise than the list's lines do.
    line : str
        Goes before the first line that sorts after it.
    place : str
        The file's name, for the message.

    Raises
    ------
    InvalidInput
        If there is no such list.
    """
    lines = text.splitlines()
    start = next((i for i, each in enumerate(lines) if each.startswith(head)), None)
    if start is None:
        raise InvalidInput.argument(place, expected=f"a line that begins with {head!r}", got="none")
    at = start + 1
    while at < len(lines) and not _ends(lines[at], line, end):
        if not lines[at].lstrip().startswith("#") and _sort_key(lines[at]) > _sort_key(line):
            break
        at += 1
    return "\n".join([*lines[:at], line, *lines[at:]]) + "\n"


def _ends(line: str, inserted: str, end: str | None) -> bool:
    if end is not None:
        return line.strip() == end
    indent = len(inserted) - len(inserted.lstrip())
    return not line.strip() or line.startswith("[") or len(line) - len(line.lstrip()) < indent


def _sort_key(line: str) -> str:
    # Up to the version, the extras or the title: "name[extra]>=1" sorts as "name".
    return re.split(r"[\[\]<>=!~;:,\s\"']", line.strip().lstrip("\"'-|[ "), maxsplit=1)[0]


def _render_folder(source: Traversable, target: Path, words: dict[str, str]) -> None:
    for entry in source.iterdir():
        path = target / _render(entry.name, words).removesuffix(SUFFIX)
        if entry.is_dir():
            if entry.name != "__pycache__":
                path.mkdir()
                _render_folder(entry, path, words)
            continue
        text = _render(entry.read_text(encoding="utf-8"), words)
        path.write_text(_sort_imports(text) if path.suffix == ".py" else text, encoding="utf-8", newline="\n")


def _render(text: str, words: dict[str, str]) -> str:
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _sort_imports(text: str) -> str:
    # The order of `from NAME import` and `from lemmata_core import` depends on the name.
    sorted_lines: list[str] = []
    for imports, group in itertools.groupby(text.splitlines(), lambda line: line.startswith(("import ", "from "))):
        lines = list(group)
        sorted_lines += sorted(lines, key=_import_key) if imports else lines
    return "\n".join(sorted_lines) + "\n"


def _import_key(line: str) -> tuple[bool, str]:
    return line.startswith("from "), line.split()[1]

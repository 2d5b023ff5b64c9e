"""`lemmata lock`: the pins in the root ``pyproject.toml``, written from a resolution by uv."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

from lemmata_core import InvalidInput
from lemmata_core.files import atomic_write
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if TYPE_CHECKING:
    from collections.abc import Iterable

BEGIN = "  # pins: begin (written by `lemmata lock`)"
END = "  # pins: end"
EXPORT = (
    "uv export --frozen --all-packages --all-extras --all-groups"
    " --no-hashes --no-emit-workspace --no-annotate --no-header"
)


def read_pins(text: str) -> list[str]:
    """The pins that stand in a root ``pyproject.toml``.

    Raises
    ------
    InvalidInput
        Where the two comment lines are not there, once each and in order.
    """
    lines = text.splitlines()
    if lines.count(BEGIN) != 1 or lines.count(END) != 1 or lines.index(BEGIN) > lines.index(END):
        raise InvalidInput.argument(
            "pyproject.toml", expected="the lines `# pins: begin` and `# pins: end`", got="neither"
        )
    inside = lines[lines.index(BEGIN) + 1 : lines.index(END)]
    return [line.strip().rstrip(",").strip('"') for line in inside]


def with_pins(text: str, pins: Iterable[str]) -> str:
    """The same ``pyproject.toml`` with other pins."""
    lines = text.splitlines(keepends=True)
    begin, end = lines.index(BEGIN + "\n"), lines.index(END + "\n")
    return "".join([*lines[: begin + 1], *(f'  "{pin}",\n' for pin in pins), *lines[end:]])


def missing_pins(root: Path) -> list[str]:
    """What ``uv.lock`` holds from a registry without a pin of that version, as ``name==version``.

    Raises
    ------
    InvalidInput
        Where there is no ``uv.lock``.
    """
    path = root / "uv.lock"
    if not path.is_file():
        raise InvalidInput(f"{path.name}: expected the file that `uv lock` writes at the root, got none")
    locked = tomllib.loads(path.read_text(encoding="utf-8"))["package"]
    pinned = {_plain_pin(pin) for pin in read_pins((root / "pyproject.toml").read_text(encoding="utf-8"))}
    found = {f"{canonicalize_name(p['name'])}=={p['version']}" for p in locked if "registry" in p.get("source", {})}
    return sorted(found - pinned)


def _plain_pin(pin: str) -> str:
    requirement = Requirement(pin)
    return f"{canonicalize_name(requirement.name)}{requirement.specifier}"


def lock(root: Path, *, upgrade: bool = False, name: str | None = None) -> list[str]:
    """Resolve, write the pins, and bring ``uv.lock`` up to date with them.

    Parameters
    ----------
    root : pathlib.Path
        The checkout.
    upgrade : bool
        Whether versions may move; without it only packages that have no pin are resolved anew.
    name : str, optional
        With `upgrade`: the one package that may move.

    Returns
    -------
    list of str
        Lines that changed: ``- old`` and ``+ new``.

    Raises
    ------
    InvalidInput
        Where no resolution exists, with what uv says, or `name` has no pin. The files are as they were.
    """
    file = root / "pyproject.toml"
    text = file.read_text(encoding="utf-8")
    before = read_pins(text)
    if name is not None and canonicalize_name(name) not in {canonicalize_name(Requirement(p).name) for p in before}:
        raise InvalidInput.argument("NAME", expected="a pinned package", got=name)
    kept = before
    if upgrade:
        kept = (
            []
            if name is None
            else [p for p in before if canonicalize_name(Requirement(p).name) != canonicalize_name(name)]
        )
    after = _resolve(root, with_pins(text, kept))
    if after != before:
        with atomic_write(file) as stream:
            stream.write(with_pins(text, after))
    _uv(root, "uv lock")
    return [f"- {p}" for p in before if p not in after] + [f"+ {p}" for p in after if p not in before]


def _resolve(root: Path, text: str) -> list[str]:
    # In a copy of the metadata alone, so that a resolution that fails leaves the checkout as it was.
    with tempfile.TemporaryDirectory() as name:
        copy = Path(name)
        (copy / "pyproject.toml").write_text(text, encoding="utf-8")
        for member in tomllib.loads(text)["tool"]["uv"]["workspace"]["members"]:
            (copy / member).mkdir(parents=True)
            shutil.copy(root / member / "pyproject.toml", copy / member)
        _uv(copy, "uv lock")
        lines = _uv(copy, EXPORT).splitlines()
    pins = [re.sub(r"\s*;\s*", " ; ", line.strip()).replace('"', "'") for line in lines]
    return sorted(pin for pin in pins if pin and not pin.startswith(("#", "-e", "./")))


def _uv(folder: Path, command: str) -> str:
    try:
        done = subprocess.run(command.split(), cwd=folder, capture_output=True, text=True, check=False)  # noqa: S603
    except FileNotFoundError as err:
        raise InvalidInput("uv: expected the command on the PATH (python3 -m pip install uv), got none") from err
    if done.returncode:
        raise InvalidInput(f"{command.split(' --')[0]} failed: {done.stderr.strip()}")
    return done.stdout

"""What a run of claims leaves on the disk, and when two runs are equal."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import platform
import re
import sys
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lemmata_core import InvalidInput
from lemmata_core.files import atomic_write
from lemmata_core.plain import plain

from lemmata_tools.checkout import find_root

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lemmata_core import Package

SCHEMA = 1
ERROR = "error"  # the verdict of a claim that raised


@dataclass(frozen=True)
class Result:
    """One claim's outcome: a row of ``results.json``.

    Attributes
    ----------
    id, package, version, source_digest, scale : str
    seed : int
    verdict : str
        An `Outcome`'s value, or "error".
    reason : str
    evidence : dict or None
        `Evidence` as plain values.
    seconds : float
    error : str
        The traceback of a claim that raised; else empty.
    statement, source, paper : str
        Of the claim, so that a report needs no installed package.
    """

    id: str
    package: str
    version: str
    source_digest: str
    scale: str
    seed: int
    verdict: str
    reason: str
    evidence: dict[str, Any] | None
    seconds: float
    error: str = ""
    statement: str = ""
    source: str = ""
    paper: str = ""


def machine() -> dict[str, Any]:
    """What the figures were measured on: system, processor, Python and the versions of the numerical libraries."""
    import os

    versions = {}
    for name in ("numpy", "scipy", "torch", "numba", "scikit-learn"):
        try:
            versions[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "system": platform.platform(),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "python": sys.version.split()[0],
        "libraries": versions,
        "commit": _commit(),
    }


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    found = re.search(r"model name\s*:\s*(.+)", text)
    return found[1] if found else platform.machine()


def _commit() -> str:
    import subprocess

    root = find_root(Path(__file__).parent)
    if root is None:
        return ""
    command = ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()


def source_digest(package: Package) -> str:
    """A digest of the sources that a claim's result follows from: the package's and the core's."""
    point = next(p for p in importlib.metadata.entry_points(group="lemmata.claims") if p.name == package.name)
    digest = hashlib.sha256()
    for module in (point.module.partition(".")[0], "lemmata_core"):
        for path in _sources(module):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def _sources(module: str) -> list[Path]:
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        return [Path(spec.origin)] if spec is not None and spec.origin else []
    root = Path(next(iter(spec.submodule_search_locations)))
    return sorted(p for p in root.rglob("*") if p.is_file() and "__pycache__" not in p.parts and p.suffix != ".pyc")


def claim_folder(out: Path, claim_id: str) -> Path:
    """Where a claim's results and partial work are kept."""
    return out / "claims" / Path(*claim_id.split("/"))


def result_file(out: Path, claim_id: str, scale: str, seed: int) -> Path:
    """The file of one result."""
    return claim_folder(out, claim_id) / f"{scale}-{seed}.json"


def save(out: Path, result: Result) -> None:
    """Write one result."""
    path = result_file(out, result.id, result.scale, result.seed)
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as file:
        json.dump(plain(result), file, indent=1, allow_nan=False)


def load(out: Path, claim_id: str, scale: str, seed: int) -> Result | None:
    """Read one result; None where there is none that can be read."""
    try:
        data = json.loads(result_file(out, claim_id, scale, seed).read_text(encoding="utf-8"))
        return Result(**data)
    except (OSError, ValueError, TypeError):
        return None


def save_all(out: Path, results: Iterable[Result]) -> None:
    """Write ``results.json``."""
    document = {"schema": SCHEMA, "machine": machine(), "claims": [plain(r) for r in results]}
    with atomic_write(out / "results.json") as file:
        json.dump(document, file, indent=1, allow_nan=False)


def load_all(folder: Path) -> tuple[dict[str, Any], list[Result]]:
    """Read ``results.json`` of a run.

    Parameters
    ----------
    folder : pathlib.Path
        A run's folder, or the file itself.

    Returns
    -------
    machine : dict
    results : list of Result

    Raises
    ------
    InvalidInput
        Where there is no such file, or it is not one of ours.
    """
    path = folder / "results.json" if folder.is_dir() else folder
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["schema"] != SCHEMA:
            raise InvalidInput.argument(str(path), expected=f"schema {SCHEMA}", got=document["schema"])
        found = [Result(**row) for row in document["claims"]]
        return dict(document["machine"] or {}), found
    except OSError as err:
        raise InvalidInput.argument(
            str(folder), expected="the folder of a run (lemmata reproduce)", got=str(err)
        ) from err
    except (ValueError, KeyError, TypeError) as err:
        if isinstance(err, InvalidInput):
            raise
        raise InvalidInput.argument(str(path), expected="a results.json", got=f"{type(err).__name__}: {err}") from err


def differences(ours: Path, theirs: Path) -> list[str]:
    """Where two runs disagree on anything but seconds, machine and what the evidence marks as timed.

    Parameters
    ----------
    ours, theirs : pathlib.Path
        As in `load_all`.

    Returns
    -------
    list of str
        One line a difference, naming claim and field; empty where the runs are equal.
    """
    left = {(r.id, r.scale, r.seed): r for r in load_all(ours)[1]}
    right = {(r.id, r.scale, r.seed): r for r in load_all(theirs)[1]}
    lines = [f"{key[0]} ({key[1]}, seed {key[2]}): only in the first" for key in left if key not in right]
    lines += [f"{key[0]} ({key[1]}, seed {key[2]}): only in the second" for key in right if key not in left]
    for key in left:
        if key in right:
            lines += [f"{key[0]}: {line}" for line in _compare(_stable(left[key]), _stable(right[key]), "")]
    return sorted(lines)


def _stable(result: Result) -> dict[str, Any]:
    data: dict[str, Any] = plain(result)
    for name in ("seconds", "error"):
        data.pop(name)
    evidence = data["evidence"]
    if evidence is None:
        return data
    timed, tables = set(evidence.get("timed", ())), evidence.get("tables", ())
    if timed or any(table["timed"] for table in tables):
        # The sentences quote the figures; their verdict may turn on them.
        data.pop("reason")
    if timed:
        data.pop("verdict")
    if "headline" in timed or timed & set(evidence.get("values", ())):
        evidence.pop("headline", None)
    evidence["values"] = {k: v for k, v in evidence.get("values", {}).items() if k not in timed}
    evidence["series"] = [s for s in evidence.get("series", ()) if s["title"] not in timed]
    for table in tables:
        hidden = {i for i, column in enumerate(table["columns"]) if column in table["timed"]}
        table["rows"] = [[None if i in hidden else v for i, v in enumerate(row)] for row in table["rows"]]
    return data


def _compare(a: Any, b: Any, place: str) -> list[str]:
    if isinstance(a, dict) and isinstance(b, dict):
        keys = sorted(set(a) | set(b))
        return [
            line
            for key in keys
            for line in (
                _compare(a[key], b[key], f"{place}.{key}" if place else key)
                if key in a and key in b
                else [f"{place}.{key}: only in the {'first' if key in a else 'second'}"]
            )
        ]
    if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
        return [line for i, (x, y) in enumerate(zip(a, b, strict=True)) for line in _compare(x, y, f"{place}[{i}]")]
    return [] if _equal(a, b) else [f"{place}: {_cut(a)} and {_cut(b)}"]


def _equal(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _cut(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."

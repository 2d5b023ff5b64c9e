"""`lemmata reproduce`: run claims, keep what is finished, go on after an interruption."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import sys
import tempfile
import time
import traceback
from contextlib import ExitStack, chdir, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zlib import crc32

import numpy as np
from lemmata_core import Claim, Context, Evidence, InvalidInput, Outcome, Package, Scale, Verdict, discover
from lemmata_core.executor import executor as open_executor
from lemmata_core.executor import one_thread
from lemmata_core.plain import plain

from lemmata_tools import results
from lemmata_tools.results import Result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from concurrent.futures import Executor

    from lemmata_core.progress import Progress

    Observer = Callable[[Claim, str, Result | None], None]


@dataclass(frozen=True)
class Plan:
    """What is to be run: claims with their packages, in order, and the packages that could not be loaded."""

    claims: tuple[tuple[Package, Claim], ...]
    broken: tuple[Package, ...]


def plan(names: Sequence[str], claim_ids: Sequence[str]) -> Plan:
    """Choose among the installed packages' claims.

    Parameters
    ----------
    names : sequence of str
        Packages; none means all.
    claim_ids : sequence of str
        Claims, as ``NAME/ID`` or ``ID``; none means all.

    Raises
    ------
    InvalidInput
        For a name that no installed package or claim has, and where no package is installed.
    """
    found = discover()
    if not found:
        raise InvalidInput("no installed package offers claims: install a lemmata package beside lemmata-tools")
    wanted_names = {normal_name(name) for name in names}
    unknown = [name for name in names if normal_name(name) not in {normal_name(known) for known in found}]
    if unknown:
        raise InvalidInput.argument("PACKAGE", expected=f"one of {', '.join(found)}", got=", ".join(unknown))
    chosen = [found[name] for name in found if not names or normal_name(name) in wanted_names]
    pairs = [(package, claim) for package in chosen for claim in package.claims]
    for wanted in claim_ids:
        if not any(wanted in {claim.id, _short(claim)} for _, claim in pairs):
            known = ", ".join(claim.id for _, claim in pairs) or "none"
            raise InvalidInput.argument("--claim", expected=f"one of {known}", got=wanted)
    if claim_ids:
        pairs = [(p, c) for p, c in pairs if c.id in claim_ids or _short(c) in claim_ids]
        chosen = [p for p in chosen if any(p is q for q, _ in pairs)]
    return Plan(tuple(pairs), tuple(p for p in chosen if p.error))


def normal_name(name: str) -> str:
    """A distribution's name in the one spelling that all of its spellings share."""
    return re.sub(r"[-_.]+", "-", name.strip()).lower()


def _short(claim: Claim) -> str:
    return claim.id.partition("/")[2]


def prepare(out: Path) -> None:
    """Make the folder for results and try to write to it, before any work.

    Raises
    ------
    InvalidInput
        Where that fails.
    """
    try:
        (out / "claims").mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=out):
            pass
    except OSError as err:
        raise InvalidInput.argument(
            "--out", expected="a folder that can be written to", got=f"{out} ({err.strerror or err})"
        ) from err


@contextmanager
def only_one(out: Path) -> Iterator[None]:
    """Keep a second `lemmata reproduce` out of the same folder; the lock goes with the process, however it ends."""
    handle = os.open(out / ".lock", os.O_RDWR | os.O_CREAT)
    try:
        try:
            _lock(handle)
        except OSError as err:
            raise InvalidInput.argument(
                "--out", expected="a folder no other run is writing to", got=f"{out}, in use"
            ) from err
        yield
    finally:
        os.close(handle)


def _lock(handle: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)


@dataclass(frozen=True)
class Settings:
    """How a plan is run: scale, seed, the executor's spec, a prepared folder, whether to forget what is finished."""

    scale: Scale
    seed: int
    spec: str
    out: Path
    fresh: bool = False


def run(chosen: Plan, settings: Settings, progress: Progress, observe: Observer) -> list[Result]:
    """Run the claims of a plan, one after the other, and write each result as it is there.

    Parameters
    ----------
    chosen : Plan
    settings : Settings
    progress : Progress
    observe : callable
        Told ``(claim, state, result)`` as states change: "running" (result None), "kept", "done".

    Returns
    -------
    list of Result
        In the order of the plan.
    """
    digests = {package.name: results.source_digest(package) for package, _ in chosen.claims}
    finished: list[Result] = []
    with ExitStack() as stack:
        pool = stack.enter_context(open_executor(settings.spec))
        for package, claim in chosen.claims:
            digest = digests[package.name]
            kept = None if settings.fresh else _kept(claim, digest, settings)
            if kept is not None:
                finished.append(kept)
                observe(claim, "kept", kept)
                continue
            observe(claim, "running", None)
            result = _run_one(package, claim, digest, settings, pool, progress)
            results.save(settings.out, result)
            finished.append(result)
            observe(claim, "done", result)
            if "BrokenProcessPool" in result.error:
                # A worker died (memory, a crash): the claims to come get new ones.
                stack.close()
                pool = stack.enter_context(open_executor(settings.spec))
    return finished


def _kept(claim: Claim, digest: str, settings: Settings) -> Result | None:
    kept = results.load(settings.out, claim.id, settings.scale, settings.seed)
    if kept is None or kept.source_digest != digest or kept.verdict == results.ERROR:
        return None
    # A claim left out for want of a module is tried again once the module is there.
    return kept if kept.evidence is not None or _untestable(claim, settings.scale) is not None else None


def _run_one(
    package: Package, claim: Claim, digest: str, settings: Settings, pool: Executor, progress: Progress
) -> Result:
    start = time.perf_counter()
    evidence: dict[str, Any] | None = None
    verdict = _untestable(claim, settings.scale)
    error = reason = ""
    if verdict is None:
        workdir = _workdir(claim, digest, settings)
        rng = np.random.default_rng(np.random.SeedSequence([settings.seed, crc32(claim.id.encode())]))
        try:
            with one_thread(), chdir(Path.cwd()):  # a claim that changes the folder leaves the next where it was
                context = Context(scale=settings.scale, rng=rng, executor=pool, progress=progress, workdir=workdir)
                evidence, verdict = _evaluate(claim, context)
        except (Exception, SystemExit) as err:  # noqa: BLE001
            # Reported with its traceback; the other claims go on. The partial work stays for the next try.
            error = traceback.format_exc()
            reason = " ".join(f"{type(err).__name__}: {err}".split())
        else:
            shutil.rmtree(workdir, ignore_errors=True)
    return Result(
        id=claim.id,
        package=package.name,
        version=package.version,
        source_digest=digest,
        scale=str(settings.scale),
        seed=settings.seed,
        verdict=results.ERROR if verdict is None else str(verdict.outcome),
        reason=reason if verdict is None else verdict.reason,
        evidence=evidence,
        seconds=round(time.perf_counter() - start, 3),
        error=error,
        statement=claim.statement,
        source=claim.source,
        paper=claim.paper,
    )


def _evaluate(claim: Claim, context: Context) -> tuple[dict[str, Any], Verdict]:
    evidence = claim.run(context)
    if not isinstance(evidence, Evidence):
        raise TypeError(f"{claim.id}: run gave {type(evidence).__name__}, not Evidence")
    verdict = claim.accept(evidence)
    if not isinstance(verdict, Verdict):
        raise TypeError(f"{claim.id}: accept gave {type(verdict).__name__}, not a Verdict")
    if verdict.outcome not in list(Outcome) or not isinstance(verdict.reason, str):
        raise TypeError(f"{claim.id}: accept gave {verdict}, not an Outcome with a reason")
    return plain(evidence), verdict


def _untestable(claim: Claim, scale: Scale) -> Verdict | None:
    if scale not in claim.scales:
        offered = ", ".join(s for s in Scale if s in claim.scales)
        return Verdict.not_testable(f"not offered at scale {scale}; offered at {offered}")
    missing = _missing(claim)
    if missing:
        return Verdict.not_testable(
            f"needs {', '.join(missing)}, which cannot be imported here; install it and run again"
        )
    return None


def _missing(claim: Claim) -> list[str]:
    return [module for module in claim.requires if not _importable(module)]


def _importable(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except Exception:  # noqa: BLE001 - a submodule is looked up by importing its package, which may raise anything
        return False


def _workdir(claim: Claim, digest: str, settings: Settings) -> Path:
    # The digest is part of the name: partial work of other sources must not leak into a result of these.
    # Absolute: workers and claims may stand in other folders.
    folder = results.claim_folder(settings.out.absolute(), claim.id)
    name = f"{settings.scale}-{settings.seed}"
    current = folder / f"{name}-{digest}.work"
    for old in folder.glob(f"{name}-*.work"):
        if settings.fresh or old != current:
            shutil.rmtree(old, ignore_errors=True)
    current.mkdir(parents=True, exist_ok=True)
    return current

"""A claim: a sentence of a paper turned into something to run, with the rule that accepts or rejects it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from importlib import metadata
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor
    from pathlib import Path

    import numpy as np

    from lemmata_core.progress import Progress

ENTRY_POINT_GROUP = "lemmata.claims"


class Scale(StrEnum):
    """How much of the paper's experiment is run."""

    SMOKE = "smoke"
    LAPTOP = "laptop"
    FULL = "full"


class Outcome(StrEnum):
    """What the evidence says about a claim."""

    HOLDS = "holds"
    DOES_NOT_HOLD = "does not hold"
    NOT_TESTABLE = "not testable"


@dataclass(frozen=True)
class Verdict:
    """An outcome with its reason, in one sentence with figures."""

    outcome: Outcome
    reason: str

    @classmethod
    def holds(cls, reason: str) -> Self:
        """The claim holds on this evidence."""
        return cls(Outcome.HOLDS, reason)

    @classmethod
    def does_not_hold(cls, reason: str) -> Self:
        """The claim does not hold on this evidence. A result, not a failure."""
        return cls(Outcome.DOES_NOT_HOLD, reason)

    @classmethod
    def not_testable(cls, reason: str) -> Self:
        """The claim cannot be tested here; the reason says what is missing."""
        return cls(Outcome.NOT_TESTABLE, reason)

    @classmethod
    def of(cls, ok: bool, reason: str, *, asked: str = "") -> Self:
        """Judge by a condition: `holds` if it is met, else `does_not_hold`, for the same reason.

        Parameters
        ----------
        ok : bool
            Whether the claim holds.
        reason : str
            The figures that say so.
        asked : str
            What would have been enough, where the reason does not say; added if the claim does not hold.
        """
        if ok:
            return cls.holds(reason)
        return cls.does_not_hold(f"{reason} (asked: {asked})" if asked else reason)


@dataclass(frozen=True)
class Context:
    """What a claim is given to run with.

    Attributes
    ----------
    scale : Scale
        How much to run.
    rng : numpy.random.Generator
        The claim's own generator, ``default_rng(SeedSequence([seed, crc32(id)]))``.
    executor : concurrent.futures.Executor
        For work that splits: top-level functions with picklable arguments, one thread a task.
    progress : Progress
        Shows how far the work is.
    workdir : pathlib.Path
        An existing folder of this claim, scale and seed. It survives an interruption, so partial results kept
        there are found again.
    """

    scale: Scale
    rng: np.random.Generator
    executor: Executor
    progress: Progress
    workdir: Path


@dataclass(frozen=True)
class Table:
    """A table of plain values.

    Attributes
    ----------
    title : str
    columns : sequence of str
    rows : sequence of sequences
        One value (str, int, float, bool or None) a column.
    timed : sequence of str
        The columns that hold times or what follows from them, and so differ between runs.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    timed: Sequence[str] = ()


@dataclass(frozen=True)
class Series:
    """Lines to be plotted together.

    Attributes
    ----------
    title, x_label, y_label : str
    lines : mapping of str to tuple
        Name of the line to ``(x, y)`` or ``(x, y, low, high)``: sequences of numbers of one length; `low` and
        `high` are drawn as a band.
    log_x, log_y : bool
    """

    title: str
    x_label: str
    y_label: str
    lines: Mapping[str, tuple[Sequence[float], ...]]
    log_x: bool = False
    log_y: bool = False


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What a claim's run found: plain values, never pictures.

    Attributes
    ----------
    headline : str
        The finding in one line: "7.2x faster than Newton-Schulz at 2048 x 2048".
    values : mapping of str to float
        What `Claim.accept` reads.
    tables : tuple of Table
    series : tuple of Series
    settings : mapping of str to object
        Sizes, seeds, peers' versions: enough to run it again.
    timed : frozenset of str
        The keys of `values`, and the titles of `series`, that vary from run to run. The word ``"headline"`` says
        that the headline quotes such a figure. A verdict's reason is compared only where nothing is timed.
    """

    headline: str
    values: Mapping[str, float] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    series: tuple[Series, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    timed: frozenset[str] = frozenset()


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A sentence of a paper, what to run, and the rule that accepts.

    Attributes
    ----------
    id : str
        Distribution and claim: ``"optim-rmnp/cost"``.
    statement : str
        One sentence, in our words.
    source : str
        Where the paper says so: ``"arXiv 2603.20527, timing table"``.
    run : callable
        A top-level function from `Context` to `Evidence`.
    accept : callable
        From `Evidence` to `Verdict`. It reads `Evidence.values` only.
    paper : str
        The paper's figure as the report prints it: ``"13x to 44x"``.
    scales : frozenset of Scale
        At any other scale the verdict is "not testable" and nothing runs.
    requires : tuple of str
        Importable modules that the run needs beyond the package's own dependencies.
    timed : bool
        Whether it measures time; then it runs alone, in the main process.
    """

    id: str
    statement: str
    source: str
    run: Callable[[Context], Evidence]
    accept: Callable[[Evidence], Verdict]
    paper: str = ""
    scales: frozenset[Scale] = frozenset(Scale)
    requires: tuple[str, ...] = ()
    timed: bool = False


@dataclass(frozen=True)
class Package:
    """An installed package that offers claims.

    Attributes
    ----------
    name : str
        Name of the distribution.
    version : str
    claims : tuple of Claim
        Empty when `error` is set.
    error : str
        Why the claims could not be loaded; empty when they could.
    """

    name: str
    version: str
    claims: tuple[Claim, ...] = ()
    error: str = ""


def discover() -> dict[str, Package]:
    """Find the installed packages that offer claims, through the entry-point group ``lemmata.claims``.

    Returns
    -------
    dict of str to Package
        Sorted by name. A package whose claims cannot be imported, or are not a tuple of `Claim` with ids of the
        form ``NAME/...``, is in it with its error.
    """
    found: dict[str, Package] = {}
    for point in sorted(metadata.entry_points(group=ENTRY_POINT_GROUP), key=lambda p: p.name):
        name, version = point.name, point.dist.version if point.dist else "unknown"
        try:
            claims = _checked(name, point.load())
        except (Exception, SystemExit) as err:  # noqa: BLE001 - a broken package must not hide the others
            found[name] = Package(name, version, error=f"{type(err).__name__}: {err}")
        else:
            found[name] = Package(name, version, claims)
    return found


def _is_folder_name(text: str) -> bool:
    # A claim's results are kept in a folder of its name.
    fits = text not in {"", ".", ".."} and len(text.encode(errors="replace")) <= 200
    return fits and text.isprintable() and not set(text) & set('/\\:*?"<>|')


def _checked(name: str, claims: object) -> tuple[Claim, ...]:
    if not isinstance(claims, tuple) or not all(isinstance(c, Claim) for c in claims):
        raise TypeError(f"the entry point {name} of {ENTRY_POINT_GROUP} is not a tuple of Claim")
    ids = [claim.id for claim in claims]
    foreign = [i for i in ids if not i.startswith(f"{name}/") or not _is_folder_name(i.removeprefix(f"{name}/"))]
    if foreign:
        raise ValueError(f"claim ids must have the form {name}/ID: {', '.join(foreign)}")
    repeated = sorted({i for i in ids if ids.count(i) > 1})
    if repeated:
        raise ValueError(f"claim ids occur twice: {', '.join(repeated)}")
    return claims

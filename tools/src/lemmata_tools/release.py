"""`lemmata release`: check, build, try in a clean environment, tag."""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from lemmata_core import InvalidInput
from lemmata_core.check import one_of
from lemmata_core.claims import ENTRY_POINT_GROUP
from lemmata_core.files import atomic_write
from packaging.version import Version

from lemmata_tools import clean, readme
from lemmata_tools.workspace import CORE, Member, members

if TYPE_CHECKING:
    from rich.console import Console

BUMPS = ("major", "minor", "patch")
UNRELEASED = "Unreleased"
TOOLS = "lemmata-tools"
WORKSPACE_COMMAND = "lemmata"  # of TOOLS; a package's environment need not have it


@dataclass(frozen=True)
class Release:
    """What is to be released: the member as it stands, and the version it will have."""

    root: Path
    member: Member
    version: Version

    @property
    def tag(self) -> str:
        """``NAME-vX.Y.Z``."""
        return f"{self.member.name}-v{self.version}"

    @property
    def edits(self) -> dict[str, str]:
        """The files that change, relative to the member's folder, with their new content. None without a bump."""
        if self.version == self.member.version:
            return {}
        project = (self.member.folder / "pyproject.toml").read_text(encoding="utf-8")
        changelog = (self.member.folder / "CHANGELOG.md").read_text(encoding="utf-8")
        return {
            "pyproject.toml": re.sub(
                r'^version = ".*"', f'version = "{self.version}"', project, count=1, flags=re.MULTILINE
            ),
            "CHANGELOG.md": re.sub(
                rf"^## {UNRELEASED}.*", f"## {self.version}", changelog, count=1, flags=re.MULTILINE
            ),
        }


def release(root: Path, name: str, bump: str | None, dry_run: bool, console: Console) -> int:
    """Release one distribution of a checkout.

    Parameters
    ----------
    root : pathlib.Path
        The checkout.
    name : str
        The distribution.
    bump : {"major", "minor", "patch"} or None
        Which part of the version to raise; None releases the version that stands.
    dry_run : bool
        Do everything but the commit and the tag: files, tags and the index of git stay as they are.
    console : rich.console.Console
        Where to say what is done.

    Returns
    -------
    int
        0; 1 where something stands against it, all of it printed.

    Raises
    ------
    InvalidInput
        For an unknown name or bump.
    """
    found = members(root)
    member = found[one_of(name, "NAME", found)]
    planned = Release(root, member, bumped(member.version, bump))
    problems = obstacles(planned, found)
    if not problems:
        head = _git(root, "rev-parse", "HEAD")
        console.print(f"{planned.tag}: changelog, bounds and tree are in order")
        problems = _rehearse(planned, console)
        if not problems and (_git(root, "rev-parse", "HEAD") != head or _git(root, "status", "--porcelain")):
            problems = ["the checkout changed while the wheel was built and tried: start again"]
    if problems:
        for problem in problems:
            console.print(f"error: {problem}", style="red", markup=False, soft_wrap=True)
        console.print(f"{planned.tag}: not released; {len(problems)} to mend, nothing was changed")
        return 1
    changed = [f"{member.folder.relative_to(root).as_posix()}/{file}" for file in planned.edits]
    if dry_run:
        if changed:
            console.print(f"would write and commit {' and '.join(changed)}")
        console.print(f"would make the tag {planned.tag}; nothing was changed")
        return 0
    _commit_and_tag(planned)
    if changed:
        console.print(f"committed {' and '.join(changed)}")
    console.print(f"made the tag {planned.tag}; pushing it publishes: git push origin HEAD {planned.tag}")
    return 0


def bumped(version: Version, bump: str | None) -> Version:
    """The version after a bump.

    Raises
    ------
    InvalidInput
        For a bump that is none of major, minor and patch.
    """
    if bump is None:
        return version
    place = BUMPS.index(one_of(bump, "--bump", BUMPS))
    parts = [*version.release, 0, 0][:3]
    return Version(".".join(map(str, [*parts[:place], parts[place] + 1, *[0] * (2 - place)])))


def sections(changelog: str) -> dict[str, str]:
    """The text below each ``## heading`` of a changelog, by the heading's first word."""
    pieces = re.split(r"^## +(\S+).*$", changelog, flags=re.MULTILINE)
    return {heading.strip("[]"): text.strip() for heading, text in zip(pieces[1::2], pieces[2::2], strict=True)}


def obstacles(planned: Release, found: dict[str, Member]) -> list[str]:
    """Everything that stands against a release, before anything is built."""
    return [*_changelog_obstacles(planned), *bound_obstacles(planned, found), *_git_obstacles(planned)]


def _changelog_obstacles(planned: Release) -> list[str]:
    path = planned.member.folder / "CHANGELOG.md"
    place = path.relative_to(planned.root).as_posix()
    try:
        found = sections(path.read_text(encoding="utf-8"))
    except OSError:
        return [f"{place}: expected a changelog, got none"]
    problems = []
    if planned.version == planned.member.version:
        if not found.get(str(planned.version)):
            problems.append(f"{place}: expected an entry under ## {planned.version}, got none")
        if found.get(UNRELEASED):
            problems.append(f"{place}: ## {UNRELEASED} has entries: release them with --bump")
    else:
        if not found.get(UNRELEASED):
            problems.append(f"{place}: expected what changed under ## {UNRELEASED}, got nothing")
        if str(planned.version) in found:
            problems.append(f"{place}: has ## {planned.version} already")
    return problems


def bound_obstacles(planned: Release, found: dict[str, Member]) -> list[str]:
    """Bounds between distributions of the workspace that do not fit the versions after the release.

    A bound fits when it admits the version and no later one that may break: the next minor version while the major
    one is 0, else the next major one.
    """
    versions = {name: member.version for name, member in found.items()} | {planned.member.name: planned.version}
    problems = []
    for member in found.values():
        place = (member.folder / "pyproject.toml").relative_to(planned.root).as_posix()
        for requirement in member.dependencies:
            version = versions.get(requirement.name)
            if version is None or planned.member.name not in {member.name, requirement.name}:
                continue
            breaking = bumped(version, "minor" if version.major == 0 else "major")
            if version not in requirement.specifier:
                problems.append(
                    f"{place}: {requirement} does not admit {requirement.name} {version}; after a breaking change "
                    "every bound follows in the same commit"
                )
            elif breaking in requirement.specifier:
                problems.append(f"{place}: {requirement} admits {breaking}, which may break it")
    return problems


def _git_obstacles(planned: Release) -> list[str]:
    try:
        dirty = _git(planned.root, "status", "--porcelain").splitlines()
        tags = _git(planned.root, "tag", "--list", f"{planned.member.name}-v*").split()
    except InvalidInput as err:
        return [str(err)]
    problems = []
    if dirty:
        rest = f" and {len(dirty) - 5} more" if len(dirty) > 5 else ""
        problems.append(f"the tree is not clean: {', '.join(line[3:] for line in dirty[:5])}{rest}")
    if planned.tag in tags:
        problems.append(f"the tag {planned.tag} exists: raise the version with --bump")
    later = [tag for tag in tags if _tagged(tag) > planned.version]
    if later:
        problems.append(f"{planned.version} is below the released {max(map(_tagged, later))}")
    return problems


def _tagged(tag: str) -> Version:
    text = tag.rpartition("-v")[2]
    return Version(text) if re.fullmatch(r"\d+(\.\d+)*", text) else Version("0")


def _rehearse(planned: Release, console: Console) -> list[str]:
    """Build what would be released, in a copy, and try the wheel in a clean environment."""
    with tempfile.TemporaryDirectory(prefix="lemmata-release-") as name:
        tree, local, empty = (Path(name) / part for part in ("tree", "local", "empty"))
        _copy(planned.root, tree)
        folder = tree / planned.member.folder.relative_to(planned.root)
        for file, text in planned.edits.items():
            (folder / file).write_text(text, encoding="utf-8")
        try:
            return _build_and_try(planned, tree, local, empty, console)
        except (clean.Failed, InvalidInput) as err:
            return [str(err)]


def _build_and_try(planned: Release, tree: Path, local: Path, empty: Path, console: Console) -> list[str]:
    member = planned.member
    clean.run(["uv", "build", "--quiet", "--package", member.name, "--out-dir", str(local)], tree)
    for other in {CORE, TOOLS} - {member.name}:
        clean.run(["uv", "build", "--quiet", "--wheel", "--package", other, "--out-dir", str(local)], tree)
    built = sorted(path.name for path in local.glob(f"{member.module}-{planned.version}*") if path.is_file())
    if len(built) != 2:
        return [f"expected an sdist and a wheel of {planned.version}, built {', '.join(built) or 'nothing'}"]
    console.print(f"built {' and '.join(built)}")

    environment = clean.Environment.make(empty)
    problems = _try_readme(planned, tree, environment, local)
    if problems:
        return problems
    console.print("its README's example and commands run in a clean environment")
    if ENTRY_POINT_GROUP in member.data["project"].get("entry-points", {}):
        environment.install(next(local.glob("lemmata_tools-*.whl")), "--find-links", local)
        words = ["-m", "lemmata_tools.main", "reproduce", member.name, "--out", str(empty / "results")]
        output = clean.run([str(environment.python), *words], local)
        console.print(f"its claims run there: {_summary(output)}", markup=False)
    return []


def _try_readme(planned: Release, tree: Path, environment: clean.Environment, local: Path) -> list[str]:
    name = planned.member.name
    page = tree / planned.member.folder.relative_to(planned.root) / "README.md"
    wheel = next(local.glob(f"{planned.member.module}-*.whl"))
    problems: list[str] = []
    # As its user will: the newest of everything that it admits, nothing that it does not ask for.
    for wanted, commands in readme.trials(page.read_text(encoding="utf-8"), name):
        environment.install(f"{wanted} @ {wheel.as_uri()}", "--find-links", local)
        others = {WORKSPACE_COMMAND} if name != TOOLS else set()
        problems = problems or readme.run(page, environment.python, console=commands, without=others)
    return problems


def _summary(output: str) -> str:
    return next((line for line in output.splitlines() if re.match(r"\d+ claims ", line)), "done")


def _copy(root: Path, target: Path) -> None:
    # Tracked files only: what is ignored must not be in a release.
    for name in _git(root, "ls-files", "-z").split("\0"):
        if name:
            (target / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(root / name, target / name)


def _commit_and_tag(planned: Release) -> None:
    root, folder = planned.root, planned.member.folder
    edits = {folder / file: text for file, text in planned.edits.items()}
    before = {path: path.read_text(encoding="utf-8") for path in edits}
    committed = False
    try:
        for path, text in edits.items():
            with atomic_write(path) as file:
                file.write(text)
        if edits:
            title = f"Release {planned.member.name} {planned.version}"
            _git(root, "commit", "--quiet", "--message", title, "--", *map(str, edits))
            committed = True
        _git(root, "tag", "--annotate", planned.tag, "--message", f"{planned.member.name} {planned.version}")
    except BaseException:
        if committed:
            _git(root, "reset", "--quiet", "--soft", "HEAD~1")
        for path, text in before.items():
            path.write_text(text, encoding="utf-8")
        if edits:
            _git(root, "reset", "--quiet", "--", *map(str, edits))
        raise


def _git(root: Path, *words: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            ["git", *words],  # noqa: S607
            cwd=root,
            capture_output=True,
            text=True,
            check=False,
        )
    except FileNotFoundError as err:
        raise InvalidInput("git: expected on the PATH, got none") from err
    if done.returncode:
        raise InvalidInput(f"git {words[0]}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout.rstrip("\n")

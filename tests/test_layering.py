"""Who may import whom, read from the sources."""

import ast
import importlib.metadata
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Set
from dataclasses import dataclass
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from lemmata_tools.workspace import CORE, Member, members
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
MEMBERS = members(ROOT)
PACKAGES = [member for member in MEMBERS.values() if member.is_package]

# What a module of the core may import beside the standard library and the core. Only the modules of an extra may load
# more than NumPy when they are imported; the others import it inside the functions that need it.
CORE_IMPORTS = {
    "__init__": set(),
    "check": {"numpy", "scipy"},
    "claims": {"numpy"},
    "cli": {"rich", "typer"},
    "errors": set(),
    "executor": {"distributed", "numba", "threadpoolctl", "torch"},
    "files": set(),
    "markup": {"numpy"},
    "page": {"matplotlib", "numpy"},
    "plain": {"numpy", "torch"},
    "progress": {"rich"},
    "rng": {"numpy", "torch"},
    "svg": {"cycler", "matplotlib", "numpy"},
    "testbed_data": {"numpy", "sklearn", "torch"},
    "testbed_nets": {"torch"},
    "testbeds": {"numpy", "torch"},
    "timing": {"numba", "numpy"},
}
CORE_LOADS = {
    "check": {"numpy"},
    "cli": {"typer", "rich"},
    "markup": {"numpy"},
    "page": {"numpy"},
    "rng": {"numpy"},
    "svg": {"numpy"},
    "testbed_data": {"numpy", "torch"},
    "testbed_nets": {"numpy", "torch"},
    "testbeds": {"numpy", "torch"},
    "timing": {"numpy"},
}
# Imports that belong to another distribution: it hands them on, in the version that it wants.
GIVEN_BY = {"cycler": "matplotlib", "llvmlite": "numba"}
INTERFACE = re.compile(r"_?(cli|claims|__main__)(_|$)")


@dataclass(frozen=True)
class Import:
    module: str
    line: int
    at_load: bool  # at module level, outside `if TYPE_CHECKING`
    names: tuple[str, ...] = ()  # of `from module import names`


def imports(path: Path, package: str, base: Path) -> list[Import]:
    """Every import of a file, relative ones written out."""
    tree = ast.parse(path.read_text(encoding="utf-8"), str(path))
    parts = [package, *path.relative_to(base).with_suffix("").parts]
    folder = parts[:-1]

    def walk(node: ast.AST, at_load: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, child.lineno, at_load) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                origin = ".".join(folder[: len(folder) - child.level + 1]) if child.level else ""
                module = ".".join(filter(None, [origin, child.module]))
                yield Import(module, child.lineno, at_load, tuple(alias.name for alias in child.names))
            elif isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test):
                for inner in child.body:
                    yield from walk(ast.Module([inner], []), False)
                for inner in child.orelse:
                    yield from walk(ast.Module([inner], []), at_load)
            else:
                inside = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from walk(child, at_load and not inside)

    return list(walk(tree, True))


def sources(member: Member) -> list[Path]:
    return sorted(member.source.rglob("*.py"))


def targets(each: Import, known: Set[str]) -> set[str]:
    """The modules among `known` that an import needs: `from package import submodule` needs the submodule alone."""
    inner = {f"{each.module}.{name}" for name in each.names}
    return (inner & known) | (set() if inner and inner <= known else {each.module} & known)


def of(member: Member, path: Path) -> list[Import]:
    return imports(path, member.module, member.source)


@cache
def installed() -> dict[str, list[str]]:
    return dict(importlib.metadata.packages_distributions())


def providers(top: str) -> set[str]:
    """The distributions that a top-level import comes from; by its name where it is not installed."""
    names = [GIVEN_BY[top]] if top in GIVEN_BY else installed().get(top, [top])
    return {str(canonicalize_name(name)) for name in names}


def declared(member: Member) -> set[str]:
    """What a package may import: its dependencies, extras too, and those of the core's extras that it asks for."""
    core = MEMBERS[CORE].data["project"]
    names: set[str] = set()
    for requirement in member.dependencies:
        names.add(str(canonicalize_name(requirement.name)))
        if requirement.name == CORE:
            for extra in requirement.extras:
                names |= {str(canonicalize_name(Requirement(r).name)) for r in core["optional-dependencies"][extra]}
    return names


def foreign(member: Member) -> Iterator[tuple[str, str]]:
    """Place and top-level name of every import from outside the member and the standard library."""
    for path in sources(member):
        for each in of(member, path):
            top = each.module.partition(".")[0]
            if top != member.module and top not in sys.stdlib_module_names:
                yield f"{path.relative_to(ROOT)}:{each.line}", top


def test_the_workspace_has_the_core_and_the_command():
    assert {CORE, "lemmata-tools"} <= set(MEMBERS)


@pytest.mark.parametrize("member", PACKAGES, ids=lambda m: m.name)
def test_a_package_imports_nothing_of_another(member):
    others = {m.module for m in MEMBERS.values()} - {member.module, "lemmata_core"}
    assert [(place, top) for place, top in foreign(member) if top in others] == []


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda m: m.name)
def test_what_is_imported_is_declared(member):
    allowed = declared(member)
    undeclared = [
        (place, top)
        for place, top in foreign(member)
        if not providers(top) & allowed
        # The core guards the libraries that it only steers where the package has brought them.
        and not (member.name == CORE and top in set.union(*CORE_IMPORTS.values()))
    ]
    assert undeclared == []


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda m: m.name)
def test_no_source_imports_a_peer(member):
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["dependency-groups"]
    peers = {str(canonicalize_name(Requirement(text).name)) for text in groups["peers"]} - declared(member)
    found = [(place, top) for place, top in foreign(member) if providers(top) & peers]
    assert found == []


@pytest.mark.parametrize("member", PACKAGES, ids=lambda m: m.name)
def test_mathematics_imports_no_interface(member):
    found = []
    for path in sources(member):
        if INTERFACE.match(path.relative_to(member.source).parts[0].removesuffix(".py")):
            continue
        for each in of(member, path):
            for module in (each.module, *(f"{each.module}.{name}" for name in each.names)):
                parts = module.split(".")
                if parts[0] == member.module and len(parts) > 1 and INTERFACE.match(parts[1]):
                    found.append((f"{path.relative_to(ROOT)}:{each.line}", module))
    assert found == []


@pytest.mark.parametrize("member", MEMBERS.values(), ids=lambda m: m.name)
def test_imports_run_in_no_circle(member):
    names = {}
    for path in sources(member):
        parts = [member.module, *path.relative_to(member.source).with_suffix("").parts]
        names[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    graph = {
        name: set().union(*(targets(each, names.keys()) for each in of(member, path) if each.at_load)) - {name}
        for name, path in names.items()
    }
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def test_the_core_imports_what_the_architecture_allows():
    core = MEMBERS[CORE]
    modules = {path.relative_to(core.source).parts[0].removesuffix(".py") for path in sources(core)}
    assert modules <= set(CORE_IMPORTS), "say in CORE_IMPORTS what a new module of the core may import"
    found = [
        (str(path.relative_to(ROOT)), each.line, each.module)
        for path in sources(core)
        for each in of(core, path)
        for top in [each.module.partition(".")[0]]
        if top not in sys.stdlib_module_names
        and top != core.module
        and top not in CORE_IMPORTS[path.relative_to(core.source).parts[0].removesuffix(".py")]
    ]
    assert found == []


@pytest.mark.parametrize("module", sorted(CORE_IMPORTS))
def test_a_module_of_the_core_loads_no_more_than_it_needs(module):
    core = MEMBERS[CORE]
    if not (core.source / f"{module}.py").is_file() and not (core.source / module).is_dir():
        pytest.skip(f"the core has no {module} yet")
    name = "lemmata_core" if module == "__init__" else f"lemmata_core.{module}"
    code = f"import sys; before = set(sys.modules); import {name}; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = (
        {m.partition(".")[0] for m in done.stdout.split()} - set(sys.stdlib_module_names) - {core.module, "__mp_main__"}
    )
    heavy = {"cvxpy", "distributed", "matplotlib", "numba", "numpy", "rich", "scipy", "sklearn", "torch", "typer"}
    allowed = CORE_LOADS.get(module, set())
    if allowed:
        assert loaded & heavy <= allowed
    else:
        # The standard library alone.
        assert loaded == set()


def test_the_command_never_names_a_package():
    names = {text for member in PACKAGES for text in (member.name, member.module)}
    if not names:
        pytest.skip("no packages in this checkout")
    pattern = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in sorted(names)))
    tools = MEMBERS["lemmata-tools"].source
    texts = {p: p.read_text(encoding="utf-8") for p in tools.rglob("*") if p.suffix in {".in", ".py"}}
    assert [
        (str(path.relative_to(ROOT)), pattern.findall(text)) for path, text in texts.items() if pattern.search(text)
    ] == []

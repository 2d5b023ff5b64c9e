"""A small distribution that offers claims, made in a folder and found on PYTHONPATH like an installed one."""

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

CLAIMS = """
import os, time
from pathlib import Path
from lemmata_core import Claim, Evidence, Scale, Series, Table, Verdict

def note(text):
    with open(Path(os.environ["DEMO_LOG"]), "a") as file:
        file.write(text + "\\n")

def third(i):
    time.sleep(float(os.environ.get("DEMO_SLEEP", "0")))
    import numpy as np
    return float(np.random.default_rng(i).random() / 3)

def draw(context):
    note("draw")
    x = [context.rng.random() for _ in range(3)]
    return Evidence(headline=f"drew {x[0]:.3f}", values={"x": x[0]}, settings={"n": 3},
        tables=(Table("draws", ("i", "x"), tuple(enumerate(x))),),
        series=(Series("draws", "i", "x", {"one": ([0, 1, 2], x)}),))

def split(context):
    note("split")
    done = context.workdir / "done"
    seeds = [int(s) for s in context.rng.integers(0, 1000, 6)]
    values = []
    with context.progress.task("parts", total=6) as task:
        for i in range(0, 6, 2):
            part = context.workdir / f"{i}.txt"
            if not part.exists():
                note(f"part {i}")
                part.write_text(repr(list(context.executor.map(third, seeds[i:i + 2]))))
            values += eval(part.read_text())
            task.advance(2)
    return Evidence(headline=f"mean {sum(values) / 6:.4f}", values={"mean": sum(values) / 6})

def timed(context):
    note("timed")
    t = time.perf_counter()
    return Evidence(headline=f"took {time.perf_counter() - t}", values={"t": t, "n": 1.0}, timed=frozenset({"t"}),
        tables=(Table("times", ("n", "t"), ((1, t),), timed=("t",)),))

def raises(context):
    note("raises")
    raise RuntimeError("the claim's own mistake")

def wrong(context):
    return {"headline": "not Evidence"}

def ok(evidence):
    return Verdict.holds(f"as it should: {evidence.values}")

def no(evidence):
    return Verdict.does_not_hold("0.3 is not above 0.5")

def claim(id, run, accept=ok, **more):
    id = f"demo-package/{id}"
    return Claim(id=id, statement=f"About {id}.", source="a test", paper="1.0", run=run, accept=accept, **more)

CLAIMS = tuple(
    c for c in (
        claim("draw", draw),
        claim("split", split),
        claim("timed", timed, timed=True),
        claim("rejected", draw, no),
        claim("raises", raises),
        claim("wrong", wrong),
        claim("needs", draw, requires=("a_module_that_nobody_has",)),
        claim("large", draw, scales=frozenset({Scale.FULL})),
    ) if c.id.partition("/")[2] in os.environ.get("DEMO_CLAIMS", "draw split timed").split()
)
"""


@dataclass(frozen=True)
class Demo:
    """The folder of the distribution, and a way to run the `lemmata` command so that it finds it and nothing else."""

    folder: Path

    @property
    def log(self) -> list[str]:
        path = self.folder / "log"
        return path.read_text().split("\n")[:-1] if path.exists() else []

    def environment(self, **more: str) -> dict[str, str]:
        return {
            **os.environ,
            "PYTHONPATH": str(self.folder / "site"),
            "DEMO_LOG": str(self.folder / "log"),
            "COLUMNS": "200",
            **more,
        }

    def command(self, *words: object) -> list[str]:
        # Only the distributions in the folder are seen, whatever the environment holds.
        code = (
            "import importlib.metadata as m, os; found = m.entry_points\n"
            "m.entry_points = lambda **k: [p for p in found(**k) if k.get('group') != 'lemmata.claims'"
            " or p.name in os.environ.get('DEMO_PACKAGES', 'demo-package broken-package').split()]\n"
            "import sys; sys.argv[0] = 'lemmata'\n"
            "from lemmata_tools.main import main; main()"
        )
        return [sys.executable, "-c", code, *map(str, words)]

    def run(self, *words: object, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*words),
            cwd=self.folder,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            timeout=240,
            check=False,
        )


def add_distribution(site: Path, name: str, claims: str) -> None:
    module = name.replace("-", "_")
    (site / module).mkdir(parents=True)
    (site / module / "__init__.py").write_text("")
    (site / module / "claims.py").write_text(claims)
    info = site / f"{module}-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\nProvides-Extra: plot\n")
    (info / "entry_points.txt").write_text(f"[lemmata.claims]\n{name} = {module}.claims:CLAIMS\n")


@pytest.fixture
def demo(tmp_path):
    add_distribution(tmp_path / "site", "demo-package", CLAIMS)
    return Demo(tmp_path)


@pytest.fixture
def add(demo):
    return lambda name, claims: add_distribution(demo.folder / "site", name, claims)

"""What the site takes from elsewhere. That it builds without a warning is checked by `mkdocs build --strict` in CI."""

import importlib.util
import json
import re
import shutil
from pathlib import Path, PurePosixPath
from types import SimpleNamespace

import pytest
from lemmata_core import Claim, Package, Verdict

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def hooks():
    spec = importlib.util.spec_from_file_location("lemmata_docs_hooks", ROOT / "docs" / "hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("folder", "page", "before", "after"),
    [
        (".", "index.md", "[c](CONTRIBUTING.md#rules)", "[c](contributing.md#rules)"),
        (".", "index.md", "[core](shared)", "[core](core.md)"),
        ("packages/x", "packages/x.md", "[root](../../README.md)", "[root](../index.md)"),
        ("packages/x", "packages/x.md", "[log](CHANGELOG.md)", "log (`packages/x/CHANGELOG.md`)"),
        ("packages/x", "packages/x.md", "![plot](figure.svg)", "plot"),
        (".", "index.md", "[paper](https://arxiv.org/abs/1)", "[paper](https://arxiv.org/abs/1)"),
        (".", "index.md", "[below](#rules)", "[below](#rules)"),
        (".", "index.md", "`steps[0](value)`", "`steps[0](value)`"),
        (".", "index.md", "```python\nsteps[0](value)\n```", "```python\nsteps[0](value)\n```"),
    ],
)
def test_links_are_those_of_the_site(hooks, folder, page, before, after):
    here = PurePosixPath(page).parent
    assert hooks._CODE_OR_LINK.sub(lambda m: hooks._link(m, ROOT / folder, here), before) == after


def test_a_package_that_cannot_be_loaded_shows_its_error(hooks):
    assert "ImportError: no" in hooks._section(Package("x", "0.1.0", error="ImportError: no"), {})


def test_a_claim_is_a_row(hooks):
    claim = Claim(id="x/a", statement="A | b.", source="s", paper="2x", run=print, accept=lambda e: Verdict.holds(""))
    package = Package("x", "0.1.0", (claim,))
    found = {"x/a": {"found": "1.9x", "verdict": "does not hold", "reason": "under 2"}}
    assert "| `a` | A \\| b. | s | 2x | 1.9x | **does not hold**: under 2 |" in hooks._section(package, found)
    assert "**not run yet**" in hooks._section(package, {})


def test_the_verdicts_of_the_site_are_those_of_a_laptop_run(tmp_path):
    spec = importlib.util.spec_from_file_location("lemmata_docs_verdicts", ROOT / "docs" / "verdicts.py")
    verdicts = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(verdicts)
    committed = verdicts.rows()
    assert {row["scale"] for row in committed.values()} == {"laptop"}
    target = tmp_path / "verdicts.csv"
    shutil.copy(verdicts.HERE, target)
    claim = {"id": "optim-rmnp/cost", "package": "optim-rmnp", "version": "9", "scale": "laptop", "verdict": "holds"}
    source = tmp_path / "results.json"
    source.write_text(json.dumps({"claims": [{**claim, "reason": "r", "evidence": {"headline": "h"}}]}))
    verdicts.main(source, target)
    after = verdicts.rows(target)
    assert {name for name in after if name.startswith("optim-rmnp/")} == {"optim-rmnp/cost"}
    others = {name: row for name, row in committed.items() if not name.startswith("optim-rmnp/")}
    assert {name: row for name, row in after.items() if name != "optim-rmnp/cost"} == others


@pytest.mark.parametrize("path", sorted((ROOT / "docs").rglob("*.md")), ids=lambda path: path.name)
def test_every_mark_of_a_page_is_understood(hooks, path):
    page = SimpleNamespace(file=SimpleNamespace(src_uri=path.relative_to(ROOT / "docs").as_posix()))
    text = hooks.on_page_markdown(path.read_text(encoding="utf-8"), page=page, config=None, files=None)
    assert not re.search(r"<!-- (include|claims|verdicts|no-test)\b", text)

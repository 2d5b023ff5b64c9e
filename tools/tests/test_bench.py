"""`lemmata bench` on a small checkout."""

import io
import json
import re

import pytest
from lemmata_core import InvalidInput
from lemmata_tools.bench import run_bench
from rich.console import Console

GOOD = """
from lemmata_core.timing import Benchmark, Ratio

def run(progress):
    with progress.task("measure", total=1) as task:
        yield Ratio("n=10", "peer.solve", "1.2.3", RATIO, RATIO - 0.05, RATIO + 0.05, BAR, 0.5)
        task.advance()

BENCHMARKS = (Benchmark("NAME/speed", run),)
"""


@pytest.fixture
def root(tmp_path):
    for name in ("alpha", "beta", "empty"):
        folder = tmp_path / "packages" / name
        folder.mkdir(parents=True)
        (folder / "pyproject.toml").touch()
    return tmp_path


def add(root, package, file="speed.py", text=GOOD, ratio=0.7, bar=0.8):
    folder = root / "packages" / package / "benchmarks"
    folder.mkdir(exist_ok=True)
    for word, value in (("NAME", package), ("RATIO", ratio), ("BAR", bar)):
        text = re.sub(rf"\b{word}\b", str(value), text)
    (folder / file).write_text(text)
    # A source rewritten within a second, at the same length, would be served from its cache.
    for cached in folder.glob("__pycache__/*"):
        cached.unlink()


def bench(root, *names, save=None, against=None):
    file = io.StringIO()
    code = run_bench(root, names, save, against, Console(file=file, width=80, highlight=False))
    return code, file.getvalue()


def rows(path):
    return json.loads(path.read_text())["rows"]


def test_a_ratio_is_shown_with_peer_version_quartiles_bar_and_aim(root):
    add(root, "alpha")
    code, text = bench(root)
    assert code == 0
    [line] = [line for line in text.splitlines() if "alpha/speed" in line]
    assert " ".join(line.split()) == "alpha/speed n=10 peer.solve 1.2.3 0.7 0.65 to 0.75 0.8 0.5 met"
    assert "1 measured, 1 of 1 bars met, 0 failed" in text


@pytest.mark.parametrize(
    ("ratio", "bar", "result"),
    [
        (0.9, 0.8, "missed"),
        (0.8, 0.8, "met"),
        (0.5, 0.8, "aim met"),
        (0.9, None, "measured"),
        ("float('nan')", 0.8, "missed"),
    ],
)
def test_a_missed_bar_is_a_result_not_a_failure(root, ratio, bar, result):
    add(root, "alpha", ratio=ratio, bar=bar)
    code, text = bench(root)
    assert code == 0
    assert re.search(rf" {result} *$", text, flags=re.MULTILINE)


def test_only_the_packages_named_are_measured(root):
    add(root, "alpha")
    add(root, "beta")
    text = bench(root, "beta")[1]
    assert "beta/speed" in text
    assert "alpha" not in text


def test_an_unknown_package_names_the_known_ones(root):
    add(root, "alpha", text="raise SystemExit('measured')\nBENCHMARKS = ()")
    with pytest.raises(InvalidInput, match="PACKAGE: expected one of alpha, beta, empty, got gamma"):
        bench(root, "alpha", "gamma")


def test_a_checkout_without_packages_says_so(tmp_path):
    with pytest.raises(InvalidInput, match="got gamma"):
        bench(tmp_path, "gamma")
    assert bench(tmp_path) == (0, "no benchmarks in packages/\n")


def test_a_package_without_benchmarks_says_so(root):
    code, text = bench(root, "empty")
    assert (code, text) == (0, "no benchmarks in empty\n")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("import no_such_module\nBENCHMARKS = ()", "ModuleNotFoundError: No module named 'no_such_module'"),
        ("BENCHMARKS = (", "SyntaxError"),
        ("BENCHMARKS = [1]", "TypeError: BENCHMARKS is not a tuple of Benchmark"),
        ("raise SystemExit(3)\nBENCHMARKS = ()", "SystemExit: 3"),
        (
            GOOD.replace("        task.advance()", "        raise RuntimeError('boom [bold]')"),
            "RuntimeError: boom [bold]",
        ),
        (GOOD.replace("        task.advance()", "        yield 3"), "TypeError: alpha/speed: run gave int, not Ratio"),
        (GOOD.replace("yield Ratio", "print"), "TypeError: 'NoneType' object is not iterable"),
    ],
)
def test_what_fails_is_a_row_and_the_others_go_on(root, tmp_path, text, message):
    add(root, "alpha", text=text)
    add(root, "beta")
    save = tmp_path / "saved.json"
    code, out = bench(root, save=save)
    assert code == 1
    assert message in " ".join(out.split())
    assert "beta/speed" in out
    [failed] = [row for row in rows(save) if row["error"]]
    assert failed["package"] == "alpha"
    assert message in failed["error"]


def test_files_without_benchmarks_are_not_imported(root):
    add(root, "alpha")
    add(root, "alpha", "study.py", "raise SystemExit('a study of five seeds')")
    assert bench(root)[0] == 0


def test_neighbours_can_be_imported_and_do_not_meet_those_of_another_package(root):
    for name, ratio in (("alpha", 0.3), ("beta", 0.6)):
        add(root, name, "_sizes.py", f"VALUE = {ratio}")
        add(root, name, text=GOOD.replace("RATIO", "VALUE").replace("def run", "from _sizes import VALUE\n\ndef run"))
    text = bench(root)[1]
    assert re.search(r"alpha/speed +n=10 +peer.solve +1.2.3 +0.3 ", text)
    assert re.search(r"beta/speed +n=10 +peer.solve +1.2.3 +0.6 ", text)


def test_names_may_be_imported_from_elsewhere(root):
    add(root, "alpha", "_all.py")
    add(root, "alpha", "speed.py", "from _all import BENCHMARKS")
    assert "alpha/speed" in bench(root)[1]


# --save


def test_the_saved_file_holds_machine_and_rows(root, tmp_path):
    add(root, "alpha", ratio="float('inf')")
    save = tmp_path / "saved.json"
    bench(root, save=save)
    document = json.loads(save.read_text())
    assert document["schema"] == 1
    assert document["machine"]["cores"] >= 1
    [row] = document["rows"]
    assert (row["benchmark"], row["peer_version"], row["ratio"], row["bar"]) == ("alpha/speed", "1.2.3", "inf", 0.8)


def test_an_interruption_loses_neither_the_new_rows_nor_the_old(root, tmp_path):
    save = tmp_path / "saved.json"
    add(root, "alpha", ratio=0.7)
    add(root, "beta", ratio=0.7)
    bench(root, save=save)
    add(root, "alpha", ratio=0.6)
    add(root, "beta", text=GOOD.replace("yield Ratio", "raise KeyboardInterrupt\n        yield Ratio"))
    with pytest.raises(KeyboardInterrupt):
        bench(root, save=save)
    assert sorted((row["package"], row["ratio"]) for row in rows(save)) == [("alpha", 0.6), ("beta", 0.7)]


def test_a_whole_run_replaces_its_packages_rows_and_keeps_the_others(root, tmp_path):
    save = tmp_path / "saved.json"
    add(root, "alpha")
    add(root, "beta")
    bench(root, save=save)
    add(root, "alpha", text=GOOD.replace("n=10", "n=20"))
    bench(root, "alpha", save=save)
    assert sorted((row["package"], row["case"]) for row in rows(save)) == [("alpha", "n=20"), ("beta", "n=10")]


@pytest.mark.parametrize("option", ["save", "against"])
@pytest.mark.parametrize(
    "content", ["not json", "[]", "{}", '{"schema": 9}', '{"schema": 1, "machine": {}, "rows": [{}]}']
)
def test_a_file_that_is_not_ours_is_refused_before_any_measuring(root, tmp_path, option, content):
    add(root, "alpha", text="raise KeyboardInterrupt\nBENCHMARKS = ()")
    path = tmp_path / "notes.json"
    path.write_text(content)
    with pytest.raises(InvalidInput, match=f"--{option}"):
        bench(root, **{option: path})
    assert path.read_text() == content


def test_files_that_cannot_be_used_are_refused_before_any_measuring(root, tmp_path):
    add(root, "alpha", text="raise KeyboardInterrupt\nBENCHMARKS = ()")
    with pytest.raises(InvalidInput, match="--against: expected a file that lemmata bench --save wrote"):
        bench(root, against=tmp_path / "none.json")
    with pytest.raises(InvalidInput, match="--save: expected a file in a folder that can be written to"):
        bench(root, save=tmp_path / "none" / "saved.json")
    with pytest.raises(InvalidInput, match="--save"):
        bench(root, save=tmp_path)


# --against


@pytest.mark.parametrize(("ratio", "worse"), [(0.79, False), (0.81, True), (0.3, False)])
def test_a_ratio_is_flagged_where_its_low_exceeds_the_stored_high(root, tmp_path, ratio, worse):
    save = tmp_path / "saved.json"
    add(root, "alpha", ratio=0.7)
    bench(root, save=save)
    add(root, "alpha", ratio=ratio)
    code, text = bench(root, against=save)
    assert code == int(worse)
    assert (", worse" in text) is worse
    assert f"{int(worse)} worse than in {save}, 0 stored there and not measured now" in text
    assert "0.65 to 0.75" in text


def test_what_is_stored_and_not_measured_is_counted_and_another_machine_named(root, tmp_path):
    save = tmp_path / "saved.json"
    add(root, "alpha")
    bench(root, save=save)
    document = json.loads(save.read_text())
    document["machine"]["processor"] = "an abacus"
    save.write_text(json.dumps(document))
    add(root, "alpha", text=GOOD.replace("n=10", "n=20"))
    code, text = bench(root, against=save)
    assert code == 0
    assert "1 stored there and not measured now" in text
    assert "measured on another machine: an abacus" in text


def test_a_terminal_shows_the_table_in_its_width(root):
    add(root, "alpha")
    file = io.StringIO()
    assert run_bench(root, [], None, None, Console(file=file, width=100, force_terminal=True, color_system=None)) == 0
    assert max(map(len, file.getvalue().splitlines())) <= 100

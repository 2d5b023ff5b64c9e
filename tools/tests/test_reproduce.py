"""`lemmata reproduce` as a person meets it: in a process of its own."""

import json
import os
import signal
import subprocess
import sys
import time

import pytest

ALL = "draw split timed rejected raises wrong needs large"


def rows(folder):
    return {row["id"].partition("/")[2]: row for row in json.loads((folder / "results.json").read_text())["claims"]}


def test_every_claim_gets_a_verdict_and_a_failure_hides_nothing(demo):
    done = demo.run("reproduce", "--out", "out", "--executor", "serial", DEMO_CLAIMS=ALL)
    assert done.returncode == 1
    found = rows(demo.folder / "out")
    assert {name: row["verdict"] for name, row in found.items()} == {
        "draw": "holds",
        "split": "holds",
        "timed": "holds",
        "rejected": "does not hold",
        "raises": "error",
        "wrong": "error",
        "needs": "not testable",
        "large": "not testable",
    }
    assert "RuntimeError: the claim's own mistake" in found["raises"]["error"]
    assert found["raises"]["reason"] == "RuntimeError: the claim's own mistake"
    assert "not Evidence" in found["wrong"]["reason"]
    assert "a_module_that_nobody_has" in found["needs"]["reason"]
    assert "offered at full" in found["large"]["reason"]
    assert "the claim's own mistake" in done.stdout
    assert "2 failed with an error" in done.stdout
    assert "lemmata reproduce PACKAGE --scale laptop" in done.stdout
    page = (demo.folder / "out" / "index.html").read_text(encoding="utf-8")
    assert "the claim&#x27;s own mistake" in page or "the claim's own mistake" in page


def test_a_claim_that_does_not_hold_is_a_result_unless_strict(demo):
    assert demo.run("reproduce", "--out", "out", DEMO_CLAIMS="draw rejected").returncode == 0
    strict = demo.run("reproduce", "--out", "out", "--strict", DEMO_CLAIMS="draw rejected")
    assert strict.returncode == 1
    assert demo.log == ["draw", "draw"]
    assert strict.stdout.count("kept") == 2


def test_what_is_finished_is_kept_until_sources_scale_or_seed_change(demo):
    for words, runs in [
        ((), 1),
        ((), 1),
        (("--seed", "1"), 2),
        (("--scale", "laptop"), 3),
        (("--fresh",), 4),
    ]:
        assert demo.run("reproduce", "--out", "out", *words, DEMO_CLAIMS="draw").returncode == 0
        assert demo.log.count("draw") == runs
    (demo.folder / "site" / "demo_package" / "new.py").write_text("changed = True\n")
    demo.run("reproduce", "--out", "out", DEMO_CLAIMS="draw")
    assert demo.log.count("draw") == 5


def test_a_claim_that_failed_is_run_again(demo):
    for _ in range(2):
        demo.run("reproduce", "--out", "out", DEMO_CLAIMS="raises")
    assert demo.log == ["raises", "raises"]


def test_the_seed_decides_and_the_claim_has_its_own_stream(demo):
    demo.run("reproduce", "--out", "a", DEMO_CLAIMS="draw rejected")
    demo.run("reproduce", "demo_package", "--claim", "draw", "--out", "b")
    demo.run("reproduce", "--claim", "demo-package/draw", "--out", "c", "--seed", "1")
    a, b, c = (rows(demo.folder / name) for name in "abc")
    assert list(b) == ["draw"]
    assert a["draw"]["evidence"] == b["draw"]["evidence"]
    assert a["draw"]["evidence"]["values"] != a["rejected"]["evidence"]["values"]
    assert a["draw"]["evidence"]["values"] != c["draw"]["evidence"]["values"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("nonesuch",), "error: PACKAGE: expected one of demo-package, got nonesuch"),
        (("--claim", "nonesuch"), "error: --claim: expected one of demo-package/draw, demo-package/split"),
        (("--executor", "threads"), "error: executor: expected"),
        (("--scale", "huge"), "error: Invalid value for '--scale'"),
        (("--seed", "-1"), "error: Invalid value for '--seed'"),
        (("--out", "file/below"), "error: --out: expected a folder that can be written to, got file/below"),
    ],
)
def test_bad_words_end_with_one_line_and_nothing_run(demo, words, message):
    (demo.folder / "file").write_text("a file, not a folder")
    done = demo.run("reproduce", *words)
    assert done.returncode == 2
    assert done.stderr.startswith(message)
    assert done.stderr.count("\n") == 1
    assert demo.log == []
    assert (demo.folder / "file").read_text() == "a file, not a folder"


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_without_write_permission_is_refused(demo):
    (demo.folder / "out").mkdir(mode=0o500)
    assert "expected a folder that can be written to" in demo.run("reproduce", "--out", "out").stderr


def test_no_package_installed_is_said_so(demo):
    done = demo.run("reproduce", DEMO_PACKAGES="")
    assert done.returncode == 2
    assert done.stderr == "error: no installed package offers claims: install a lemmata package beside lemmata-tools\n"
    assert demo.run("list", DEMO_PACKAGES="").stdout == "no installed package offers claims\n"


def test_a_package_that_cannot_be_loaded_is_reported_and_the_others_run(demo, add):
    add("broken-package", "import a_module_that_nobody_has\n")
    done = demo.run("reproduce", "--out", "out", DEMO_CLAIMS="draw")
    assert done.returncode == 1
    assert rows(demo.folder / "out")["draw"]["verdict"] == "holds"
    assert "error: broken-package cannot be loaded: ModuleNotFoundError" in done.stderr
    shown = demo.run("list")
    assert shown.returncode == 0
    assert "broken-package" in shown.stdout
    assert "cannot be loaded" in shown.stdout
    data = json.loads(demo.run("list", "--json").stdout)
    assert [(p["name"], p["extras"], len(p["claims"])) for p in data] == [
        ("broken-package", ["plot"], 0),
        ("demo-package", ["plot"], 3),
    ]


def test_a_damaged_result_is_run_again(demo):
    demo.run("reproduce", "--out", "out", DEMO_CLAIMS="draw")
    path = demo.folder / "out" / "claims" / "demo-package" / "draw" / "smoke-0.json"
    path.write_text(path.read_text()[:100])
    assert demo.run("reproduce", "--out", "out", DEMO_CLAIMS="draw").returncode == 0
    assert demo.log == ["draw", "draw"]


@pytest.mark.parametrize("how", ["SIGINT", "SIGKILL"])
def test_a_run_that_is_killed_goes_on_and_equals_an_unbroken_one(demo, how):
    command = demo.command("reproduce", "--out", "broken", "--executor", "local:1")
    process = subprocess.Popen(
        command,
        cwd=demo.folder,
        env=demo.environment(DEMO_SLEEP="0.4"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    for _ in range(600):
        if "part 2" in demo.log:
            break
        time.sleep(0.05)
    if how == "SIGINT":
        os.killpg(process.pid, signal.SIGINT)  # as a terminal does: the whole group
    else:
        process.kill()
    err = process.communicate(timeout=60)[1]
    if how == "SIGINT":
        assert process.returncode == 130
        assert "interrupted: 1 of 3 claims are finished and kept in broken; the same command goes on from there" in err
    again = demo.run("reproduce", "--out", "broken", "--executor", "local:1")
    assert again.returncode == 0
    assert demo.log.count("draw") == 1, "a finished claim ran twice"
    assert demo.log.count("part 0") == 1, "finished parts of a claim ran twice"
    assert demo.run("reproduce", "--out", "whole", "--executor", "serial").returncode == 0
    same = demo.run("report", "--same", "broken", "whole")
    assert (same.returncode, same.stdout) == (0, "equal but for times\n")
    left = [p.name for p in (demo.folder / "broken").rglob("*") if p.name.endswith((".work", ".tmp"))]
    assert left == []


def test_runs_on_other_executors_and_seeds_are_told_apart(demo):
    for out, words in (("a", ["--executor", "serial"]), ("b", ["--executor", "local:2"]), ("c", ["--seed", "5"])):
        assert demo.run("reproduce", "--out", out, *words).returncode == 0
    assert demo.run("report", "--same", "a", "b").returncode == 0
    different = demo.run("report", "--same", "a", "c")
    assert different.returncode == 1
    assert "demo-package/draw (smoke, seed 0): only in the first" in different.stdout
    data = json.loads((demo.folder / "b" / "results.json").read_text())
    data["claims"][0]["evidence"]["tables"][0]["rows"][1][1] = 0.5
    (demo.folder / "b" / "results.json").write_text(json.dumps(data))
    changed = demo.run("report", "--same", "a", "b")
    assert changed.returncode == 1
    assert changed.stdout.startswith("demo-package/draw: evidence.tables[0].rows[1][1]: 0.")


def test_two_runs_do_not_share_a_folder(demo):
    process = subprocess.Popen(
        demo.command("reproduce", "--out", "out", "--executor", "serial"),
        cwd=demo.folder,
        env=demo.environment(DEMO_SLEEP="5"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        for _ in range(600):
            if "split" in demo.log:
                break
            time.sleep(0.05)
        second = demo.run("reproduce", "--out", "out")
        assert second.returncode == 2
        assert second.stderr == "error: --out: expected a folder no other run is writing to, got out, in use\n"
    finally:
        process.kill()
        process.wait()


def test_a_dask_cluster_of_two_workers_gives_the_same_results(demo):
    pytest.importorskip("distributed")  # an extra of the core
    environment = demo.environment()
    address_file = demo.folder / "scheduler.json"
    silent = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "env": environment, "cwd": demo.folder}
    start = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    processes = [subprocess.Popen([*start, "--no-dashboard", "--scheduler-file", str(address_file)], **silent)]
    try:
        for _ in range(600):
            if address_file.exists():
                break
            time.sleep(0.1)
        worker = [sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(address_file)]
        options = ["--nthreads", "1", "--nworkers", "2", "--no-dashboard", "--host", "127.0.0.1"]
        processes.append(subprocess.Popen([*worker, *options], **silent))
        address = json.loads(address_file.read_text())["address"]
        assert demo.run("reproduce", "--out", "dask", "--executor", address).returncode == 0
    finally:
        for process in reversed(processes):
            process.terminate()
            process.wait(30)
    assert demo.run("reproduce", "--out", "serial", "--executor", "serial").returncode == 0
    same = demo.run("report", "--same", "dask", "serial")
    assert (same.returncode, same.stdout) == (0, "equal but for times\n")


def test_a_worker_that_dies_fails_its_claim_and_not_the_next(demo, add):
    add(
        "broken-package",
        "import os\nfrom lemmata_core import *\n"
        "def die(i):\n    os._exit(3)\ndef live(i):\n    return i\n"
        "def a(c):\n    list(c.executor.map(die, range(2)))\n"
        "def b(c):\n    return Evidence(headline=str(list(c.executor.map(live, range(2)))))\n"
        "def ok(e):\n    return Verdict.holds('')\n"
        "def claim(r):\n"
        "    return Claim(id='broken-package/' + r.__name__, statement='', source='', run=r, accept=ok)\n"
        "CLAIMS = (claim(a), claim(b))\n",
    )
    done = demo.run("reproduce", "broken-package", "--out", "out", "--executor", "local:1")
    assert done.returncode == 1
    found = rows(demo.folder / "out")
    assert (found["a"]["verdict"], found["b"]["verdict"]) == ("error", "holds")
    assert "BrokenProcessPool" in found["a"]["reason"]


@pytest.mark.parametrize("verb", [["bench"], ["new", "my-package"], ["lock"], ["release", "demo-package"]])
def test_a_verb_of_the_checkout_refuses_outside_one(demo, verb):
    done = demo.run(*verb)
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: lemmata {verb[0]} works in a checkout of lemmata, and ")
    assert done.stderr.count("\n") == 1


def test_report_of_what_is_no_run_is_refused(demo):
    (demo.folder / "results.json").write_text('{"schema": 7, "claims": []}')
    for words, message in [
        (["nowhere"], "error: nowhere: expected the folder of a run"),
        (["."], "error: results.json: expected schema 1, got 7"),
        (["--same", "."], "error: --same: expected two folders, got one"),
    ]:
        done = demo.run("report", *words)
        assert done.returncode == 2
        assert done.stderr.startswith(message)


ODD = """
import os, tempfile
from lemmata_core import Claim, Evidence, Verdict

def moves(context):
    os.chdir(tempfile.mkdtemp())
    (context.workdir / "part").write_text("1")
    return Evidence(headline="\\ud800 \u2264 1")

def lines(context):
    error = ValueError("first\\nsecond")
    error.add_note("a note")
    raise error

def still(context):
    return Evidence(headline="still")

def yes(evidence):
    return Verdict.holds("yes")

def no_reason(evidence):
    return Verdict.holds(object())

def claim(id, run, accept=yes, **more):
    return Claim(id=f"Odd_Package/{id}", statement="s", source="s", run=run, accept=accept, **more)

CLAIMS = (claim("moves", moves), claim("lines", lines), claim("reason", still, no_reason), claim("last", still),
    claim("requires", still, requires=("raises_at_import.sub",)))
"""


def test_odd_claims_cost_their_own_verdict_and_not_the_run(demo, add):
    add("Odd_Package", ODD)
    module = demo.folder / "site" / "raises_at_import"
    module.mkdir()
    (module / "__init__.py").write_text("raise RuntimeError")
    words = ("reproduce", "odd-package", "--out", "out", "--executor", "serial")
    done = demo.run(*words, DEMO_PACKAGES="Odd_Package", PYTHONIOENCODING="ascii", LC_ALL="C")
    assert done.returncode == 1, done.stderr
    found = rows(demo.folder / "out")
    assert [row["verdict"] for row in found.values()] == ["holds", "error", "error", "holds", "not testable"]
    assert found["lines"]["reason"] == "ValueError: first second"
    assert "a note" in found["lines"]["error"]


def test_a_part_of_the_evidence_is_a_difference_and_a_missing_machine_is_not_missed(demo):
    assert demo.run("reproduce", "--out", "out", DEMO_CLAIMS="draw").returncode == 0
    path = demo.folder / "out" / "results.json"
    data = json.loads(path.read_text())
    data["machine"] = None
    path.write_text(json.dumps(data))
    assert demo.run("report", "out").returncode == 0
    del data["claims"][0]["evidence"]["timed"]
    (demo.folder / "part.json").write_text(json.dumps(data))
    done = demo.run("report", "--same", "out", "part.json")
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.startswith("demo-package/draw: evidence.timed: only in the first")

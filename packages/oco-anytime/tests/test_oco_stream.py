"""The command line, driven as other programs drive it."""

import json
import os
import shutil
import signal
import subprocess
import sys

import numpy as np
import pytest
from oco_anytime import AnytimeCOCO, domains
from oco_anytime.cli import app
from typer.testing import CliRunner

COMMAND = [sys.executable, "-c", "from oco_anytime.cli import main; main()"]

# a driver in shell: feeds numbered rounds through named pipes and keeps every decision
DRIVER = r"""
set -eu
round() {
  printf '{"cost_grad":[%s,-1,0.5],"violation":%s,"violation_grad":[0,1,0]}\n' "$(( $1 % 3 ))" "$(( $1 % 2 ))"
}
rm -f to from; mkfifo to from
"$@" <to >from & child=$!
exec 3>to 4<from
read -r line <&4
t=$(printf '%s' "$line" | sed 's/^{"t": \([0-9]*\).*/\1/')
echo "start $t"
while [ "$t" -lt "$ROUNDS" ]; do
  round "$t" >&3
  read -r line <&4
  t=$((t + 1))
  printf '%s\n' "$line" >>decisions
  if [ "$t" = "${KILL_AT:-none}" ]; then kill -9 "$child"; echo "killed $t"; exit 0; fi
done
exec 3>&-
wait "$child"
echo "done $t"
"""


def _drive(folder, rounds, kill_at=None, save_every=7):
    command = [*COMMAND, "stream", "--domain", "simplex:3", "--state", "s.json", "--save-every", str(save_every)]
    env = {**os.environ, "ROUNDS": str(rounds)}
    if kill_at is not None:
        env["KILL_AT"] = str(kill_at)
    done = subprocess.run(
        ["bash", "-c", DRIVER, "driver", *command], cwd=folder, env=env, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\n")


@pytest.mark.skipif(shutil.which("mkfifo") is None, reason="needs a POSIX shell")
def test_a_shell_script_drives_it_through_a_kill_and_loses_at_most_save_every(tmp_path):
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    _drive(whole, 60)
    assert _drive(broken, 60, kill_at=33)[:2] == ["start 0", "killed 33"]
    start = _drive(broken, 60)[0]
    resumed = int(start.removeprefix("start "))
    assert 33 - 7 < resumed <= 33
    expected = [json.loads(line) for line in (whole / "decisions").read_text().splitlines()]
    got = {json.loads(line)["t"]: json.loads(line) for line in (broken / "decisions").read_text().splitlines()}
    # what was decided again after the kill equals what the unbroken run decided, bit for bit
    assert [got[t + 1] for t in range(60)] == expected


def test_terminating_it_saves_the_last_round(tmp_path):
    child = subprocess.Popen(
        [*COMMAND, "stream", "--domain", "ball:2", "--state", str(tmp_path / "s.json")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with child:
        child.stdout.readline()
        for _ in range(5):
            child.stdin.write('{"cost_grad": [1, 0]}\n')
            child.stdin.flush()
            child.stdout.readline()
        child.send_signal(signal.SIGTERM)
        assert child.wait(20) == 0
    assert json.loads((tmp_path / "s.json").read_text())["scalars"]["T"] == 5


def test_lines_that_cannot_be_used_are_answered_and_change_nothing():
    bad = ['{"cost_grad":[1]}', "nonsense", "[]", '{"cost_grad":[1,0],"comparator":[1,0]}']
    lines = "\n".join([*bad, '{"cost_grad":[0,1],"violation":null}', ""])
    done = _cli("stream", "--domain", "ball:2", stdin=lines)
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert ["error" in a for a in answers] == [False, True, True, True, True, False]
    expected = AnytimeCOCO(domains.Ball(2)).update([0, 1]).predict()
    np.testing.assert_array_equal(answers[-1]["x"], expected)


def _cli(*arguments, stdin=""):
    return CliRunner().invoke(app, list(arguments), input=stdin)


def test_run_compare_and_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = _cli("run", "nsfnet", "--rounds", "200", "--out", "r.npz", "--json")
    assert done.exit_code == 0, done.output
    printed = json.loads(done.stdout)
    assert printed["rounds"] == 200
    assert printed["seconds"] > 0
    assert printed["kernel_seconds"] >= 0
    assert (tmp_path / "r.npz").exists()
    assert not (tmp_path / "r.npz.checkpoint").exists()
    done = _cli(
        "compare",
        "allocation",
        "--rounds",
        "100",
        "--seeds",
        "2",
        "--learners",
        "anytime,recoo,dynamic,optimistic,latest",
    )
    assert done.exit_code == 0, done.output
    assert "<svg" in (tmp_path / "report.html").read_text()
    assert json.loads(_cli("project", "simplex:2", stdin="[3, 1]").stdout) == [1.0, 0.0]
    assert json.loads(_cli("project", "capped:2:1:0.7", stdin="[[1, 1]]").stdout) == [[0.5, 0.5]]


@pytest.mark.parametrize(
    "arguments",
    [
        ("run", "nowhere"),
        ("run", "opposed", "--learner", "nobody"),
        ("project", "cube:3"),
        ("project", "simplex:0"),
        ("run", "opposed", "--resume"),
        ("stream", "--domain", "simplex:x"),
        ("stream", "--domain", "simplex:3", "--learner", "fixed"),
        ("stream", "--domain", "simplex:3", "--state", "nowhere/s.json"),
        ("run", "opposed", "--rounds", "3", "--out", "nowhere/r.npz"),
        ("compare", "opposed", "--rounds", "3", "--learners", ","),
        ("compare", "opposed", "--rounds", "3", "--out", "nowhere/r.html"),
    ],
    ids=" ".join,
)
def test_mistakes_end_with_one_line_and_code_2(arguments):
    done = _cli(*arguments, stdin="[1]")
    assert done.exit_code == 2
    assert done.stderr.startswith("error: ")
    assert done.stderr.count("\n") == 1

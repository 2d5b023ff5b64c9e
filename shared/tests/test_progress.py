import io
import threading

import pytest
from lemmata_core import progress
from lemmata_core.progress import Progress, track


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _shown(monkeypatch):
    monkeypatch.delenv("LEMMATA_PROGRESS", raising=False)
    monkeypatch.setenv("TERM", "xterm")


def test_a_log_gets_a_line_only_for_what_lasts(monkeypatch):
    out = io.StringIO()
    with Progress(out).task("training", total=4) as task:
        task.advance()
        assert out.getvalue() == ""
        monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
        task.note("loss 2.1")
        task.advance(2)
    assert out.getvalue().splitlines()[-1] == "training: 3/4 (75%) after 0:00 loss 2.1"


def test_a_task_without_total_counts(monkeypatch):
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    out = io.StringIO()
    assert list(Progress(out).track(iter("ab"), "letters")) == ["a", "b"]
    assert out.getvalue().splitlines()[-1] == "letters: 2 after 0:00"


def test_silence_on_request(monkeypatch):
    monkeypatch.setenv("LEMMATA_PROGRESS", "0")
    monkeypatch.setattr(progress, "LOG_SECONDS", 0.0)
    out = Terminal()
    assert list(Progress(out).track([1, 2], "numbers")) == [1, 2]
    assert out.getvalue() == ""


def test_a_terminal_gets_bars_that_nest_and_go():
    out = Terminal()
    shown = Progress(out)
    assert shown.console is None
    with shown.task("outer", total=2) as outer:
        console = shown.console
        with shown.task("inner", total=3) as inner:
            assert shown.console is console
            inner.advance(3)
            inner.note("done")
        outer.advance()
    outer.close()
    outer.advance()
    assert shown.console is None
    assert "outer" in out.getvalue()


def test_tasks_may_advance_from_several_threads():
    with Progress(io.StringIO()).task("count", total=4000) as task:
        threads = [threading.Thread(target=lambda: [task.advance() for _ in range(1000)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert task.done == 4000


def test_a_closed_file_is_no_terminal_and_track_stands_alone(capsys):
    class Closed(io.StringIO):
        def isatty(self):
            raise ValueError("closed")

    assert Progress(Closed())._mode == "log"
    assert list(track(range(3), "numbers")) == [0, 1, 2]
    assert capsys.readouterr().out == ""


def test_brackets_in_a_description_or_note_are_text():
    out = Terminal()
    with Progress(out).task("part [/y]", total=1) as task:
        task.note("loss [/nats]")
        task.advance()
    assert "part [/y]" in out.getvalue()

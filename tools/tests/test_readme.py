import sys
import textwrap
from pathlib import Path

import pytest
from lemmata_core import InvalidInput
from lemmata_tools import readme
from lemmata_tools.readme import Block, blocks, install_line, python_script, run, trials

TEXT = textwrap.dedent(
    """\
    # Title

    ```python
    x = 1
    ```

    <!-- no-test: needs a
    GPU -->

    ```python
    raise SystemExit("not reached")
    ```

    1. In a list:

       ```console
       $ true
       output
       $ echo one \\
         two
       ```

    ```text
    $ false
    ```

    ```python
    assert x == 1
    ```
    """
)


def write(folder: Path, text: str) -> Path:
    path = folder / "README.md"
    path.write_text(textwrap.dedent(text), encoding="utf-8")
    return path


def test_blocks_come_with_line_and_reason():
    assert blocks(TEXT) == [
        Block("python", "x = 1\n", 4),
        Block("python", 'raise SystemExit("not reached")\n', 11, "needs a\nGPU"),
        Block("console", "$ true\noutput\n$ echo one \\\n  two\n", 17),
        Block("python", "assert x == 1\n", 28),
    ]


def test_commands_follow_the_dollar_and_go_on_after_a_backslash():
    assert blocks(TEXT)[2].commands == ["true", "echo one   two"]


def test_a_reason_skips_the_next_block_only():
    text = "<!-- no-test: a -->\n\n```console\n$ false\n```\n\n```console\n$ false\n```\n"
    assert [block.skip for block in blocks(text)] == ["a", ""]


def test_the_script_keeps_the_readmes_line_numbers():
    lines = python_script(TEXT).splitlines()
    assert (lines[3], lines[27]) == ("x = 1", "assert x == 1")
    assert not any("not reached" in line for line in lines)


def test_a_readme_that_runs_has_no_problems(tmp_path):
    assert run(write(tmp_path, TEXT), Path(sys.executable)) == []


def test_blocks_run_in_an_empty_folder(tmp_path):
    text = "```python\nimport pathlib\nassert not list(pathlib.Path.cwd().iterdir())\n```\n"
    assert run(write(tmp_path, text), Path(sys.executable)) == []


def test_what_fails_is_named_with_the_end_of_its_output(tmp_path):
    text = "```python\nassert 1 == 2, 'so'\n```\n```console\n$ exit 3\n$ true\n```\n"
    first, second = run(write(tmp_path, text), Path(sys.executable))
    assert "python blocks: exit code 1" in first
    assert "line 2" in first
    assert "AssertionError: so" in first
    assert second.splitlines()[0].endswith("README.md:5: $ exit 3: exit code 3")


def test_commands_can_be_left_out(tmp_path):
    assert run(write(tmp_path, "```console\n$ false\n```\n"), Path(sys.executable), console=False) == []


def test_what_does_not_end_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(readme, "SECONDS", 0.2)
    (problem,) = run(write(tmp_path, "```python\nimport time\ntime.sleep(60)\n```\n"), Path(sys.executable))
    assert "not done after" in problem


def test_what_computes_too_long_is_a_problem(tmp_path, monkeypatch):
    monkeypatch.setattr(readme, "SECONDS", 0.2)
    monkeypatch.setattr(readme, "PATIENCE", 300)
    text = "```python\nimport time\nwhile time.process_time() < 0.5:\n    pass\n```\n"
    (problem,) = run(write(tmp_path, text), Path(sys.executable))
    assert "more than 0" in problem


@pytest.mark.parametrize("fence", ["```python title=x", "```bash", "~~~python"])
def test_other_fences_are_left_alone(fence):
    assert blocks(f"{fence}\nx\n{fence[:3]}\n") == []


INSTALL = "```console\n$ pip install 'zz[a,b]'  # all\n$ pip install zz\n```\n```console\n$ zz run\n```\n"


def test_what_to_install_first_is_the_first_line_that_names_it():
    assert str(install_line(INSTALL, "zz")) == "zz[a,b]"
    assert str(install_line("```console\n$ pip install other zz\n```\n", "zz")) == "zz"


def test_a_readme_that_does_not_say_how_to_install_is_refused():
    with pytest.raises(InvalidInput, match="pip install yy"):
        install_line(INSTALL, "yy")


def test_code_is_tried_without_extras_and_commands_with_those_of_the_readme():
    assert [(str(wanted), commands) for wanted, commands in trials(INSTALL, "zz")] == [("zz", False), ("zz[a,b]", True)]
    plain = INSTALL.replace("[a,b]", "")
    assert [(str(wanted), commands) for wanted, commands in trials(plain, "zz")] == [("zz", True)]


def test_commands_of_what_is_not_there_are_left_out(tmp_path):
    text = "```console\n$ no-such-command list\n$ true\n$ false\n```\n"
    (problem,) = run(write(tmp_path, text), Path(sys.executable), without={"no-such-command"})
    assert "$ false: exit code 1" in problem

import sys
from pathlib import Path

import pytest
from lemmata_tools.clean import Environment, Failed, run

# A wheel would need the network, or a build: a folder of metadata is a distribution too.
METADATA = "Metadata-Version: 2.1\nName: Zz-Sample\nVersion: 1\nRequires-Dist: yy>=2; extra == 'a'\n"


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    return Environment.make(tmp_path_factory.mktemp("clean") / "env")


def test_there_is_nothing_but_python_in_it(environment):
    assert environment.distributions() == {}
    assert run([str(environment.python), "-c", "import sys; print(sys.prefix)"], Path.cwd()).strip() == str(
        environment.folder
    )


def test_what_is_installed_is_listed_with_what_it_requires(environment):
    (site,) = environment.folder.glob("**/site-packages")
    info = site / "zz_sample-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(METADATA, encoding="utf-8")
    assert environment.distributions() == {"Zz-Sample": ["yy>=2; extra == 'a'"]}


def test_what_cannot_be_installed_fails_in_uvs_words(environment, tmp_path):
    with pytest.raises(Failed, match=r"uv pip install .*none-1-py3-none-any.whl .*: exit code"):
        environment.install(tmp_path / "none-1-py3-none-any.whl", "--offline")


def test_the_environment_around_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path))
    code = "import os; print(sorted({'PYTHONPATH', 'VIRTUAL_ENV'} & set(os.environ)))"
    assert run([sys.executable, "-c", code], tmp_path) == "[]\n"


def test_a_command_that_is_not_there_is_named(tmp_path):
    with pytest.raises(Failed, match="no-such-command: expected on the PATH, got none"):
        run(["no-such-command"], tmp_path)


def test_the_end_of_the_output_is_told(tmp_path):
    with pytest.raises(Failed, match=r"exit code 3\nat the end"):
        run([sys.executable, "-c", "print('at the end'); raise SystemExit(3)"], tmp_path)

"""The page of a run and the comparison of two, from results on the disk alone."""

import json
import re

import pytest
from lemmata_core import Evidence, InvalidInput, Series, Table
from lemmata_core.plain import plain
from lemmata_tools import results
from lemmata_tools.report import compare, write_report
from lemmata_tools.results import Result, differences

EVIDENCE = Evidence(
    headline="7.2x faster at 2048",
    values={"ratio": 7.2, "other": float("nan")},
    tables=(Table("Seconds", ["n", "ours"], [[256, 0.1], [512, float("inf")]], timed=["ours"]),),
    series=(Series("Times", "n", "seconds", {"ours": ([256, 512], [0.1, 0.2]), "one": ([256], [0.3])}, log_x=True),),
    settings={"sizes": [256, 512], "peers": {"torch": "2.9"}},
    timed=frozenset({"ratio"}),
)
TRACEBACK = "Traceback (most recent call last):\n  File 'claims.py'\nZeroDivisionError: division by <zero>\n"


def result(name="cost", verdict="holds", evidence=EVIDENCE, **changed):
    given = {
        "id": f"demo-pkg/{name}",
        "package": "demo-pkg",
        "version": "1.2.3",
        "source_digest": "0123456789abcdef",
        "scale": "smoke",
        "seed": 0,
        "verdict": verdict,
        "reason": "7.2 is at least 2.0",
        "evidence": None if evidence is None else plain(evidence),
        "seconds": 1.25,
        "statement": "Cost stays linear.",
        "source": "a paper, table 1",
        "paper": "13x to 44x",
    }
    return Result(**{**given, **changed})


def error(name="boom", **changed):
    return result(name, results.ERROR, None, reason="ZeroDivisionError: division by <zero>", error=TRACEBACK, **changed)


def written(folder, *found):
    folder.mkdir(exist_ok=True)
    results.save_all(folder, found)
    path = write_report(folder)
    assert path == folder / "index.html"
    return path.read_text(encoding="utf-8")


def words(page):
    return " ".join(re.sub(r"<(style|script|title|desc)\b.*?</\1>|<[^>]+>", " ", page, flags=re.DOTALL).split())


def test_the_page_says_what_was_run_on_what_and_what_came_out(tmp_path):
    page = words(
        written(tmp_path, result(), result("other", "does not hold"), result("third", "not testable", None), error())
    )
    machine = json.loads((tmp_path / "results.json").read_text())["machine"]
    assert "4 claims: 1 hold, 1 do not hold, 1 not testable, 1 failed with an error" in page
    for name in ("processor", "system", "python"):
        assert machine[name] in page
    assert machine["date"].partition("T")[0] in page
    assert f"numpy {machine['libraries']['numpy']}" in page
    assert "demo-pkg 1.2.3" in page
    for said in ("Cost stays linear.", "13x to 44x", "7.2x faster at 2048", "7.2 is at least 2.0", "a paper, table 1"):
        assert said in page


def test_every_claim_has_its_anchor_its_link_and_its_command(tmp_path):
    page = written(tmp_path, result(scale="laptop", seed=3), error())
    assert page.count('id="demo-pkg/cost"') == 1
    assert 'href="#demo-pkg/cost"' in page
    assert 'id="demo-pkg"' in page
    assert "lemmata reproduce demo-pkg --claim demo-pkg/cost --scale laptop --seed 3" in words(page)


def test_a_claim_run_twice_has_two_anchors(tmp_path):
    page = written(tmp_path, result(), result(seed=1))
    assert 'href="#demo-pkg/cost-smoke-0"' in page
    assert 'id="demo-pkg/cost-smoke-1"' in page


def test_a_claim_that_raised_shows_its_traceback(tmp_path):
    page = written(tmp_path, error())
    assert "<pre" in page
    assert "File &#x27;claims.py&#x27;" in page
    assert "division by &lt;zero&gt;" in page
    assert 'class="badge alert">error' in page


def test_plots_tables_values_and_settings_are_there(tmp_path):
    page = written(tmp_path, result())
    assert page.count('role="img"') == 1
    said = words(page)
    for text in (
        "Times",
        "Seconds",
        "Varies from run to run: ours.",
        "∞",
        "NaN",
        "ratio",
        "sizes 256, 512",
        "torch 2.9",
    ):
        assert text in said


def test_a_run_without_claims_has_a_page(tmp_path):
    page = written(tmp_path)
    assert "No claims were run" in page
    assert "<table" not in page


def test_the_page_follows_from_the_results_alone(tmp_path):
    first = written(tmp_path, result(), error())
    assert write_report(tmp_path / "results.json").read_text(encoding="utf-8") == first


@pytest.mark.parametrize(
    "evidence",
    [
        {},
        {"headline": "x"},
        {"headline": "x", "series": [{"title": "t"}], "tables": [{"title": "t"}]},
        {"headline": "x", "series": [{"title": "t", "x_label": "x", "y_label": "y", "lines": {"a": [[1], ["no"]]}}]},
        {"headline": "x", "series": [{"title": "t", "x_label": "x", "y_label": "y", "lines": {"a": 3}}], "values": {}},
        {"headline": "x", "tables": [{"title": "t", "columns": ["a"], "rows": [[1, 2]], "timed": []}]},
        {"headline": "word " * 2000, "settings": {"deep": [{"a": [1, "nan"]}]}},
    ],
)
def test_evidence_that_is_not_as_it_should_be_costs_a_picture_not_the_page(tmp_path, evidence):
    page = written(tmp_path, result(evidence=evidence))
    assert "Cost stays linear." in page
    broken = bool(evidence.get("series") or evidence.get("tables"))
    assert ("cannot be shown" in page) is broken


def test_a_verdict_of_another_version_is_shown_as_it_is(tmp_path):
    assert "1 unheard of" in words(written(tmp_path, result(verdict="unheard of")))


def test_seconds_that_are_no_number_are_shown(tmp_path):
    assert "nan s" in words(written(tmp_path, result(seconds=float("nan"))))


def test_hostile_results_stay_text(tmp_path):
    text = "<script>alert(1)</script>"
    page = written(tmp_path, result(statement=text, paper=text, package=text, reason=text, version=text, id=text))
    assert page.count("<script") == 1


def test_no_results_is_an_error_that_names_the_folder(tmp_path):
    with pytest.raises(InvalidInput, match=re.escape(str(tmp_path))):
        write_report(tmp_path)
    (tmp_path / "results.json").write_text("{")
    with pytest.raises(InvalidInput, match=r"results\.json"):
        write_report(tmp_path)


def pair(tmp_path, ours, theirs):
    for name, found in (("a", ours), ("b", theirs)):
        (tmp_path / name).mkdir()
        results.save_all(tmp_path / name, found)
    return tmp_path / "a", tmp_path / "b"


def test_two_runs_stand_beside_each_other(tmp_path):
    other = Evidence(headline="1.1x [bold]faster[/bold]")
    text = compare(
        *pair(tmp_path, [result(), result("gone", "holds")], [result(verdict="does not hold", evidence=other), error()])
    )
    flat = " ".join(re.sub("[^\\w.:/ ≠[\\]]", " ", text).split())
    assert "≠ demo pkg/cost" in flat
    assert "holds: 7.2x faster at 2048" in flat
    assert "[bold]faster[/bold]" in flat
    assert "not run" in flat
    assert text.endswith("3 of 3 verdicts differ")


def test_equal_runs_differ_nowhere(tmp_path):
    a, b = pair(tmp_path, [result(), error()], [result(seconds=99.0), error()])
    assert compare(a, b).endswith("0 of 2 verdicts differ")
    assert differences(a, b) == []


def test_runs_at_several_scales_say_which(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "400")  # the temporary folder's name may be long, and the lines would be cut
    runs = [result(), result(scale="laptop")]
    assert "laptop, seed 0" in " ".join(compare(*pair(tmp_path, runs, runs)).split())


def test_same_names_claim_and_field(tmp_path):
    changed = Evidence(headline="7.2x faster at 2048", values={"ratio": 7.2, "other": 2.0})
    [*lines] = differences(*pair(tmp_path, [result()], [result(evidence=changed)]))
    assert any(line.startswith("demo-pkg/cost: evidence.values.other") for line in lines)

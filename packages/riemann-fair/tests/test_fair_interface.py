"""The command line, what an import loads, and the claims."""

import gzip
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest
from lemmata_core import InvalidInput, Scale
from riemann_fair import claims, fairness_report, load_graph, modified_sbm
from riemann_fair.cli import main
from riemann_fair.files import read_edges, read_group_table, read_labels
from typer.testing import CliRunner


def run(*words, code=0):
    found = CliRunner().invoke(main, [str(w) for w in words])
    assert found.exit_code == code, found.output
    return found.output


@pytest.fixture
def folder(tmp_path):
    run("generate", "sbm", "--n", 400, "--groups", 2, "--clusters", 4, "--out", tmp_path)
    return tmp_path


def test_cluster_writes_labels_and_the_report(folder):
    out = folder / "result"
    text = run("cluster", folder / "edges.csv", folder / "groups.csv", "-k", 4, "--out", out, "--note", "Drawn by lot.")
    assert "average balance:" in text
    assert sorted(p.name for p in out.iterdir()) == ["labels.csv", "report.html", "report.json"]
    planted = (folder / "labels.csv").read_text().splitlines()
    found = (out / "labels.csv").read_text().splitlines()
    assert found[0] == "id,cluster"
    pairs = {(a.split(",")[1], b.split(",")[1]) for a, b in zip(found[1:], planted[1:])}
    assert len(pairs) == 4
    assert json.loads((out / "report.json").read_text())["average_balance"] == 1
    page = (out / "report.html").read_text()
    assert "Drawn by lot." in page
    assert "<svg" in page


def test_without_matplotlib_the_page_has_its_tables_and_says_what_is_missing(monkeypatch):
    report = fairness_report(np.ones((4, 4)) - np.eye(4), [0, 0, 1, 1], ["a", "b", "a", "b"])
    assert "<svg" in report.to_html()
    monkeypatch.setattr("riemann_fair.report.find_spec", lambda name: None)
    page = report.to_html()
    assert "<svg" not in page
    assert page.count("<table") == 2
    assert "riemann-fair[plot]" in page


def test_report_on_any_labels_agrees_with_the_first(folder):
    run("cluster", folder / "edges.csv", folder / "groups.csv", "-k", 4, "--out", folder / "l.csv", "--assign", "fair")
    text = run("report", folder / "edges.csv", folder / "l.csv", folder / "groups.csv", "--json")
    assert json.loads(text)["smallest balance"] == 1


def test_features_and_path(folder):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((90, 2)) + 5 * (np.arange(90) % 3)[:, None]
    rows = [f"{a},{b},{'fm'[i % 2]}" for i, (a, b) in enumerate(X)]
    (folder / "x.csv").write_text("\n".join(["one,two,sex", *rows]))
    text = run("cluster", folder / "x.csv", "--features", "--groups-column", "sex", "-k", 3, "--json")
    assert sorted(json.loads(text)["sizes"]) == [30, 30, 30]
    run("path", folder / "edges.csv", folder / "groups.csv", "-k", 4, "--grid", 3, "--out", folder / "p.csv")
    assert (folder / "p.csv").read_text().startswith("delta,violation,objective,lower_bound,ncut,balance,status")


def test_edge_lists_of_every_kind(tmp_path):
    for name, text in (
        ("a.csv", "source,target\n0,1\n1,2\n"),
        ("b.tsv", "0\t1\n1\t2\n"),
        ("c.txt", "# a comment\n0 1\n1 2\n"),
        ("d.csv", "u,v,weight\n0,1,1.0\n1,2,1.0\n"),
    ):
        (tmp_path / name).write_text(text)
        found = read_edges(tmp_path / name)
        assert found.ids.tolist() == [0, 1, 2]
        assert found.edges.tolist() == [[0, 1], [1, 2]]
    (tmp_path / "e.csv.gz").write_bytes(gzip.compress(b'"Ann, Lee";Bo\nBo;Cy\n'))
    names = read_edges(tmp_path / "e.csv.gz")
    assert names.edges.tolist() == [[0, 1], [1, 2]]
    assert len(names.ids) == 3


def test_a_node_without_an_edge_or_a_label(tmp_path):
    graph = modified_sbm(80, 2, 2, rng=0)
    W = graph.affinity.tocoo()
    lines = [f"{i},{j}" for i, j in zip(W.row, W.col) if i < j]
    (tmp_path / "edges.csv").write_text("\n".join(lines))
    labels = [f"{i},{g}" for i, g in enumerate(graph.groups) if i != 7]
    (tmp_path / "groups.csv").write_text("\n".join(["id,group", *labels, "ghost,0"]))
    text = run(
        "cluster", tmp_path / "edges.csv", tmp_path / "groups.csv", "-k", 2, "--missing", "ignore",
        "--out", tmp_path / "labels.csv",
    )  # fmt: skip
    assert "average balance" in text
    assert len((tmp_path / "labels.csv").read_text().splitlines()) == 82
    assert "\nghost," in (tmp_path / "labels.csv").read_text()


@pytest.mark.parametrize(
    ("edges", "groups", "words"),
    [
        ("0,1\n1,2,3\n", "id,g\n0,a\n1,b\n2,a\n", "row 2"),
        ("", "id,g\n0,a\n", "at least one edge"),
        ("0,1\n1,2\n", "id\n0\n", "an id column and an attribute"),
        ("0,1\n1,2\n", "id,g\n0,a\n0,b\n", "each id once"),
        ("0,1\n1,2\n", "id,g\n0,a\n1,b\n", "missing labels"),
        ("0,1,x\n1,2,y\n", "id,g\n0,a\n1,b\n2,a\n", "numbers as weights"),
        ("0,1,-1\n1,2,1\n", "id,g\n0,a\n1,b\n2,a\n", "non-negative"),
        ("0,1,1,1700000000\n1,2,1,1700000001\n", "id,g\n0,a\n1,b\n2,a\n", "an optional weight"),
        ("0,1\n1,2\n", "id,g,g\n0,a,b\n", "g twice"),
        ("0,1\n1,2\n", "id,g\n0,a\n1,b\n2,a\n", "n_clusters: expected at most 2"),
    ],
)
def test_files_that_cannot_be_used_end_in_one_line(tmp_path, edges, groups, words):
    (tmp_path / "edges.csv").write_text(edges)
    (tmp_path / "groups.csv").write_text(groups)
    files = [tmp_path / "edges.csv", tmp_path / "groups.csv"]
    found = CliRunner().invoke(main, ["cluster", *map(str, files), "-k", "3", "--out", str(tmp_path / "out.csv")])
    assert found.exit_code == 2
    assert words in found.stderr
    assert found.stderr.count("\n") == 1
    assert not (tmp_path / "out.csv").exists()


def test_ids_with_leading_zeros_keep_them(tmp_path):
    (tmp_path / "edges.csv").write_text("".join(f"{i:03d},{(i + 1) % 8:03d}\n" for i in range(8)))
    (tmp_path / "groups.csv").write_text("# drawn by lot\nid;g\n" + "".join(f"{i:03d};{i % 2}\n" for i in range(8)))
    run("cluster", tmp_path / "edges.csv", tmp_path / "groups.csv", "-k", 2, "--regularization", "auto",
        "--out", tmp_path / "out.csv")  # fmt: skip
    assert (tmp_path / "out.csv").read_text().splitlines()[1].startswith("000,")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("ragged.csv", "x,y,sex\n1,2,f\n1,2\n", "3 columns, got 2 in row 3"),
        ("groups.csv", "sex\nf\nm\nf\n", "a feature column"),
        ("header.csv", "x,sex\n", "two rows at least"),
        ("missing.csv", "x,sex\n1,f\nnan,m\n2,f\n", "NaN or infinity"),
        ("empty.csv", "x,sex\n1,f\n,m\n2,f\n", "numbers in every column"),
        ("twice.csv", "x,x,sex\n1,2,f\n2,3,m\n", "x twice"),
        ("fake.parquet", "no parquet", "a parquet file"),
        ("half.csv.gz", b"\x1f\x8b\x08half", "a whole gzip file"),
        ("nothing.csv", None, "No such file"),
    ],
)
def test_features_that_cannot_be_used_end_in_one_line(tmp_path, name, content, words):
    if content is not None:
        (tmp_path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    found = CliRunner().invoke(main, ["cluster", str(tmp_path / name), "--features", "--groups-column", "sex"])
    assert found.exit_code == 2
    assert words in found.stderr
    assert found.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("id,cluster\n0,0\n0,1\n1,1\n2,0\n", "each id once"),
        ("id,cluster\n0,x\n1,1\n2,0\n", "whole numbers"),
        ("0,1\n1,0\n2,0\n", "columns id and cluster"),
        ("id,cluster\n0,0\n", "a cluster for every node"),
        ("id,cluster\n0,-1\n1,-1\n2,-1\n", "noise only"),
        ("", "columns id and cluster"),
    ],
)
def test_labels_that_cannot_be_used_end_in_one_line(tmp_path, content, words):
    files = {"edges.csv": "0,1\n1,2\n", "labels.csv": content, "groups.csv": "id,g\n0,a\n1,b\n2,a\n"}
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    found = CliRunner().invoke(main, ["report", *(str(tmp_path / name) for name in files)])
    assert found.exit_code == 2
    assert words in found.stderr


def test_label_columns_are_found_by_name(tmp_path):
    (tmp_path / "labels.csv").write_text("cluster,id\n5,a\n7,b\n")
    assert read_labels(tmp_path / "labels.csv") == {"a": 5, "b": 7}


def test_an_unknown_attribute_is_named(tmp_path):
    (tmp_path / "groups.csv").write_text("id,sex,age\n0,f,1\n")
    with pytest.raises(InvalidInput, match=r"columns of .*sex, age"):
        read_group_table(tmp_path / "groups.csv", ["region"])


def test_an_import_loads_nothing_heavy():
    code = (
        "import sys, riemann_fair;"
        "heavy = ('numba', 'pymanopt', 'torch', 'matplotlib', 'pandas', 'typer', 'sklearn');"
        "print([m for m in heavy if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_small_fit_does_not_load_the_compiler():
    code = (
        "import sys, numpy as np; from riemann_fair import FairSpectralClustering, modified_sbm;"
        "g = modified_sbm(200, 2, 2, rng=0);"
        "FairSpectralClustering(2, affinity='precomputed').fit(g.affinity, sensitive_features=g.groups);"
        "print('numba' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"


def test_the_claims_are_well_formed():
    ids = [c.id for c in claims.CLAIMS]
    assert len(set(ids)) == len(ids) == 10
    assert all(i.startswith("riemann-fair/") for i in ids)
    gpu = next(c for c in claims.CLAIMS if c.id.endswith("gpu-scale"))
    assert gpu.scales == {Scale.FULL}
    assert gpu.requires == ("torch",)


def test_the_gpus_operator_on_the_processor():
    pytest.importorskip("torch")
    from riemann_fair import fair_embedding
    from riemann_fair.gpu import radmm_on

    graph = modified_sbm(600, 2, 4, rng=0)
    exact = fair_embedding(graph.affinity, graph.groups, 4, solver="dense").objective
    found = radmm_on("cpu", graph.affinity, graph.groups, 4, rng=0)
    assert found.objective == pytest.approx(exact, rel=1e-3)
    assert found.fairness_violation < 1e-10


@pytest.mark.browser
def test_the_page_in_a_browser(folder):
    playwright = pytest.importorskip("playwright.sync_api")
    run("cluster", folder / "edges.csv", folder / "groups.csv", "-k", 4, "--out", folder / "result")
    path = shutil.which("chromium")
    if path is None:
        pytest.skip("no chromium")
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        errors = []
        page.on("console", lambda m: errors.append(m.text) if m.type == "error" else None)
        page.on("pageerror", lambda e: errors.append(str(e)))
        page.goto((folder / "result" / "report.html").as_uri())
        assert page.locator("svg").count() >= 1
        assert page.locator("svg").first.is_visible()
        assert page.locator("table").count() >= 2
        assert page.locator("h1").inner_text() == "Fairness report"
        browser.close()
    assert errors == []


def test_deezer_is_named_for_what_it_is():
    assert load_graph("deezer_europe").attribute_name == "inferred gender"

"""The command line."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from lemmata_core import InvalidInput, check
from lemmata_core.cli import JsonOption, app, emit
from lemmata_core.files import atomic_write

from riemann_fair.datasets import modified_sbm
from riemann_fair.files import read_edges, read_features, read_group_table, read_labels, write_table
from riemann_fair.laplacian import adjacency_from_edges
from riemann_fair.path import COLUMNS, fairness_path
from riemann_fair.report import FairnessReport, fairness_report

main = app("riemann-fair", "Clusters of a graph that keep the proportions of protected groups.")
generate = typer.Typer(help="Make graphs to try things on.", no_args_is_help=True)
main.add_typer(generate, name="generate")

Edges = Annotated[Path, typer.Argument(help="Edge list: two ids and an optional weight a line; .gz is read.")]
GroupsFile = Annotated[Path, typer.Argument(help="Table with a header: an id column, then attributes.")]
K = Annotated[int, typer.Option("-k", "--clusters", help="Number of clusters.")]
Attribute = Annotated[str, typer.Option(help="Attributes to use, comma-separated; all unless given.")]
Missing = Annotated[str, typer.Option(help="What a missing label means: error, ignore or group.")]
Combine = Annotated[str, typer.Option(help="Several attributes: concat or intersect.")]
Seed = Annotated[int, typer.Option(help="Seed of all random choices.")]
Note = Annotated[str, typer.Option(help="A sentence for the report: where the labels come from.")]


def _names(text: str) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()]


def _tau(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _graph(edges: Path, groups: Path, attribute: str) -> tuple[Any, np.ndarray, dict[str, list[str | None]]]:
    """Affinity, ids and attributes; a node of the group table without an edge is an isolated node."""
    listed = read_edges(edges)
    table = read_group_table(groups, _names(attribute))
    known = {str(i) for i in listed.ids}
    lonely = [i for i in table.values if i not in known]
    ids = np.concatenate([listed.ids.astype(str), np.array(lonely, dtype=str)]) if lonely else listed.ids
    return adjacency_from_edges(listed.edges, listed.weights, ids.size), ids, table.for_ids(ids.tolist())


def _write_report(report: FairnessReport, json_file: Path | None, html_file: Path | None, note: str) -> None:
    if json_file is not None:
        with atomic_write(json_file) as file:
            file.write(report.to_json() + "\n")
    if html_file is not None:
        report.page(note=note).write(html_file)


def _summary(report: FairnessReport, extra: dict[str, Any], as_json: bool) -> None:
    emit({**extra, **report.scalars(), "sizes": report.sizes, "warnings": list(report.warnings)}, as_json=as_json)


@main.command()
def cluster(
    data: Annotated[Path, typer.Argument(help="Edge list, or with --features a table of features.")],
    groups: Annotated[Path | None, typer.Argument(help="Table with a header: an id column, then attributes.")] = None,
    clusters: K = 8,
    features: Annotated[bool, typer.Option("--features", help="DATA is a table of features with a header.")] = False,
    groups_column: Annotated[str, typer.Option(help="With --features: the columns that hold the groups.")] = "",
    knn: Annotated[int, typer.Option(help="With --features: neighbours of the kNN graph.")] = 10,
    attribute: Attribute = "",
    assign: Annotated[str, typer.Option(help="kmeans, cluster_qr or fair.")] = "kmeans",
    balance_tol: Annotated[
        float, typer.Option(help="With --assign fair: relative band of each group's numbers.")
    ] = 0.1,
    tolerance: Annotated[float, typer.Option(help="Allowed violation of the embedding.")] = 0.0,
    constraint: Annotated[str, typer.Option(help="count, plain or volume.")] = "count",
    regularization: Annotated[str, typer.Option(help='tau of the regularised affinity, or "auto".')] = "0",
    solver: Annotated[str, typer.Option(help="See the documentation of fair_embedding.")] = "auto",
    tol: Annotated[float, typer.Option(help="Largest residual of the embedding.")] = 1e-3,
    missing: Missing = "error",
    combine: Combine = "concat",
    out: Annotated[
        Path | None,
        typer.Option(help="A .csv for the labels, or a folder for labels.csv, report.json and report.html."),
    ] = None,
    report: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as a page.")] = None,
    note: Note = "",
    seed: Seed = 0,
    as_json: JsonOption = False,
) -> None:
    """Cluster a graph or a table of features, and report on fairness."""
    from riemann_fair.estimator import FairSpectralClustering

    model = FairSpectralClustering(
        clusters,
        affinity="nearest_neighbors" if features else "precomputed",
        n_neighbors=knn,
        solver=solver,
        constraint=constraint,
        tolerance=tolerance,
        assign_labels=assign,
        balance_tol=balance_tol,
        regularization=_tau(regularization),
        combine=combine,
        missing=missing,
        tol=tol,
        random_state=seed,
    )
    ids: Any
    if features:
        X, attributes = read_features(data, _names(groups_column))
        ids = range(X.shape[0])
    elif groups is None:
        raise InvalidInput.argument("groups", expected="a table of groups beside the edge list", got="none")
    else:
        X, ids, attributes = _graph(data, groups, attribute)
    model.fit(X, sensitive_features=attributes)
    labels_file = out
    if out is not None and out.suffix == "":
        out.mkdir(parents=True, exist_ok=True)
        labels_file = out / "labels.csv"
        report, html = report or out / "report.json", html or out / "report.html"
    if labels_file is not None:
        write_table(labels_file, ("id", "cluster"), zip(ids, model.labels_.tolist()))
    made = model.report_
    if made is None:
        raise RuntimeError("no report was made: a defect of ours")
    _write_report(made, report, html, note)
    result = model.result_
    _summary(made, {"solver": result.solver, "status": result.status, "objective": result.objective,
                    "fairness violation": result.fairness_violation}, as_json)  # fmt: skip


@main.command("report")
def report_command(
    edges: Edges,
    labels: Annotated[Path, typer.Argument(help="Table with a header and the columns id and cluster.")],
    groups: GroupsFile,
    attribute: Attribute = "",
    combine: Combine = "concat",
    report: Annotated[Path | None, typer.Option(help="Write the report as JSON.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as a page.")] = None,
    note: Note = "",
    as_json: JsonOption = False,
) -> None:
    """Report on the fairness of any clustering."""
    W, ids, attributes = _graph(edges, groups, attribute)
    found = read_labels(labels)
    absent = [str(i) for i in ids if str(i) not in found]
    if absent:
        raise InvalidInput.argument(str(labels), expected="a cluster for every node", got=f"none for {absent[0]}")
    made = fairness_report(W, [found[str(i)] for i in ids], attributes, combine=combine)
    _write_report(made, report, html, note)
    _summary(made, {}, as_json)


@main.command()
def path(
    edges: Edges,
    groups: GroupsFile,
    clusters: K = 8,
    attribute: Attribute = "",
    grid: Annotated[int, typer.Option(help="Points of the path, both ends included.")] = 20,
    out: Annotated[Path | None, typer.Option(help="Write the path as CSV.")] = None,
    seed: Seed = 0,
    as_json: JsonOption = False,
) -> None:
    """Trace the price of fairness from plain to fair clustering."""
    W, _, attributes = _graph(edges, groups, attribute)
    found = fairness_path(W, attributes, clusters, grid=grid, rng=seed)
    rows = found.table().rows
    if out is not None:
        write_table(out, (*COLUMNS, "status"), rows)
    names = (*COLUMNS, "status")
    emit([dict(zip(names, row)) for row in rows], as_json=as_json)


@generate.command("sbm")
def sbm(
    out: Annotated[Path, typer.Option(help="Folder for edges.csv, groups.csv and labels.csv.")],
    n: Annotated[int, typer.Option("--n", help="Nodes.")] = 1000,
    groups: Annotated[int, typer.Option(help="Groups.")] = 2,
    clusters: Annotated[int, typer.Option(help="Planted clusters.")] = 4,
    degree: Annotated[float, typer.Option(help="Mean degree; 0: the paper's.")] = 0.0,
    seed: Seed = 0,
) -> None:
    """Draw a graph of the modified stochastic block model."""
    check.in_range(degree, "degree", 0)
    graph = modified_sbm(n, groups, clusters, scale=degree or "paper", rng=seed)
    out.mkdir(parents=True, exist_ok=True)
    W = graph.affinity.tocoo()
    above = W.row < W.col
    write_table(out / "edges.csv", ("source", "target"), zip(W.row[above].tolist(), W.col[above].tolist()))
    write_table(out / "groups.csv", ("id", "group"), enumerate(graph.groups.tolist()))
    write_table(out / "labels.csv", ("id", "cluster"), enumerate(graph.labels.tolist()))
    emit({"nodes": n, "edges": int(above.sum()), "folder": str(out)})


@main.command()
def bench(
    graphs: Annotated[str, typer.Option(help="Of sbm, sbm40, knn, lastfm, deezer.")] = "sbm40,lastfm",
    peers: Annotated[str, typer.Option(help="Of eigsh, sklearn, sfairsc.")] = "eigsh",
    repeats: Annotated[int, typer.Option(help="Pairs of runs.")] = 5,
    as_json: JsonOption = False,
) -> None:
    """Time the default solver against its peers, run in turn; a ratio below 1 is faster."""
    from riemann_fair.versus import GRAPHS, PEERS, compare

    names, against = _names(graphs), _names(peers)
    for name in names:
        check.one_of(name, "graphs", tuple(GRAPHS))
    for name in against:
        check.one_of(name, "peers", tuple(PEERS))
    emit([compare(g, p, repeats=repeats) for g in names for p in against], as_json=as_json)

"""Claims on what is found: quality, fairness, optimality, relaxed fairness."""

from __future__ import annotations

from typing import Any

import numpy as np
from lemmata_core import Context, Evidence, Scale, Series, Table, Verdict

from riemann_fair.claims_common import draw_seeds, labels_of, quiet, run_all
from riemann_fair.datasets import load_graph, modified_sbm
from riemann_fair.embedding import fair_embedding
from riemann_fair.laplacian import read_affinity
from riemann_fair.metrics import average_balance, clustering_error, normalized_cut
from riemann_fair.problem import prepare
from riemann_fair.radmm import RADMMParams


def synthetic_task(n: int, h: int, k: int, seed: int) -> dict[str, float]:
    """One graph: errors, cuts and balances of the ADMM and of exact eigenvectors."""
    graph = modified_sbm(n, h, k, rng=seed)
    exact = fair_embedding(graph.affinity, graph.groups, k, solver="lanczos", tol=1e-6, rng=seed)
    admm = quiet(lambda: fair_embedding(graph.affinity, graph.groups, k, solver="radmm", rng=seed))
    out: dict[str, float] = {}
    for name, result in (("radmm", admm), ("lanczos", exact)):
        labels = labels_of(result, k, seed, row_normalize=True)
        out[f"{name} error"] = clustering_error(labels, graph.labels)
        out[f"{name} ncut"] = normalized_cut(graph.affinity, labels)
        out[f"{name} balance"] = average_balance(labels, graph.groups)
    return out


def quality_synthetic(ctx: Context) -> Evidence:
    """Run the block model."""
    n, seeds, cases = {
        Scale.SMOKE: (1000, 1, ((7, 4),)),
        Scale.LAPTOP: (10_000, 5, ((7, 4), (10, 7), (2, 4))),
        Scale.FULL: (50_000, 10, (*((h, k) for h in (7, 8, 9, 10) for k in (4, 5, 6, 7)), (2, 4))),
    }[ctx.scale]
    jobs = [(n, h, k, s) for h, k in cases for s in draw_seeds(ctx, seeds)]
    found = run_all(ctx, synthetic_task, jobs, "block model")
    rows = []
    worst = {"error": 0.0, "ncut": 0.0, "balance": 0.0}
    for h, k in cases:
        part = [f for f, job in zip(found, jobs) if job[1:3] == (h, k)]
        mean = {key: float(np.mean([p[key] for p in part])) for key in part[0]}
        rows.append([n, h, k, *mean.values()])
        worst["error"] = max(worst["error"], mean["radmm error"] - mean["lanczos error"])
        worst["ncut"] = max(worst["ncut"], mean["radmm ncut"] / mean["lanczos ncut"] - 1)
        worst["balance"] = max(worst["balance"], mean["lanczos balance"] - mean["radmm balance"])
    return Evidence(
        headline=f"largest difference to the exact eigenvectors at n = {n}: error {worst['error']:+.4f}, cut "
        f"{worst['ncut']:+.2%}, balance {-worst['balance']:+.4f}",
        values=worst,
        tables=(Table("Means over seeds", ["n", "groups", "clusters", *found[0]], rows),),
        settings={"n": n, "seeds": seeds, "cases (groups, clusters)": cases, "k-means": "rows of H, 5 starts"},
    )


def accept_quality(e: Evidence) -> Verdict:
    """Accept when error, cut and balance agree."""
    v = e.values
    text = f"error {v['error']:+.4f} (<= 0.01), cut {v['ncut']:+.2%} (<= 1 %), balance {-v['balance']:+.4f} (>= -0.01)"
    good = v["error"] <= 0.01 and v["ncut"] <= 0.01 and v["balance"] <= 0.01
    return Verdict.of(good, text)


def needed_task(n: int, seed: int) -> dict[str, float]:
    """One graph with strong groups: plain and fair clustering."""
    graph = modified_sbm(n, 2, 4, rng=seed)
    out = {}
    for name, groups in (("plain", None), ("fair", graph.groups)):
        labels = labels_of(fair_embedding(graph.affinity, groups, 4, rng=seed), 4, seed)
        out[f"{name} error"] = clustering_error(labels, graph.labels)
        out[f"{name} balance"] = average_balance(labels, graph.groups)
    return out


def fairness_needed(ctx: Context) -> Evidence:
    """Run the group-dominant model."""
    n, seeds = {Scale.SMOKE: (2000, 1), Scale.LAPTOP: (2000, 10), Scale.FULL: (10_000, 10)}[ctx.scale]
    found = run_all(ctx, needed_task, [(n, s) for s in draw_seeds(ctx, seeds)], "groups stronger than clusters")
    values = {
        "plain error": float(min(f["plain error"] for f in found)),
        "fair error": float(max(f["fair error"] for f in found)),
    }
    mean = {key: float(np.mean([f[key] for f in found])) for key in found[0]}
    return Evidence(
        headline=f"2 groups, 4 clusters: plain error {mean['plain error']:.3f} and balance "
        f"{mean['plain balance']:.2f}, fair error {mean['fair error']:.3f} and balance {mean['fair balance']:.2f}",
        values=values,
        tables=(Table("Each graph", list(found[0]), [list(f.values()) for f in found]),),
        settings={"n": n, "seeds": seeds, "groups": 2, "clusters": 4},
    )


def accept_needed(e: Evidence) -> Verdict:
    """Accept when plain fails and fair succeeds."""
    text = (
        f"smallest plain error {e.values['plain error']:.3f} (>= 0.2), largest fair error "
        f"{e.values['fair error']:.3f} (<= 0.01)"
    )
    good = e.values["plain error"] >= 0.2 and e.values["fair error"] <= 0.01
    return Verdict.of(good, text)


def real_task(name: str, k: int, seed: int) -> dict[str, float]:
    """One social graph and k: the ADMM, exact and plain eigenvectors."""
    graph = load_graph(name)
    exact = fair_embedding(graph.affinity, graph.groups, k, tol=1e-5, rng=seed)
    params = RADMMParams(max_outer=200)
    admm = quiet(lambda: fair_embedding(graph.affinity, graph.groups, k, solver="radmm", params=params, rng=seed))
    plain_ = fair_embedding(graph.affinity, None, k, tol=1e-4, rng=seed)
    out: dict[str, float] = {}
    for title, result in (("radmm", admm), ("exact", exact), ("plain", plain_)):
        labels = labels_of(result, k, seed)
        out[f"{title} ncut"] = normalized_cut(graph.affinity, labels)
        out[f"{title} balance"] = average_balance(labels, graph.groups)
    out["radmm objective / exact"] = admm.objective / exact.objective
    return out


def quality_real(ctx: Context) -> Evidence:
    """Run the social graphs."""
    jobs = {
        Scale.SMOKE: [("lastfm_asia", 4)],
        Scale.LAPTOP: [(g, k) for g in ("lastfm_asia", "deezer_europe") for k in (2, 4, 6, 8, 10)],
        Scale.FULL: [(g, k) for g in ("lastfm_asia", "deezer_europe") for k in (2, 4, 6, 8, 10)],
    }[ctx.scale]
    seed = draw_seeds(ctx, 1)[0]
    found = run_all(ctx, real_task, [(g, k, seed) for g, k in jobs], "social graphs")
    cut = max(f["radmm ncut"] / f["exact ncut"] for f in found)
    lost = max(f["exact balance"] - f["radmm balance"] for f in found)
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for (g, k), f in zip(jobs, found):
        for what in ("radmm", "plain"):
            x, y = lines.setdefault(f"{g}, {what}", ([], []))
            x.append(k)
            y.append(f[f"{what} balance"])
    return Evidence(
        headline=f"cut at most {cut:.3f} times that of exact eigenvectors, balance at most {lost:.3f} below",
        values={"cut": cut, "lost": lost},
        tables=(
            Table("Each graph", ["graph", "k", *found[0]], [[g, k, *f.values()] for (g, k), f in zip(jobs, found)]),
        ),
        series=(Series("Average balance", "clusters k", "average balance", lines),),
        settings={
            "graphs": "LastFM Asia (country, 18 groups), Deezer Europe (gender, inferred from first names by the "
            "collectors: a noisy label)",
            "radmm": "our constants, 200 outer iterations at most",
        },
    )


def accept_real(e: Evidence) -> Verdict:
    """Accept when cut and balance are kept."""
    text = f"cut {e.values['cut']:.3f} times (<= 1.05), balance lost {e.values['lost']:.3f} (<= 0.02)"
    good = e.values["cut"] <= 1.05 and e.values["lost"] <= 0.02
    return Verdict.of(good, text)


def published_task(n: int, h: int, k: int, seed: int, constants: str) -> dict[str, Any]:
    """One ADMM run with published or our constants, against the optimum."""
    graph = modified_sbm(n, h, k, rng=seed)
    params = RADMMParams.paper() if constants == "published" else RADMMParams()
    exact = fair_embedding(graph.affinity, graph.groups, k, tol=1e-6, solver="lanczos", rng=seed).objective
    found = quiet(lambda: fair_embedding(graph.affinity, graph.groups, k, solver="radmm", params=params, rng=seed))
    last = found.history[-1]
    return {
        "primal": last["r"],
        "violation": last["f"],
        "outer": found.n_iter,
        "products": found.n_products,
        "excess": found.objective / exact - 1,
        "trace": [[h["outer"], h["r"], h["f"]] for h in found.history],
    }


def admm_jobs(ctx: Context) -> list[tuple[int, int, int, int, str]]:
    """The runs that "feasible" and "optimum" share."""
    n, seeds, cases = {
        Scale.SMOKE: (400, 1, ((2, 4),)),
        Scale.LAPTOP: (2000, 3, ((5, 4), (2, 4))),
        Scale.FULL: (10_000, 10, ((7, 4), (5, 4), (2, 4))),
    }[ctx.scale]
    return [(n, h, k, s, c) for h, k in cases for s in draw_seeds(ctx, seeds) for c in ("published", "ours")]


def admm_table(jobs: list[tuple[Any, ...]], found: list[Any]) -> Table:
    """One row a run."""
    columns = ["n", "groups", "clusters", "constants", "primal", "violation", "outer", "products", "excess"]
    return Table("Each run", columns, [[*job[:3], job[4], *(f[c] for c in columns[4:])] for job, f in zip(jobs, found)])


def feasible(ctx: Context) -> Evidence:
    """Run published and our constants and look at the residuals."""
    jobs = admm_jobs(ctx)
    found = run_all(ctx, published_task, jobs, "published and our constants")
    values = {}
    lines: dict[str, tuple[list[float], list[float]]] = {}
    for constants in ("published", "ours"):
        part = [(job, f) for job, f in zip(jobs, found) if job[4] == constants]
        values[f"{constants} primal"] = max(f["primal"] for _, f in part)
        values[f"{constants} violation"] = max(f["violation"] for _, f in part)
        values[f"{constants} outer"] = float(max(f["outer"] for _, f in part))
        values[f"{constants} reached"] = float(np.mean([max(f["primal"], f["violation"]) < 1e-4 for _, f in part]))
        for job, f in part:
            if job[3] == jobs[0][3] or job[1] == 2:
                trace = np.array(f["trace"])
                lines.setdefault(f"{constants}, h = {job[1]}", (trace[:, 0].tolist(), trace[:, 2].tolist()))
    return Evidence(
        headline=f"published constants: {values['published reached']:.0%} of runs below 1e-4 within 30 outer "
        f"iterations; ours: {values['ours reached']:.0%} within 60",
        values=values,
        tables=(admm_table(jobs, found),),
        series=(Series("Fairness violation", "outer iteration", "||Q' H||", lines, log_y=True),),
        settings={"published": str(RADMMParams.paper()), "ours": str(RADMMParams()), "dtype": "float64"},
    )


def accept_feasible(e: Evidence) -> Verdict:
    """Accept when both residuals of every published run are below 1e-4; say which is not."""
    v = e.values
    parts = [
        f"{name} {v[f'published {key}']:.1e} ({'below' if v[f'published {key}'] < 1e-4 else 'not below'} 1e-4)"
        for name, key in (("primal residual", "primal"), ("fairness violation", "violation"))
    ]
    ours = f"{v['ours primal']:.1e} and {v['ours violation']:.1e}"
    text = f"published constants, worst run: {', '.join(parts)}; ours: {ours}"
    good = v["published primal"] < 1e-4 and v["published violation"] < 1e-4
    return Verdict.of(good, text)


def optimum(ctx: Context) -> Evidence:
    """Run published and our constants and look at the objective."""
    jobs = admm_jobs(ctx)
    found = run_all(ctx, published_task, jobs, "published and our constants")
    values: dict[str, float] = {}
    for constants in ("published", "ours"):
        part = [f for job, f in zip(jobs, found) if job[4] == constants]
        values[constants] = max(abs(f["excess"]) for f in part)
        values[f"{constants} products"] = float(np.median([f["products"] for f in part]))
    values["products"] = values["ours products"] / values["published products"]
    return Evidence(
        headline=f"objective over the optimum: ours {values['ours']:.1e}, published constants "
        f"{values['published']:.1e}; ours needs {values['products']:.2f} of the products",
        values=values,
        tables=(admm_table(jobs, found),),
        settings={"optimum": "projected Lanczos, tol 1e-6", "products": "n x k blocks, line-search trials counted"},
    )


def accept_optimum(e: Evidence) -> Verdict:
    """Accept when both come near enough to the optimum."""
    text = f"ours {e.values['ours']:.1e} (<= 1e-3), published constants {e.values['published']:.1e} (<= 1e-2)"
    good = e.values["ours"] <= 1e-3 and e.values["published"] <= 1e-2
    return Verdict.of(good, text)


def relaxed_task(n: int, share: float, seed: int) -> dict[str, Any]:
    """One level of relaxed fairness with its dual bound."""
    graph = modified_sbm(n, 2, 4, rng=seed)
    plain_ = fair_embedding(graph.affinity, None, 4, tol=1e-6, rng=seed)
    problem = prepare(read_affinity(graph.affinity), graph.groups, 4, "count", 0.0)
    top = problem.op.space.violation(plain_.embedding)
    delta = share * top
    found = quiet(lambda: fair_embedding(graph.affinity, graph.groups, 4, tolerance=delta, rng=seed))
    bound = found.lower_bound or -np.inf
    return {
        "delta": delta,
        "violation": found.fairness_violation,
        "objective": found.objective,
        "lower bound": bound,
        "gap": found.objective / bound - 1,
        "status": found.status,
    }


def relaxed(ctx: Context) -> Evidence:
    """Run five levels."""
    n = {Scale.SMOKE: 400, Scale.LAPTOP: 2000, Scale.FULL: 10_000}[ctx.scale]
    shares = (0.1, 0.3, 0.5, 0.7, 0.9)
    seed = draw_seeds(ctx, 1)[0]
    found = run_all(ctx, relaxed_task, [(n, s, seed) for s in shares], "relaxed fairness")
    x = [f["delta"] for f in found]
    values = {
        "gap": max(f["gap"] for f in found),
        "over": max(f["violation"] - f["delta"] for f in found),
    }
    return Evidence(
        headline=f"five levels, certified: objective at most {values['gap']:.1e} above the dual bound, "
        f"violation at most {max(values['over'], 0.0):.1e} over what was asked",
        values=values,
        tables=(Table("Each level", list(found[0]), [list(f.values()) for f in found]),),
        series=(
            Series(
                "Price of fairness",
                "allowed violation",
                "tr(H' L H)",
                {"objective": (x, [f["objective"] for f in found]), "bound": (x, [f["lower bound"] for f in found])},
            ),
        ),
        settings={"n": n, "groups": 2, "clusters": 4},
    )


def accept_relaxed(e: Evidence) -> Verdict:
    """Accept when every level is reached and certified."""
    text = f"gap {e.values['gap']:.1e} (<= 1e-3), over by {max(e.values['over'], 0.0):.1e} (<= 1e-6)"
    good = e.values["gap"] <= 1e-3 and e.values["over"] <= 1e-6
    return Verdict.of(good, text)

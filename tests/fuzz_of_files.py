"""What the packages read from files, each with the content of a good one, for `test_fuzz.py`."""

from __future__ import annotations

import dataclasses
import io
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzzing import Entry, graph, normal, positive


def reader(read: Callable[[Path], Any], name: str, content: bytes | str) -> Entry:
    """The door of a reader of files called `name`."""

    def through_disk(content: bytes) -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, name)
            path.write_bytes(content)
            return read(path)

    good = content.encode() if isinstance(content, str) else content
    return Entry(through_disk, lambda: {"content": good})


def bytes_of(write: Callable[[Any], object]) -> bytes:
    buffer = io.BytesIO()
    write(buffer)
    return buffer.getvalue()


def written(write: Callable[[Path], object], name: str) -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder, name))
        return Path(folder, name).read_bytes()


def of_lap_warmstart() -> dict[str, Entry]:
    import lap_warmstart as lap
    from lap_warmstart.cli import read_cost, read_result
    from lap_warmstart.predict import RowDualNet

    def solved(path: Path) -> Any:
        return lap.solve(read_cost(path)).objective

    def answered(path: Path) -> Any:
        return lap.certify(cost, read_result(path))

    cost = normal(3, 4)
    table = "\n".join(",".join(map(str, row)) for row in cost)
    market = "%%MatrixMarket matrix coordinate real general\n2 2 3\n1 1 0.5\n1 2 1.5\n2 1 2.5\n"
    return {
        "read_cost .npy": reader(solved, "cost.npy", bytes_of(lambda f: np.save(f, cost))),
        "read_cost .npz": reader(solved, "cost.npz", bytes_of(lambda f: np.savez(f, cost=cost))),
        "read_cost .csv": reader(solved, "cost.csv", table),
        "read_cost .mtx": reader(solved, "cost.mtx", market),
        "read_result": reader(answered, "r.json", lap.solve(cost).to_json()),
        "RowDualNet.load": reader(
            lambda path: RowDualNet.load(path).predict(cost), "net.npz", written(RowDualNet.load().save, "net.npz")
        ),
    }


def of_qubo_relax() -> dict[str, Entry]:
    import qubo_relax as qr
    from qubo_relax.io import read_constraints

    def pit(path: Path) -> Any:
        path.with_suffix(".prec").write_text("0 0\n1 1 0\n2 1 0\n")
        return qr.minimize(qr.read(path), **quick)

    def solved(kind: str) -> Callable[[Path], Any]:
        return lambda path: qr.minimize(qr.read(path, kind), **quick)

    quick = {"restarts": 2, "steps": 10, "rng": 0}
    qubo = qr.Qubo(normal(4), graph(4))
    explicit = "NAME: a\nTYPE: TSP\nDIMENSION: 3\nEDGE_WEIGHT_TYPE: EXPLICIT\nEDGE_WEIGHT_FORMAT: LOWER_DIAG_ROW\n"
    plane = "DIMENSION: 3\nEDGE_WEIGHT_TYPE: EUC_2D\nNODE_COORD_SECTION\n1 0 0\n2 3 4\n3 6 0\nEOF\n"
    lp = "min\nobj: 2 x + 3 y\nst\nc1: x + y >= 1\nbin\nx y\nend\n"
    return {
        "read .qubo": reader(solved("qubo"), "a.qubo", written(lambda p: qr.write(qubo, p), "a.qubo")),
        "read .mtx": reader(solved("qubo"), "a.mtx", written(lambda p: qr.write(qubo, p), "a.mtx")),
        "read .npz": reader(solved("qubo"), "a.npz", written(lambda p: qr.write(qubo, p), "a.npz")),
        "read maxcut": reader(solved("maxcut"), "a.txt", "4 4\n1 2 1\n2 3 -1\n3 4 2\n1 4 1\n"),
        "read tsp explicit": reader(solved("tsp"), "a.tsp", explicit + "EDGE_WEIGHT_SECTION\n0\n5 0\n7 6 0\nEOF\n"),
        "read tsp plane": reader(solved("tsp"), "a.tsp", plane),
        "read tsp globe": reader(solved("tsp"), "a.tsp", plane.replace("EUC_2D", "GEO")),
        "read pit": reader(pit, "a.upit", "NAME: a\nOBJECTIVE_FUNCTION:\n0 2.5\n1 -1\n2 4\n"),
        "read mkp": reader(solved("mkp"), "a.txt", "1\n3 2 0\n4 5 6\n1 2 3\n3 2 1\n4 4\n"),
        "read facility": reader(solved("facility"), "a.txt", "2 2\n5 7.5\n5 6.5\n3\n1.5 2\n2\n3.5 1\n"),
        "read lp": reader(solved("lp"), "a.lp", lp),
        "read_constraints": reader(
            lambda path: [c.key() for c in read_constraints(path)], "rows.csv", "x,y,sense,b\n1,2,<=,3\n0,-1.5,>=,-1\n"
        ),
    }


def of_riemann_fair() -> dict[str, Entry]:
    from riemann_fair import adjacency_from_edges
    from riemann_fair.files import read_edges, read_features, read_group_table, read_labels

    def edges(path: Path) -> Any:
        found = read_edges(path)
        return adjacency_from_edges(found.edges, found.weights)

    table = "id,sex,age\n1,f,30\n2,m,41\n3,,25\n"
    return {
        "read_edges": reader(edges, "edges.csv", "source,target,weight\n1,2,0.5\n2,3,1\n1,3,2\n"),
        "read_edges bare": reader(edges, "edges.txt", "# a graph\n1 2\n2 3\n"),
        "read_group_table": reader(lambda path: read_group_table(path, ["sex"]), "groups.csv", table),
        "read_features": reader(lambda path: read_features(path, ["sex"]), "features.csv", "a,b,sex\n1,2,f\n3,4.5,m\n"),
        "read_labels": reader(read_labels, "labels.csv", "id,cluster\n1,0\n2,1\n3,-1\n"),
    }


def of_oco_anytime() -> dict[str, Entry]:
    import oco_anytime as oco
    from oco_anytime import stream
    from oco_anytime.state import from_json

    def state(path: Path) -> Any:
        learner = oco.AnytimeCOCO(ball)
        learner.load_state_dict(from_json(path.read_text("utf-8", errors="replace")))
        return learner.predict(), learner.certificate()

    def served(path: Path) -> Any:
        said = io.StringIO()
        with path.open(encoding="utf-8", errors="replace") as source:
            stream.serve(oco.AnytimeCOCO(ball), source, said, None, 10)
        return [json.loads(line) for line in said.getvalue().splitlines()]

    ball = oco.domains.Ball(2)
    learner = oco.AnytimeCOCO(ball).update([1.0, 2.0], 0.5, [0.0, 1.0])
    run = oco.play_linear(oco.AnytimeCOCO(ball), normal(4, 2), normal(4, 2), positive(4))
    line = '{"cost_grad": [1.0, 0.5], "violation": 0.1, "violation_grad": [0.0, 1.0]}\n'
    return {
        "state": reader(state, "state.json", learner.to_json()),
        "stream": reader(served, "rounds.jsonl", 3 * line),
        "Run.from_npz": reader(oco.Run.from_npz, "run.npz", written(run.to_npz, "run.npz")),
    }


def of_icl_theory() -> dict[str, Entry]:
    import icl_theory as icl

    diagram = icl.phase_diagram([0.2, 0.6], [0.2], models=("none",), seeds=1, steps=1, n=8)
    entry = reader(icl.PhaseDiagram.load, "diagram.csv", written(diagram.save, "diagram.csv"))
    return {"PhaseDiagram.load": dataclasses.replace(entry, carries=True)}


def of_optim_bas() -> dict[str, Entry]:
    import optim_bas as bas
    import torch

    def resumed(path: Path) -> Any:
        try:
            state = torch.load(path, weights_only=True)
        except Exception:  # noqa: BLE001 - torch's own door
            return None
        optimizer = stepped()
        optimizer.load_state_dict(state)
        optimizer.step()
        return optimizer.param_groups[0]["params"][0].detach()

    def stepped() -> Any:
        weight = torch.nn.Parameter(torch.ones(2, 3))
        weight.grad = torch.ones(2, 3)
        optimizer = bas.BAS([weight])
        optimizer.step()
        return optimizer

    return {
        "BAS.load_state_dict": reader(resumed, "state.pt", bytes_of(lambda f: torch.save(stepped().state_dict(), f)))
    }


def of_optim_rmnp() -> dict[str, Entry]:
    import optim_rmnp as rmnp
    import torch
    from optim_rmnp.cli import _load, _momenta

    weight = torch.nn.Parameter(torch.ones(2, 3))
    weight.grad = torch.ones(2, 3)
    optimizer = rmnp.RMNP([weight])
    optimizer.step()
    return {
        "dominance of a checkpoint": reader(
            lambda path: list(_momenta(_load(path))),
            "state.pt",
            bytes_of(lambda f: torch.save(optimizer.state_dict(), f)),
        )
    }


def of_rl_mfpo() -> dict[str, Entry]:
    import rl_mfpo as rl

    agent = rl.MFPO("rl_mfpo/Bandit-v0", seed=0, config="small")
    observation = normal(1)

    def loaded(path: Path) -> Any:
        return rl.MFPO.load(path).predict(observation, deterministic=True)[0]

    return {"MFPO.load": reader(loaded, "agent.pt", written(agent.save, "agent.pt"))}

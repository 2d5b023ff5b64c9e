"""Several goals, equal networks: which stay alive, by the rule of the temperature, beside SAC.

    python packages/rl-mfpo/benchmarks/multi_goal.py --study goals         # 5 seeds, 4500 updates
    python packages/rl-mfpo/benchmarks/multi_goal.py --study temperature   # 3 seeds, 5000 updates

A cell (rule, layout, seed) takes one to two minutes of a core; what is done is kept in results/cells, to the last look.
`--report` alone writes the tables and plots of what is there.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from lemmata_core.files import atomic_write
from lemmata_core.progress import track
from rl_mfpo.goals import RULES, run_goals, run_goals_sac

HERE = Path(__file__).parent / "results"
STUDIES = {
    # rules, layout, seeds, updates, updates between two looks
    "goals": (
        [("floor 0.1", "wide"), ("SAC", "wide"), ("no floor", "wide"), ("floor 0.1", "narrow"), ("SAC", "narrow")],
        range(5), 4500, 750,
    ),
    "temperature": ([(rule, "wide") for rule in RULES], range(3), 5000, 250),
}  # fmt: skip


def cell(rule: str, layout: str, seed: int, updates: int, every: int, store: Path) -> dict[str, object]:
    start = time.process_time()
    if rule == "SAC":
        looks = [run_goals_sac(seed, layout, updates)]
    else:
        looks = run_goals(seed, layout, updates, every, store, **RULES[rule])
    return {"rule": rule, "layout": layout, "seed": seed, "looks": looks, "cpu_seconds": time.process_time() - start}


def write_table(study: str, cells: list[dict]) -> None:
    columns = ["rule", "layout", "seed", *cells[0]["looks"][0]]
    with atomic_write(HERE / f"{study}.csv") as file:
        out = csv.writer(file)
        out.writerow(columns)
        for c in cells:
            for look in c["looks"]:
                row = [c["rule"], c["layout"], c["seed"], *(look.get(name, "") for name in columns[3:])]
                out.writerow([f"{v:.4g}" if isinstance(v, float) else v for v in row])


def summary(cells: list[dict]) -> list[str]:
    """A row a rule and layout: least share and mean reward at the end, by seed; looks with a lost goal; entropies.

    A look counts from half of the updates on. Entropies: by how many nats the estimate exceeds the nearest neighbours'.
    """
    lines = [
        "| goals | rule | least share, by seed | mean reward, by seed | looks < .05 | ADN, at most | cov, at most |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for rule, layout in dict.fromkeys((c["rule"], c["layout"]) for c in cells):
        runs = [c["looks"] for c in cells if (c["rule"], c["layout"]) == (rule, layout)]
        shares = ", ".join(f"{looks[-1]['min_share']:.3f}" for looks in runs)
        rewards = ", ".join(f"{looks[-1]['reward']:.2f}" for looks in runs)
        late = [look["min_share"] < 0.05 for looks in runs for look in looks[(len(looks) - 1) // 2 :]]
        gaps = ["", ""]
        if rule != "SAC":
            gaps = [
                f"{max(k[f'entropy_{name}'] - k['entropy_nn'] for looks in runs for k in looks):.2f}"
                for name in ("adn", "cov")
            ]
        lines.append(
            f"| {layout} | {rule} | {shares} | {rewards} | {sum(late)} of {len(late)} | {gaps[0]} | {gaps[1]} |"
        )
    return lines


def plot(study: str, cells: list[dict]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    cases = sorted({(c["rule"], c["layout"]) for c in cells if c["rule"] != "SAC"})
    figure, axes = plt.subplots(
        2, len(cases), figsize=(3.2 * len(cases), 5.5), sharex=True, sharey="row", squeeze=False
    )
    for (top, bottom), case in zip(axes.T, cases):
        top.set_title(f"{case[0]}, {case[1]}", fontsize=9)
        for c in (c for c in cells if (c["rule"], c["layout"]) == case):
            x = [look["updates"] for look in c["looks"]]
            top.plot(x, [look["min_share"] for look in c["looks"]], color="C0", alpha=0.7)
            for name, colour in (("adn", "C1"), ("cov", "C2"), ("nn", "C3")):
                label = {"adn": "ADN", "cov": "change of variables", "nn": "nearest neighbours"}[name]
                values = [look[f"entropy_{name}"] for look in c["looks"]]
                bottom.plot(x, values, color=colour, alpha=0.7, label=label if c["seed"] == 0 else None)
        bottom.axhline(-1, color="grey", linestyle=":")
        bottom.set_xlabel("updates")
    axes[0, 0].set_ylabel("least share of a goal")
    axes[1, 0].set_ylabel("entropy, nat")
    axes[1, 0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(HERE / f"{study}.svg")
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", choices=sorted(STUDIES), default="goals")
    parser.add_argument("--seeds", type=int, nargs="*")
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no cell is begun")
    parser.add_argument("--report", action="store_true", help="only the tables and plots of what is there")
    args = parser.parse_args()
    torch.set_num_threads(1)
    cases, seeds, updates, every = STUDIES[args.study]
    store = HERE / "cells"
    store.mkdir(parents=True, exist_ok=True)
    todo = [(rule, layout, seed) for seed in (args.seeds or seeds) for rule, layout in cases]
    done, start = [], time.monotonic()
    for rule, layout, seed in track(todo, args.study, len(todo)):
        slug = f"{args.study}-{rule}-{layout}-{seed}".replace(" ", "_").replace(",", "")
        path = store / f"{slug}.json"
        if not path.exists():
            if args.report or time.monotonic() - start > args.budget:
                continue
            running = path.with_suffix(".pt")
            found = cell(rule, layout, seed, updates, every, running)
            with atomic_write(path) as file:
                json.dump(found, file)
            running.unlink(missing_ok=True)
            last = found["looks"][-1]
            print(slug, last["shares"], f"reward {last['reward']:.3f}, alpha {last['alpha']:.3f}", flush=True)
        done.append(json.loads(path.read_text()))
    if done:
        write_table(args.study, done)
        plot(args.study, done)
        print("\n".join(summary(done)))


if __name__ == "__main__":
    main()

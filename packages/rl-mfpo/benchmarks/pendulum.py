"""Learning curves with preset small beside SAC's, three seeds: interquartile mean and bootstrap interval.

    python packages/rl-mfpo/benchmarks/pendulum.py                              # Pendulum-v1, 8000 steps
    python packages/rl-mfpo/benchmarks/pendulum.py --env InvertedPendulum-v5    # needs the extra mujoco

A seed takes two to four minutes of a core; what is done is kept in results/cells, to the last evaluation.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import shutil
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from lemmata_core.files import atomic_write
from lemmata_core.progress import track
from rl_mfpo.returns import interquartile_mean, mfpo_curve, sac_curve

HERE = Path(__file__).parent / "results"
STEPS = {"Pendulum-v1": (8000, 1000), "InvertedPendulum-v5": (6000, 500)}
EPISODES = 10
# Ten episodes of Pendulum have a standard error of 28: the last policy is judged by a hundred others.
FINAL_EPISODES = 100


def table(env: str, cells: list[dict]) -> list[list]:
    rows = []
    for name, key in (("MFPO, candidates", "candidates"), ("MFPO, samples", "samples"), ("SAC", "candidates")):
        runs = [c for c in cells if c["learner"] == name.split(",")[0]]
        for i, step in enumerate(runs[0]["curve"]["steps"] if runs else []):
            scores = [c["curve"][key][i] for c in runs]
            rows.append([env, name, step, len(runs), float(np.mean(scores)), *interquartile_mean(np.array(scores))])
    return rows


def summary(env: str, cells: list[dict]) -> list[str]:
    """A row a learner: mean returns of the last policies over other episodes, by seed and over the seeds."""
    lines = [
        f"| {env} | steps | by seed | mean | first look | best look | core-seconds a seed |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, kind in (("MFPO, candidates", "candidates"), ("MFPO, samples", "samples"), ("SAC", "candidates")):
        runs = [c for c in cells if c["learner"] == name.split(",")[0]]
        if runs:
            last = [c["curve"][f"final_{kind}"] for c in runs]
            looks = np.mean([c["curve"][kind] for c in runs], axis=0)
            seconds = np.mean([c["cpu_seconds"] for c in runs])
            by_seed = ", ".join(f"{score:.0f}" for score in last)
            ends = f"{np.mean(last):.0f} | {looks[0]:.0f} | {looks.max():.0f} | {seconds:.0f}"
            lines.append(f"| {name} | {runs[0]['curve']['steps'][-1]} | {by_seed} | {ends} |")
    return lines


def plot(env: str, rows: list[list]) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axis = plt.subplots(figsize=(5.5, 3.6))
    for name in dict.fromkeys(row[1] for row in rows):
        mine = [row for row in rows if row[1] == name]
        x = [row[2] for row in mine]
        axis.plot(x, [row[5] for row in mine], label=name)
        axis.fill_between(x, [row[6] for row in mine], [row[7] for row in mine], alpha=0.2)
    axis.set_xlabel("steps")
    axis.set_ylabel(f"return, {env}")
    axis.legend()
    figure.tight_layout()
    figure.savefig(HERE / f"returns-{env}.svg")
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", choices=sorted(STEPS), default="Pendulum-v1")
    parser.add_argument("--seeds", type=int, nargs="*", default=[0, 1, 2])
    parser.add_argument("--budget", type=float, default=float("inf"), help="seconds after which no seed is begun")
    args = parser.parse_args()
    torch.set_num_threads(1)
    steps, every = STEPS[args.env]
    store = HERE / "cells"
    store.mkdir(parents=True, exist_ok=True)
    start, done = time.monotonic(), []
    todo = [(learner, seed) for seed in args.seeds for learner in ("MFPO", "SAC")]
    for learner, seed in track(todo, args.env, len(todo)):
        path = store / f"{args.env}-{learner}-{seed}.json"
        if not path.exists():
            if time.monotonic() - start > args.budget:
                continue
            cpu = time.process_time()
            running = path.with_suffix("")
            if learner == "MFPO":
                curve = mfpo_curve(args.env, seed, steps, every, EPISODES, running, FINAL_EPISODES)
            else:
                curve = sac_curve(args.env, seed, steps, every, EPISODES, FINAL_EPISODES)
            with atomic_write(path) as file:
                json.dump(
                    {"learner": learner, "seed": seed, "curve": curve, "cpu_seconds": time.process_time() - cpu}, file
                )
            shutil.rmtree(running, ignore_errors=True)
            print(
                learner,
                seed,
                [round(v, 1) for v in curve["candidates"]],
                f"{curve['final_candidates']:.1f}",
                flush=True,
            )
        done.append(json.loads(path.read_text()))
    if done:
        rows = table(args.env, done)
        with atomic_write(HERE / f"returns-{args.env}.csv") as file:
            out = csv.writer(file)
            out.writerow(["env", "learner", "steps", "seeds", "mean", "iqm", "low", "high"])
            out.writerows([[f"{v:.5g}" if isinstance(v, float) else v for v in row] for row in rows])
        plot(args.env, rows)
        print("\n".join(summary(args.env, done)))


if __name__ == "__main__":
    main()

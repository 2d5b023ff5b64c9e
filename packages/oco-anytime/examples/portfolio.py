"""Rebalance 20 US stocks every day for eight years under a volatility limit, without tuning anything.

Real data: daily prices 1990 to 2022, shipped with skfolio. Each day the learner chooses the weights; then it sees the
day's return and the mix's volatility over the last 60 days. It is compared with a fixed Lagrange multiplier, for
several values that one would have to try, and with the best fixed mix in hindsight.

    python packages/oco-anytime/examples/portfolio.py --out portfolio.png
"""

import argparse
from pathlib import Path

import cvxpy as cp
import numpy as np
from oco_anytime import AnytimeCOCO, play
from oco_anytime.baselines import ProjectedOGD
from oco_anytime.environments import PortfolioRisk
from oco_anytime.plots import ccv_and_regret


class FixedMultiplier(ProjectedOGD):
    """What is done today: gradient steps on cost + multiplier * violation."""

    def __init__(self, domain, multiplier):
        super().__init__(domain)
        self.multiplier = multiplier

    def update(self, cost_grad, violation=0.0, violation_grad=None):
        """Fold the violation into the cost with the fixed weight."""
        if violation > 0.0:
            cost_grad = cost_grad + self.multiplier * violation_grad
        return super().update(cost_grad)


def best_fixed_mix(env, rounds):
    """The mix of least total cost that keeps the limit on every day, by adding days that break it."""
    x = cp.Variable(env.domain.dim)
    gains = env.returns[env.window :]
    cost = -100.0 * cp.sum(cp.log(1.0 + gains @ x))
    limits, found = env.domain.cvxpy(x), None
    days: set[int] = set()
    while True:
        problem = cp.Problem(cp.Minimize(cost), limits)
        problem.solve(solver=cp.CLARABEL)
        if x.value is None:
            return None
        found = env.domain.project(x.value)
        over = np.array([env.round(t, found).violation for t in range(rounds)])
        new = [int(t) for t in np.argsort(-over)[:5] if over[t] > 1e-6 and int(t) not in days]
        if not new:
            return found
        for t in new:
            past = env.returns[t + 1 : t + 1 + env.window]
            past = past - past.mean(axis=0)
            limits.append(100.0 * cp.norm(past @ x) / np.sqrt(env.window) <= env.limit)
        days.update(new)


def main():
    """Run, print a table, write the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("portfolio.png"))
    parser.add_argument("--days", type=int, default=2000)
    parser.add_argument("--limit", type=float, default=1.6, help="volatility in per cent a day")
    options = parser.parse_args()

    env = PortfolioRisk("skfolio", options.days, limit=options.limit)
    learners = {
        "oco-anytime": AnytimeCOCO(env.domain, tangent=True),
        **{f"multiplier {m:g}": FixedMultiplier(env.domain, m) for m in (0.1, 1.0, 10.0)},
        "cost only": ProjectedOGD(env.domain, tangent=True),
    }
    runs = {name: play(learner, env, options.days) for name, learner in learners.items()}
    best = best_fixed_mix(env, options.days)
    paid = None if best is None else np.array([env.round(t, best).cost for t in range(options.days)])

    print(f"{env.days[0]} to {env.days[-1]}, {len(env.names)} stocks, limit {env.limit:g} % a day")
    print(f"{'':16} {'growth':>8} {'days over':>10} {'violation':>10} {'worst day':>10} {'regret':>8}")
    for name, run in runs.items():
        growth = np.exp(-run.cost.sum() / 100.0)
        regret = "" if paid is None else f"{run.cost.sum() - paid.sum():8.1f}"
        over = int((run.violation > 0).sum())
        print(f"{name:16} {growth:7.2f}x {over:10} {run.ccv[-1]:10.2f} {run.violation.max():10.2f} {regret:>8}")
    if paid is not None:
        print(f"{'best fixed mix':16} {np.exp(-paid.sum() / 100.0):7.2f}x {0:10} {0.0:10.2f} {0.0:10.2f} {0.0:8.1f}")
    print(f"certified: regret at most {runs['oco-anytime'].certificate[-1]:.0f} against every such mix")
    figure = ccv_and_regret(runs, paid, log=False, title=f"volatility above {env.limit:g} % a day, summed")
    figure.savefig(options.out, dpi=110)
    print(f"picture: {options.out}")


if __name__ == "__main__":
    main()

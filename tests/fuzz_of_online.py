"""Public doors of online learning under constraints, each with a good call, for `test_fuzz.py`.

Long functions on purpose: each is a plain list of one package's doors, with no step to name inside.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.fuzzing import Entry, Size, normal, positive


def of_oco_anytime() -> dict[str, Entry]:
    import oco_anytime as oco
    from oco_anytime import domains as d
    from oco_anytime.baselines.plain import QueueLearner
    from oco_anytime.environments import streams

    def projected(domain: Callable[..., Any]) -> Callable[..., Any]:
        return lambda y, **options: domain(**options).project(y)

    def played(cost_grad: Any, violation: Any, violation_grad: Any, kind: Any = oco.AnytimeCOCO) -> Any:
        learner = kind(d.Ball(3))
        for _ in range(2):
            learner.predict()
            learner.update(cost_grad, violation, violation_grad)
        found = learner.certificate()
        if isinstance(learner, QueueLearner):
            # none of these has a bound, which is documented as NaN
            found = dataclasses.replace(found, regret_upper=0.0)
        return learner.predict(), found

    def played_once(violation: Any, violation_grad: Any, aggregate: Any) -> Any:
        learner = oco.AnytimeCOCO(d.Ball(3), aggregate=aggregate)
        learner.update(normal(3), violation, violation_grad)
        return learner.predict(), learner.certificate()

    def round_() -> dict[str, Any]:
        return {"cost_grad": normal(3), "violation": 0.3, "violation_grad": normal(3)}

    def best(found: oco.Hindsight) -> Any:
        """NaN stands, in words, for the decision where there is none."""
        return found.status if found.status == "infeasible" else found

    def plays(kind: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        return lambda **a: played(**a, kind=lambda domain: kind(domain, **options))

    def world(kind: Callable[..., Any], rounds: int = 3) -> Callable[..., Any]:
        return lambda **options: (
            oco.play(oco.AnytimeCOCO(made.domain), made, rounds) if (made := kind(**options)) else 0
        )

    def hinted(make: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **options: oco.play(oco.OptimisticCOCO(d.Ball(3), hints=make(**options)), stream, 4)

    def rounds(learner: Callable[..., Any]) -> Callable[..., Any]:
        return lambda **options: oco.play(learner(d.Ball(3), **options), stream, 4).x

    ball = d.Ball(3)
    stream = oco.environments.LinearEnvironment(d.Ball(3), normal(4, 3), normal(4, 3), positive(4))
    run = oco.play(oco.AnytimeCOCO(d.Ball(3)), stream, 4)
    A = np.vstack([np.eye(3), np.ones((1, 3))])
    arcs = [("s", "a"), ("s", "b"), ("a", "t"), ("b", "t"), ("a", "b")]
    return {
        "Ball": Entry(projected(d.Ball), lambda: {"y": normal(3), "d": Size(3), "radius": 1.0, "center": normal(3)}),
        "Box": Entry(
            projected(d.Box), lambda: {"y": normal(3), "d": Size(3), "lower": -positive(3), "upper": positive(3)}
        ),
        "Simplex": Entry(projected(d.Simplex), lambda: {"y": normal(3), "d": Size(3), "total": 1.0}),
        "CappedSimplex": Entry(
            projected(d.CappedSimplex), lambda: {"y": normal(3), "d": Size(3), "total": 1.0, "cap": 0.5}
        ),
        "L1Ball": Entry(projected(d.L1Ball), lambda: {"y": normal(3), "d": Size(3), "radius": 1.0}),
        "BudgetSet": Entry(projected(d.BudgetSet), lambda: {"y": normal(3), "weights": positive(3), "budget": 1.0}),
        "Polytope": Entry(
            projected(d.Polytope),
            lambda: {"y": normal(3), "A_ub": A.copy(), "b_ub": np.ones(4), "lower": -np.ones(3)},
            refuses=(d.ProjectionFailed,),
        ),
        "FlowPolytope": Entry(
            lambda y, capacity, demand: d.FlowPolytope(arcs, "s", "t", demand, capacity).project(y),
            lambda: {"y": normal(5), "capacity": np.ones(5), "demand": 1.0},
            refuses=(d.ProjectionFailed,),
        ),
        "AnytimeCOCO": Entry(played, round_),
        "DynamicCOCO": Entry(lambda **a: played(**a, kind=oco.DynamicCOCO), round_),
        "OptimisticCOCO": Entry(lambda **a: played(**a, kind=oco.OptimisticCOCO), round_),
        "AnytimeCOCO options": Entry(
            lambda **options: oco.AnytimeCOCO(d.Ball(3), **options).update(normal(3), 0.1, normal(3)).predict(),
            lambda: {
                "lipschitz": 2.0,
                "regret_budget": 2.0,
                "pace": 2.0,
                "eps": 0.3,
                "x0": np.zeros(3),
                "penalty": "budgeted",
            },
        ),
        "OptimisticCOCO hint": Entry(
            lambda cost_grad, a, b: oco.OptimisticCOCO(d.Ball(3)).predict(oco.Hint(cost_grad, a, b)),
            lambda: {"cost_grad": normal(3), "a": normal(3), "b": 0.5},
        ),
        "play_linear": Entry(
            lambda costs, A, b: oco.play_linear(oco.AnytimeCOCO(d.Ball(3)), costs, A, b),
            lambda: {"costs": normal(5, 3), "A": normal(5, 3), "b": positive(5)},
        ),
        "best_fixed": Entry(
            lambda cost_sum, A, b: best(oco.best_fixed(d.Simplex(3), cost_sum, A, b)),
            lambda: {"cost_sum": normal(3), "A": normal(4, 3), "b": positive(4)},
        ),
        "HindsightTracker": Entry(
            lambda c, a, b: best(oco.HindsightTracker(d.Simplex(3)).push(c, a, b).best()),
            lambda: {"c": normal(3), "a": normal(3), "b": 1.0},
        ),
        "HindsightTracker regret": Entry(
            lambda c, checkpoints, x: (
                oco.HindsightTracker(d.Simplex(3), checkpoints).push(c, x=x).push(c, x=x).regret()
            ),
            lambda: {"c": normal(3), "checkpoints": [1], "x": np.ones(3) / 3},
        ),
        "OptimisticCOCO options": Entry(
            rounds(oco.OptimisticCOCO),
            lambda: {
                "lipschitz": 2.0,
                "regret_budget": 1.0,
                "eps": 0.3,
                "tangent": True,
                "x0": np.zeros(3),
                "diameter": 2.0,
            },
        ),
        "DynamicCOCO options": Entry(
            rounds(oco.DynamicCOCO), lambda: {"n_experts": Size(3), "path": None, "lipschitz": 2.0, "aggregate": "max"}
        ),
        "AnytimeCOCO rows": Entry(
            lambda violation, violation_grad, aggregate: played_once(violation, violation_grad, aggregate),
            lambda: {"violation": positive(2), "violation_grad": normal(2, 3), "aggregate": "each"},
        ),
        "play": Entry(
            lambda rounds, record: oco.play(oco.AnytimeCOCO(d.Ball(3)), stream, rounds, record=record),
            lambda: {"rounds": Size(3), "record": "all"},
        ),
        "play_many": Entry(
            lambda seeds, rounds: oco.play_many(
                lambda: oco.AnytimeCOCO(d.Ball(3)), lambda _seed: stream, seeds, rounds
            ),
            lambda: {"seeds": Size(2), "rounds": Size(3)},
        ),
        "Run.regret_at": Entry(run.regret_at, lambda: {"ts": np.array([2, 4]), "hindsight": np.array([0.5, 0.7])}),
        "Hint": Entry(
            lambda **hint: oco.OptimisticCOCO(d.Ball(3)).predict(oco.Hint(**hint)),
            lambda: {"cost_grad": normal(3), "a": normal(3), "b": 0.5},
        ),
        "Last": Entry(hinted(lambda times: oco.hints.Last() if times else None), lambda: {"times": True}),
        "Mean": Entry(hinted(oco.hints.Mean), lambda: {"window": Size(2)}),
        "Periodic": Entry(hinted(oco.hints.Periodic), lambda: {"period": Size(2)}),
        "Callable": Entry(
            hinted(lambda grad: oco.hints.Callable(lambda _t: oco.Hint(grad))), lambda: {"grad": normal(3)}
        ),
        "ClippedPrimalDual": Entry(plays(oco.baselines.ClippedPrimalDual), round_),
        "ClippedPrimalDual options": Entry(
            rounds(oco.baselines.ClippedPrimalDual), lambda: {"c": 0.5, "x0": np.zeros(3)}
        ),
        "DoublingCOCO": Entry(plays(oco.baselines.DoublingCOCO), round_),
        "DriftPlusPenalty": Entry(plays(oco.baselines.DriftPlusPenalty), round_),
        "DriftPlusPenalty options": Entry(
            rounds(oco.baselines.DriftPlusPenalty), lambda: {"horizon": Size(9), "x0": np.zeros(3)}
        ),
        "FixedHorizonCOCO": Entry(plays(oco.baselines.FixedHorizonCOCO, horizon=9), round_),
        "FixedHorizonCOCO options": Entry(
            rounds(oco.baselines.FixedHorizonCOCO),
            lambda: {"horizon": Size(9), "on_overrun": "raise"},
            refuses=(oco.baselines.HorizonExceeded,),
        ),
        "LatestConstraintProjection": Entry(plays(oco.baselines.LatestConstraintProjection), round_),
        "ProjectedOGD": Entry(plays(oco.baselines.ProjectedOGD), round_),
        "RectifiedCOCO": Entry(plays(oco.baselines.RectifiedCOCO), round_),
        "Product": Entry(projected(lambda: d.Product(d.Ball(1), d.Simplex(2))), lambda: {"y": normal(3)}),
        "Intersection": Entry(
            projected(lambda: d.Intersection(d.Ball(3), d.Box(3))),
            lambda: {"y": normal(3)},
            refuses=(d.ProjectionFailed,),
        ),
        "Custom": Entry(
            projected(lambda **a: d.Custom(lambda y: np.clip(y, 0, 1), **a)),
            lambda: {"y": normal(3), "diameter": 2.0, "dim": Size(3)},
        ),
        "Domain methods": Entry(
            lambda y, c, g: (ball.support(c), ball.tangent(g), ball.contains(y), ball.project_batch(np.array([y, y]))),
            lambda: {"y": normal(3), "c": normal(3), "g": normal(3)},
            refuses=(ValueError,),
        ),
        "AdPacing": Entry(
            world(oco.environments.AdPacing),
            lambda: {"rounds": Size(4), "d": Size(3), "allowance": 0.3, "rng": 0},
        ),
        "FairRegression": Entry(
            world(oco.environments.FairRegression),
            lambda: {"rounds": Size(4), "tol": 0.05, "window": Size(3), "radius": 2.0, "rng": 0},
        ),
        "LinearEnvironment": Entry(
            world(lambda **a: oco.environments.LinearEnvironment(d.Ball(3), **a)),
            lambda: {"costs": normal(4, 3), "A": normal(4, 3), "b": positive(4)},
        ),
        "OnlineShortestPath": Entry(
            world(oco.environments.OnlineShortestPath), lambda: {"network": "abilene", "rounds": Size(4), "rng": 0}
        ),
        "ResourceAllocation": Entry(
            world(oco.environments.ResourceAllocation),
            lambda: {"rounds": Size(4), "d": Size(3), "m": Size(2), "rng": 0},
        ),
        "SafeControl": Entry(
            world(oco.environments.SafeControl),
            lambda: {"rounds": Size(4), "memory": Size(2), "rho": 0.8, "bound": 1.2, "effort": 0.5, "rng": 0},
        ),
        "Stream": Entry(
            world(oco.environments.Stream),
            lambda: {"name": streams.STREAMS[0], "rounds": Size(4), "d": Size(2), "rng": 0},
        ),
        "Outcome": Entry(
            lambda **a: oco.AnytimeCOCO(d.Ball(3)).update(*oco.environments.Outcome(**a).feedback(None)).predict(),
            lambda: {"cost": 1.0, **round_()},
        ),
    }

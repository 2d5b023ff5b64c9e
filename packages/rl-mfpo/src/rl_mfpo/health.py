"""What tells that a run should not be trusted as it is: one warning a finding."""

from __future__ import annotations

import warnings
from collections.abc import Mapping

from torch import Tensor

from rl_mfpo.errors import HealthWarning

LOW_ESS, LOW_ESS_UPDATES = 2.0, 500
ENTROPY_GAP, GAP_LOOKS = 0.5, 3
END_MASS, USED_RANGE = 0.01, 0.02


class Health:
    """Counters of bad signs, and which warnings were given."""

    def __init__(self) -> None:
        self._counts: dict[str, float] = {}

    def judge_support(self, target: Tensor, atoms: Tensor, end_mass: float) -> None:
        """Warn where the critics' targets (B, n) leave their support, or hardly use it."""
        means = target @ atoms
        low, high = float(atoms[0]), float(atoms[-1])
        used, ends = float(means.max() - means.min()) / (high - low), f"[{low:g}, {high:g}]"
        if end_mass > END_MASS:
            share = f"{end_mass:.1%} of the critics' mass sits on the ends of their support {ends}"
            self._warn("end_atoms", f"{share}: widen v_min, v_max")
        elif used < USED_RANGE:
            text = f"the values use {used:.1%} of the critics' support {ends}"
            self._warn("narrow", f'{text}: narrow v_min, v_max, or use v_range="from_rewards"')

    def judge_entropies(self, network: float, exact: float) -> None:
        """Warn where the network's entropy, which the temperature listens to, is too high several looks in a row.

        One look is no proof: the change of variables of few samples scatters.
        """
        if self._count("gap", bad=network - exact > ENTROPY_GAP) >= GAP_LOOKS:
            self._warn(
                "gauge",
                f"the average divergence network's entropy exceeds the change of variables by more than {ENTROPY_GAP} "
                "nat: the temperature acts on a wrong reading; set min_temperature or entropy_estimator",
            )

    def judge_ess(self, metrics: Mapping[str, float], updates: int) -> None:
        """Warn where both effective sample sizes are low for long; `updates` passed since the last look."""
        low = max(metrics["ess_policy"], metrics["ess_gaussian"]) < LOW_ESS
        if self._count("low_ess", bad=low) * updates >= LOW_ESS_UPDATES:
            self._warn(
                "ess",
                f"the effective sample size is below {LOW_ESS:g} in every sampler for {LOW_ESS_UPDATES} updates: "
                "single actions decide the velocity; raise min_temperature, or set min_ess",
            )

    def _count(self, key: str, *, bad: bool) -> float:
        self._counts[key] = self._counts.get(key, 0.0) + 1 if bad else 0.0
        return self._counts[key]

    def _warn(self, key: str, text: str) -> None:
        if not self._counts.get(f"warned_{key}"):
            self._counts[f"warned_{key}"] = 1.0
            warnings.warn(text, HealthWarning, stacklevel=3)

    def state(self) -> dict[str, float]:
        """What a continuation needs."""
        return dict(self._counts)

    def load(self, state: Mapping[str, float]) -> None:
        """Continue from a `state`."""
        self._counts = dict(state)

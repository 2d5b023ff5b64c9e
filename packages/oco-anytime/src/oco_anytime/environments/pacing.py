"""Spending against an allowance: bids of an advertiser, and shares of several resources."""

from __future__ import annotations

from typing import Any

import numpy as np
from lemmata_core.check import in_range, positive_int
from lemmata_core.rng import generator

from oco_anytime.domains import Box, CappedSimplex
from oco_anytime.environments.base import LinearEnvironment


class AdPacing(LinearEnvironment):
    """Take part in auctions with intensity x in [0, 1] per campaign.

    Cost: minus the value won, ``-value_t . x``. Constraint: ``spend_t . x`` is at most the round's allowance. Traffic
    follows a daily wave of 288 rounds; campaigns that win more also cost more. Synthetic.

    Parameters
    ----------
    rounds : int
    d : int
        Campaigns.
    allowance : float
        Mean spend allowed a round, as a share of what full intensity would spend.
    rng : int, SeedSequence or Generator
    """

    def __init__(self, rounds: int = 5000, d: int = 10, allowance: float = 0.3, rng: Any = 0) -> None:
        rounds, d = positive_int(rounds, "rounds", minimum=0), positive_int(d, "d")
        share = in_range(allowance, "allowance", 0.0, 1.0, low_open=True)
        rng = generator(rng)
        day = 1.0 + 0.5 * np.sin(2 * np.pi * np.arange(rounds)[:, None] / 288)
        price = rng.lognormal(0.0, 0.3, d)
        quality = price * rng.lognormal(0.0, 0.2, d)
        value = day * quality * rng.lognormal(0.0, 0.3, (rounds, d))
        spend = day * price * rng.lognormal(0.0, 0.3, (rounds, d))
        # the allowance follows the wave: 0 is feasible, full intensity is not
        super().__init__(Box(d), -value, spend, share * day[:, 0] * price.sum())
        self.comparator = np.zeros(d)


class ResourceAllocation(LinearEnvironment):
    """Spread one unit of work over d servers, none above its cap, with m resources that may run short.

    Cost: expected latency. Constraints: ``usage_t x <= capacity`` for every resource. Synthetic.

    Parameters
    ----------
    rounds : int
    d : int
        Servers.
    m : int
        Resources.
    rng : int, SeedSequence or Generator
    """

    def __init__(self, rounds: int = 5000, d: int = 8, m: int = 3, rng: Any = 0) -> None:
        rounds, d, m = positive_int(rounds, "rounds", minimum=0), positive_int(d, "d", minimum=2), positive_int(m, "m")
        rng = generator(rng)
        domain = CappedSimplex(d, 1.0, min(1.0, 3.0 / d))
        safe = domain.project(1.0 / d + 0.2 * rng.standard_normal(d) / d)
        usage = rng.lognormal(0.0, 0.3, (rounds, m, d)) * rng.lognormal(0.0, 0.4, (m, d))
        # latency falls where usage rises, so that cost pulls against the constraints
        latency = 1.0 / usage.mean(axis=1) + 0.1 * rng.random((rounds, d))
        slack = np.where(rng.random((rounds, m)) < 0.5, 0.0, 0.2 * rng.random((rounds, m)))
        super().__init__(domain, latency, usage, usage @ safe + slack)
        self.comparator = safe

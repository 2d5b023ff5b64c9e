"""Rebalancing a portfolio under a risk limit, on real or synthetic daily returns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import in_range, one_of, positive_int
from lemmata_core.rng import generator

from oco_anytime.domains import Simplex
from oco_anytime.environments.base import Environment, Outcome, in_stream

if TYPE_CHECKING:
    from oco_anytime.domains.base import Vector


class PortfolioRisk(Environment):
    """Choose the weights of d assets each day.

    Cost: minus the log return of the mix. Constraint: its risk over the last `window` days, seen from the day after, or
    the turnover of keeping it, is at most `limit`. All are in per cent, so that gradients are of order 1.

    Parameters
    ----------
    source : {"skfolio", "synthetic"}
        ``"skfolio"``: daily prices of 20 US stocks, 1990 to 2022, shipped in the skfolio package (extra ``data``; no
        network). ``"synthetic"``: a factor model.
    rounds : int, optional
        Days; by default all there are (2000 for synthetic).
    risk : {"volatility", "cvar", "turnover"}
        Standard deviation of the window's returns; their mean loss in the worst 5 %; or a convex upper bound of what
        must be traded to come back to the weights x after the day's moves r, sum x_i |r_i - m| + |r.x - m| with m the
        mean of r (the exact sum x_i |r_i - r.x| is not convex).
    limit : float
        In per cent a day.
    window : int
        Days, at least 20.
    rng : int, SeedSequence or Generator
        Of the synthetic source.

    Attributes
    ----------
    returns : numpy.ndarray, shape (window + T, d)
        Daily returns; the first `window` rows precede the first round.
    names : list of str
    days : list of str or None
        Dates of the rounds.
    """

    def __init__(
        self,
        source: str = "skfolio",
        rounds: int | None = None,
        *,
        risk: str = "volatility",
        limit: float = 1.0,
        window: int = 60,
        rng: Any = 0,
    ) -> None:
        one_of(source, "source", ("skfolio", "synthetic"))
        self.risk = one_of(risk, "risk", ("volatility", "cvar", "turnover"))
        self.limit = in_range(limit, "limit", 0.0, low_open=True)
        self.window = positive_int(window, "window", minimum=20)
        if rounds is not None:
            rounds = positive_int(rounds, "rounds", minimum=0)
        if source == "skfolio":
            returns, self.names, days = _skfolio()
        else:
            returns, self.names, days = _synthetic((rounds or 2000) + self.window, generator(rng)), [], None
        most = returns.shape[0] - self.window
        self.rounds = most if rounds is None else rounds
        if self.rounds > most:
            raise InvalidInput.argument("rounds", expected=f"at most {most} days", got=rounds)
        self.returns = returns[: self.window + self.rounds]
        self.days = None if days is None else days[self.window : self.window + self.rounds]
        self.domain = Simplex(returns.shape[1])

    def round(self, t: int, x: Vector) -> Outcome:
        """Day t (from 0) with the weights x."""
        day = self.returns[in_stream(t, self.rounds) + self.window]
        past = self.returns[t + 1 : t + 1 + self.window]
        growth = 1.0 + float(day @ x)
        value, grad = self._turnover(day, x) if self.risk == "turnover" else self._risk(past, x)
        return Outcome(-100.0 * float(np.log(growth)), -100.0 * day / growth, value - self.limit, grad)

    def _turnover(self, day: Vector, x: Vector) -> tuple[float, Vector]:
        mean = float(day.mean())
        apart, off = np.abs(day - mean), float(day @ x) - mean
        return 100.0 * (float(apart @ x) + abs(off)), 100.0 * (apart + np.sign(off) * day)

    def _risk(self, past: Vector, x: Vector) -> tuple[float, Vector]:
        mix = past @ x
        if self.risk == "volatility":
            off = past - past.mean(axis=0)
            sigma = float(np.sqrt(np.mean((off @ x) ** 2)))
            return 100.0 * sigma, 100.0 * (off.T @ (off @ x)) / (past.shape[0] * max(sigma, 1e-12))
        k = max(1, round(0.05 * past.shape[0]))
        worst = np.argpartition(mix, k - 1)[:k]
        return -100.0 * float(mix[worst].mean()), -100.0 * past[worst].mean(axis=0)


def _skfolio() -> tuple[Vector, list[str], list[str]]:
    try:
        from skfolio.datasets import load_sp500_dataset
    except ImportError:
        raise InvalidInput.argument(
            "source", expected="'synthetic', or skfolio installed (pip install oco-anytime[data])", got="skfolio"
        ) from None
    prices = load_sp500_dataset()
    values = prices.to_numpy(dtype=float)
    days = [str(d)[:10] for d in prices.index[1:]]
    return values[1:] / values[:-1] - 1.0, [str(c) for c in prices.columns], days


def _synthetic(days: int, rng: np.random.Generator, d: int = 20) -> Vector:
    """Two factors, the market's volatility in two regimes of some 250 days."""
    calm = (rng.random(days) < 1.0 / 250).cumsum() % 2 == 0
    market = np.where(calm, 0.008, 0.02) * rng.standard_normal(days) + 0.0004
    style = 0.005 * rng.standard_normal(days)
    beta = np.linspace(0.3, 1.7, d)
    own = 0.01 * rng.standard_normal((days, d)) * np.linspace(0.6, 1.4, d)
    returns: Vector = np.clip(np.outer(market, beta) + np.outer(style, np.cos(np.arange(d))) + own, -0.5, 0.5)
    return returns

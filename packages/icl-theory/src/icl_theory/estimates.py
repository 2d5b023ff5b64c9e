"""Means with standard errors, from streams and from parts of one."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

Z95 = 1.959963984540054


@dataclass(frozen=True)
class Estimate:
    """A Monte Carlo mean with its 95 % interval.

    Attributes
    ----------
    value, stderr : float
    low, high : float
        value -+ 1.96 stderr; of an error rate, Wilson's interval.
    n : int
        Independent draws (prompts).
    n_nonfinite : int
        Predictions that were NaN or infinite. An error rate counts them as wrong.
    """

    value: float
    stderr: float
    low: float
    high: float
    n: int
    n_nonfinite: int = 0

    @classmethod
    def of(cls, value: float, stderr: float, n: int, n_nonfinite: int = 0) -> Estimate:
        """The estimate with its normal interval."""
        return cls(value, stderr, value - Z95 * stderr, value + Z95 * stderr, n, n_nonfinite)

    @classmethod
    def share(cls, count: int, n: int, n_nonfinite: int = 0) -> Estimate:
        """The share `count` of `n`, with Wilson's interval, which is right at 0 and 1 too."""
        p = count / n
        scale = 1 + Z95**2 / n
        centre = (p + Z95**2 / (2 * n)) / scale
        half = Z95 * math.sqrt(p * (1 - p) / n + Z95**2 / (4 * n * n)) / scale
        return cls(p, math.sqrt(p * (1 - p) / n), max(0.0, centre - half), min(1.0, centre + half), n, n_nonfinite)

    @property
    def z(self) -> float:
        """The value in standard errors; 0 where both vanish."""
        return (
            self.value / self.stderr
            if self.stderr
            else (0.0 if self.value == 0 else math.copysign(math.inf, self.value))
        )


@dataclass
class Moments:
    """Running mean and sum of squared deviations; parts merge by Chan's formula in any grouping."""

    n: int = 0
    mean: Any = field(default_factory=lambda: 0.0)
    m2: Any = field(default_factory=lambda: 0.0)

    def add(self, sample: NDArray[Any]) -> None:
        """Take in draws along axis 0."""
        if sample.shape[0]:
            centre = sample.mean(0)
            self.merge(Moments(sample.shape[0], centre, np.square(sample - centre).sum(0)))

    def merge(self, other: Moments) -> None:
        """Take in another stream."""
        total = self.n + other.n
        if not other.n:
            return
        gap = other.mean - self.mean
        self.mean = self.mean + gap * (other.n / total)
        self.m2 = self.m2 + other.m2 + gap * gap * (self.n * other.n / total)
        self.n = total

    @property
    def stderr(self) -> Any:
        """Standard error of the mean; NaN from a single draw."""
        if self.n < 2:
            return np.full(np.shape(self.mean), math.nan)
        return np.sqrt(self.m2 / (self.n - 1) / self.n)

    def estimate(self, index: Any = ()) -> Estimate:
        """The estimate of one component."""
        return Estimate.of(float(np.asarray(self.mean)[index]), float(np.asarray(self.stderr)[index]), self.n)

"""Prompts with outliers: what they look like, and where they come from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import array, in_range, one_of, positive_int
from lemmata_core.rng import generator

from icl_theory.patterns import PatternBank, checked_bank, checked_tasks

if TYPE_CHECKING:
    import torch
    from lemmata_core.rng import RNGLike
    from numpy.typing import ArrayLike, NDArray

LABELS = ("flip", "target", "random")
PLACEMENTS = ("random", "farthest", "closest")
COUNTS = ("bernoulli", "exact")
# The test outliers of the paper's experiments as mixtures of the training outliers; row sums .9, .5, .3.
TEST_MIX = ((0.7, 0.6, -0.4), (0.4, 0.7, -0.6), (-0.7, 0.5, 0.5))


@dataclass(frozen=True)
class PromptSpec:
    """How prompts are drawn.

    Parameters
    ----------
    length : int
        Examples before the query, >= 2: a context needs room for both labels.
    outlier_fraction : float
        In [0, 1): chance (or share) of examples that carry an outlier; p_a in training, alpha at test. At 1 no
        example tells the task, and no theorem applies.
    kappa_max : float
        The irrelevant part is kappa nu with kappa uniform on [-kappa_max, kappa_max].
    kappa_outlier : float
        Magnitude of the outlier, kappa_a > 0.
    labels : {"flip", "target", "random"}
        Labels of outlier examples: the wrong one, always `target`, or a fair coin.
    target : {1, -1}
    placement : {"random", "farthest", "closest"}
        Outliers anywhere, all at the start, or all next to the query.
    count : {"bernoulli", "exact"}
        Each example by chance, or round(outlier_fraction * length) of them (halves to even, as Python rounds); then one
        clean example must be left.
    outlier_mix : array_like, shape (rows, n_outlier), optional
        Outliers are rows of ``outlier_mix @ bank.outlier``, every row sum > 0 (the paper's L). The bank's own if not
        given.

    Raises
    ------
    InvalidInput
        Naming the condition.
    """

    length: int = 20
    outlier_fraction: float = 0.6
    kappa_max: float = 0.5
    kappa_outlier: float = 2.0
    labels: str = "random"
    target: int = 1
    placement: str = "random"
    count: str = "bernoulli"
    outlier_mix: tuple[tuple[float, ...], ...] | None = None

    def __post_init__(self) -> None:
        if positive_int(self.length, "length", minimum=0) < 2:
            raise InvalidInput.argument(
                "length", expected="an integer >= 2: a context needs room for both labels", got=self.length
            )
        share = in_range(self.outlier_fraction, "outlier_fraction")
        if not 0 <= share < 1:
            raise InvalidInput.argument(
                "outlier_fraction",
                expected="a share in [0, 1): the theorems need clean examples",
                got=self.outlier_fraction,
            )
        in_range(self.kappa_max, "kappa_max", 0.0)
        in_range(self.kappa_outlier, "kappa_outlier", 0.0, low_open=True)
        one_of(self.labels, "labels", LABELS)
        one_of(self.target, "target", (1, -1))
        one_of(self.placement, "placement", PLACEMENTS)
        if one_of(self.count, "count", COUNTS) == "exact" and round(share * self.length) >= self.length:
            raise InvalidInput.argument(
                "outlier_fraction, length",
                expected="one clean example at least with exact counts",
                got=f"{share}, {self.length}",
            )
        if self.outlier_mix is not None:
            rows = array(self.outlier_mix, "outlier_mix", ndim=2)
            if not len(rows) or rows.sum(1).min() <= 0:
                raise InvalidInput.argument(
                    "outlier_mix",
                    expected="rows whose sum is at least L > 0",
                    got=f"row sums {rows.sum(1).round(6).tolist()}",
                )
            object.__setattr__(self, "outlier_mix", tuple(tuple(map(float, row)) for row in rows))


@dataclass(frozen=True)
class Coefficients:
    """A batch of prompts in the basis of patterns; all arrays (n, length + 1) but `labels` (n,).

    Attributes
    ----------
    relevant, irrelevant, outlier : ndarray of int
        Pattern indices; outlier is -1 where clean.
    size : ndarray
        Coefficient of the irrelevant pattern.
    y : ndarray
        Labels shown; 0 at the query.
    labels : ndarray
        The query's true label.
    """

    relevant: NDArray[Any]
    irrelevant: NDArray[Any]
    outlier: NDArray[Any]
    size: NDArray[Any]
    y: NDArray[Any]
    labels: NDArray[Any]


@dataclass(frozen=True)
class PromptBatch:
    """Prompts as tensors.

    Attributes
    ----------
    tokens : Tensor of float32, shape (n, length + 1, d + 1)
        (x; y) a row; the query is last, with y = 0.
    labels : Tensor of float32, shape (n,)
        The query's label, -1 or +1.
    is_outlier : Tensor of bool, shape (n, length + 1)
    pattern : Tensor of int64, shape (n, length + 1)
        Index of the relevant pattern.
    same_pattern : Tensor of bool, shape (n, length + 1)
        Whether the example has the query's relevant pattern.
    """

    tokens: torch.Tensor
    labels: torch.Tensor
    is_outlier: torch.Tensor
    pattern: torch.Tensor
    same_pattern: torch.Tensor


def outlier_rows(bank: PatternBank, spec: PromptSpec) -> NDArray[Any]:
    """The outlier patterns that `spec` draws from, shape (rows, d)."""
    if spec.outlier_mix is None:
        if spec.outlier_fraction > 0 and bank.n_outlier == 0:
            raise InvalidInput.argument(
                "outlier_fraction", expected="0 for a bank without outlier patterns", got=spec.outlier_fraction
            )
        return bank.outlier
    mix = np.array(spec.outlier_mix)
    if mix.shape[1] != bank.n_outlier:
        raise InvalidInput.argument(
            "outlier_mix", expected=f"{bank.n_outlier} columns, one an outlier pattern", got=f"shape {mix.shape}"
        )
    rows: NDArray[Any] = mix @ bank.outlier
    return rows


def checked_setting(bank: PatternBank, tasks: ArrayLike, spec: PromptSpec) -> NDArray[np.int64]:
    """Check a bank, tasks on it, and a specification that fits; return the tasks."""
    given: object = spec
    if not isinstance(given, PromptSpec):
        raise InvalidInput.argument("spec", expected="a PromptSpec", got=given)
    outlier_rows(checked_bank(bank), spec)
    return checked_tasks(tasks, bank.n_relevant)


def basis(bank: PatternBank, spec: PromptSpec) -> NDArray[Any]:
    """The rows that tokens are combinations of, shape (M1 + M2 + outlier rows + 1, d + 1); the last is the label."""
    rows = np.concatenate([bank.relevant, bank.irrelevant, outlier_rows(bank, spec)])
    full = np.zeros((len(rows) + 1, bank.d + 1))
    full[:-1, :-1] = rows
    full[-1, -1] = 1.0
    return full


def draw_coefficients(
    bank: PatternBank, tasks: NDArray[np.int64], spec: PromptSpec, n: int, rng: np.random.Generator
) -> Coefficients:
    """Draw `n` prompts in the basis of patterns. The arguments are taken as checked."""
    from icl_theory.prompt_kernel import draw

    shape = (n, spec.length + 1)
    relevant, irrelevant, outlier = (np.empty(shape, np.int64) for _ in range(3))
    size, y, z = np.empty(shape), np.empty(shape), np.empty(n)
    state = rng.integers(1, 1 << 64, size=4, dtype=np.uint64)
    fixed = round(spec.outlier_fraction * spec.length) if spec.count == "exact" else -1
    draw(
        state, tasks, bank.n_irrelevant, max(1, len(outlier_rows(bank, spec))), spec.outlier_fraction,
        fixed, spec.kappa_max, LABELS.index(spec.labels), float(spec.target),
        PLACEMENTS.index(spec.placement), relevant, irrelevant, size, outlier, y, z,
    )  # fmt: skip
    return Coefficients(relevant, irrelevant, outlier, size, y, z)


def dense(bank: PatternBank, spec: PromptSpec, found: Coefficients) -> NDArray[Any]:
    """Tokens of shape (n, length + 1, d + 1), float64."""
    rows = outlier_rows(bank, spec)
    tokens = np.empty((*found.y.shape, bank.d + 1))
    tokens[..., :-1] = bank.relevant[found.relevant] + found.size[..., None] * bank.irrelevant[found.irrelevant]
    carries = found.outlier >= 0
    tokens[carries, :-1] += spec.kappa_outlier * rows[found.outlier[carries]]
    tokens[..., -1] = found.y
    return tokens


def sample_prompts(bank: PatternBank, tasks: ArrayLike, spec: PromptSpec, n: int, rng: RNGLike = None) -> PromptBatch:
    """Draw prompts of arXiv 2510.00399, section 3.

    Parameters
    ----------
    bank : PatternBank
    tasks : array_like of int, shape (n_tasks, 2)
        Rows (a, b), drawn uniformly: label +1 for pattern a, -1 for b.
    spec : PromptSpec
    n : int
    rng : numpy.random.Generator, int or None

    Returns
    -------
    PromptBatch

    Raises
    ------
    InvalidInput
    """
    import torch

    pairs = checked_setting(bank, tasks, spec)
    found = draw_coefficients(bank, pairs, spec, positive_int(n, "n", minimum=0), generator(rng))
    return PromptBatch(
        tokens=torch.from_numpy(dense(bank, spec, found)).float(),
        labels=torch.from_numpy(found.labels).float(),
        is_outlier=torch.from_numpy(found.outlier >= 0),
        pattern=torch.from_numpy(found.relevant),
        same_pattern=torch.from_numpy(found.relevant == found.relevant[:, -1:]),
    )


def stream_prompts(
    bank: PatternBank, tasks: ArrayLike, spec: PromptSpec, batch: int, rng: RNGLike = None
) -> Iterator[PromptBatch]:
    """Yield batches without end; see `sample_prompts`."""
    pairs, size, source = checked_setting(bank, tasks, spec), positive_int(batch, "batch"), generator(rng)
    return (sample_prompts(bank, pairs, spec, size, source) for _ in iter(int, 1))

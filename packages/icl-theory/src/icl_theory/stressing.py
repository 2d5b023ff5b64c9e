"""Outlier tests for any model that reads tokens, and prompts from a table of real data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput, Table
from lemmata_core.check import array, positive_int
from lemmata_core.rng import generator

from icl_theory.bayes.family import Prompts
from icl_theory.patterns import PatternBank, checked_bank, checked_tasks
from icl_theory.prompts import PLACEMENTS, TEST_MIX, PromptSpec
from icl_theory.theory import bayes_floor, vote_error
from icl_theory.training import Model, evaluate

if TYPE_CHECKING:
    from lemmata_core.rng import RNGLike
    from numpy.typing import ArrayLike


def stress(
    model_fn: Model,
    bank: PatternBank,
    tasks: ArrayLike,
    *,
    alphas: Sequence[float] = (0.2, 0.5, 0.8),
    labels: Sequence[str] = ("flip", "random"),
    placements: Sequence[str] = PLACEMENTS,
    kappas: Sequence[float] = (2.0,),
    length: int = 20,
    n: int = 2000,
    outlier_mix: tuple[tuple[float, ...], ...] | None = TEST_MIX,
    rng: RNGLike = 1,
) -> Table:
    """Test a model over shares, labelling rules, placements and magnitudes of outliers.

    Parameters
    ----------
    model_fn : nn.Module or callable
        From tokens, a float32 tensor of shape (n, length + 1, d + 1), to numbers (n,) whose sign is the prediction.
    bank, tasks
        As in `sample_prompts`.
    alphas, labels, placements, kappas : sequence
        Every combination is tested.
    length, n : int
        Examples in a prompt, and prompts a figure.
    outlier_mix : array_like, optional
        As in `PromptSpec`; None for the bank's own outliers.
    rng : numpy.random.Generator, int or None

    Returns
    -------
    Table
        Columns alpha, labels, placement, kappa, error, low, high, n_nonfinite, vote_error, bayes_floor.

    Raises
    ------
    InvalidInput
    """
    if not callable(model_fn):
        raise InvalidInput.argument("model_fn", expected="a callable from tokens to numbers", got=model_fn)
    pairs = checked_tasks(tasks, checked_bank(bank).n_relevant)
    for name, values in (("alphas", alphas), ("labels", labels), ("placements", placements), ("kappas", kappas)):
        given: object = values
        listed = isinstance(given, Sequence | np.ndarray) and getattr(given, "ndim", 1) == 1
        if not listed or isinstance(given, str | bytes) or not len(values):
            raise InvalidInput.argument(name, expected="a sequence, not empty", got=values)
    rows = []
    for alpha in alphas:
        for rule in labels:
            for place in placements:
                for kappa in kappas:
                    spec = PromptSpec(
                        length=length, outlier_fraction=alpha, kappa_max=1.0, kappa_outlier=kappa, labels=rule,
                        placement=place, outlier_mix=outlier_mix,
                    )  # fmt: skip
                    e = evaluate(model_fn, bank, pairs, spec, n=n, rng=rng)
                    closed = vote_error(alpha, length, rule), bayes_floor(alpha, length)
                    rows.append((alpha, rule, place, kappa, e.value, e.low, e.high, e.n_nonfinite, *closed))
    columns = (
        "alpha",
        "labels",
        "placement",
        "kappa",
        "error",
        "low",
        "high",
        "n_nonfinite",
        "vote_error",
        "bayes_floor",
    )
    return Table("Error under outliers", columns, tuple(rows))


def prompts_from_table(X: ArrayLike, y: ArrayLike, length: int, n: int = 1000, rng: RNGLike = None) -> Prompts:
    """Cut prompts from a table of real data: each is `length` different rows in random order.

    Parameters
    ----------
    X : array_like, shape (rows, d)
    y : array_like, shape (rows,)
    length : int
        Pairs in a prompt, at most the number of rows.
    n : int
        Prompts.
    rng : numpy.random.Generator, int or None

    Returns
    -------
    Prompts
        With f = y: the noise of real data is not known.

    Raises
    ------
    InvalidInput
    """
    xs = array(X, "X", ndim=2)
    ys: Any = array(y, "y", ndim=1, shape=(len(xs),))
    length, n = positive_int(length, "length", maximum=max(1, len(xs))), positive_int(n, "n")
    if not len(xs):
        raise InvalidInput.argument("X", expected="one row at least", got="none")
    source = generator(rng)
    rows = np.stack([source.permutation(len(xs))[:length] for _ in range(n)])
    return Prompts(xs[rows], ys[rows], ys[rows], np.zeros(n, np.int64))

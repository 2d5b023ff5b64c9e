"""Weights that certify: what a model needs, and raising what a given model has."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput
from lemmata_core.check import in_range
from scipy import sparse

from qubo_relax import blocks as bl
from qubo_relax.qubo import Qubo
from qubo_relax.structure import structural_margin

if TYPE_CHECKING:
    from qubo_relax.constraints import LinearConstraint


@dataclass(frozen=True)
class Weights:
    """What `suggest_weights` returns.

    Attributes
    ----------
    formulation : str
    blocks : mapping of str to float
        Each block's kind and the slack that these weights leave in its inequalities.
    margin : float
        The smallest of them: no weight can be lowered by more than this without losing the proof of its block.
    concavity : float
    largest, smallest : float
        Absolute values of the non-zero coefficients.
    bits : int
        Bits of a fixed-point number that holds both.
    """

    formulation: str
    blocks: Mapping[str, float]
    margin: float
    concavity: float
    largest: float
    smallest: float
    bits: int


def suggest_weights(problem: Any, formulation: str | None = None, *, margin: float | None = None) -> Weights:
    """The smallest certified weights of a problem, summarised for hardware of limited precision.

    Parameters
    ----------
    problem : Problem
    formulation : str, optional
        A certified one; the default when left out.
    margin : float, optional
        How far above the bounds the weights stand; 1e-3 of the value scale when left out.

    Returns
    -------
    Weights
        The weights themselves are in ``problem.qubo(formulation, margin=margin)``.
    """
    if not hasattr(problem, "formulations"):
        raise InvalidInput.argument("problem", expected="a problem of the library", got=type(problem).__name__)
    name = problem.default if formulation is None else formulation
    qubo = problem.qubo(name, margin=margin)
    slacks = {}
    for block in qubo.blocks:
        alone = Qubo._trusted(qubo.linear, qubo.quadratic, blocks=(block, *_fixed(qubo)))
        slacks[type(block).__name__] = structural_margin(alone)[0]
    size = np.abs(np.concatenate([qubo.linear, qubo.quadratic.data]))
    size = size[size > 0]
    largest, smallest = (float(size.max()), float(size.min())) if size.size else (0.0, 0.0)
    bits = int(np.ceil(np.log2(largest / smallest))) + 2 if size.size else 1
    return Weights(name, slacks, min(slacks.values(), default=np.inf), qubo.concavity, largest, smallest, bits)


def _fixed(qubo: Qubo) -> list[bl.Block]:
    return [b for b in qubo.blocks if isinstance(b, bl.Fixed)]


@dataclass(frozen=True)
class Repaired:
    """What `repair` returns.

    Attributes
    ----------
    model : Qubo or dimod.BinaryQuadraticModel
        Of the kind that came in.
    qubo : Qubo
        The same with its blocks and a concavity below the margin, for `verify_conditions`.
    raised : int
        Penalties that were raised.
    left : list of LinearConstraint
        Rows for which no rule applies: untouched.
    """

    model: Any
    qubo: Qubo
    raised: int
    left: list[LinearConstraint]


def repair(model: Any, constraints: Sequence[LinearConstraint], *, margin: float | None = None) -> Repaired:
    """Raise the penalties of pairs until their inequalities hold.

    ``x_i + x_j <= 1`` gets more of ``x_i x_j`` (B1) and ``x_i + x_j >= 1`` more of ``(1 - x_i)(1 - x_j)`` (B2), no more
    than the bounds ask for. Feasible points keep their energies.

    Parameters
    ----------
    model : Qubo or dimod.BinaryQuadraticModel
        Not changed.
    constraints : sequence of LinearConstraint
    margin : float, optional
        1e-3 of the largest linear coefficient when left out.

    Returns
    -------
    Repaired
    """
    from qubo_relax.interop import from_bqm, to_bqm

    qubo = model if isinstance(model, Qubo) else from_bqm(model)
    pairs = {"<=": [], ">=": []}  # type: dict[str, list[tuple[int, int]]]
    left = []
    for row in constraints:
        unit = row.index.size == 2 and (row.value == 1).all() and row.b == 1
        if unit and row.sense in pairs:
            pairs[row.sense].append((int(row.index[0]), int(row.index[1])))
        else:
            left.append(row)
    step = 1e-3 * float(np.max(np.abs(qubo.linear), initial=0.0)) if margin is None else in_range(margin, "margin", 0.0)
    step = step or 1e-3
    c, S, offset, raised = qubo.linear.copy(), sparse.lil_array(qubo.quadratic), qubo.offset, 0
    negative = np.asarray(qubo.quadratic.minimum(0).sum(axis=1)).ravel()
    for i, j in pairs["<="]:
        s = float(S[i, j])
        need = step - max(c[k] + negative[k] + s - min(s, 0.0) for k in (i, j))
        if need > 0:
            S[i, j] = S[j, i] = s + need
            raised += 1
            if s < 0:
                negative[[i, j]] += min(need, -s)
    for i, j in pairs[">="]:
        positive = [float(np.maximum(S[[k]].toarray(), 0).sum()) for k in (i, j)]
        s = max(float(S[i, j]), 0.0)
        need = step - max(s - c[k] - p for k, p in zip((i, j), positive))
        if need > 0:
            offset += need
            c[[i, j]] -= need
            S[i, j] = S[j, i] = float(S[i, j]) + need
            raised += 1
    blocks: list[bl.Block] = []
    for sense, kind in (("<=", bl.Conflicts), (">=", bl.Covers)):
        e = np.array(pairs[sense], dtype=np.int64).reshape(-1, 2)
        blocks += [kind(e[:, 0], e[:, 1])] if len(e) else []
    labels = None if isinstance(qubo.labels, range) else qubo.labels
    M = sparse.csr_array(S)
    M.sort_indices()
    fixed = Qubo._trusted(c, M, offset, labels=labels, blocks=tuple(blocks))
    proved, _ = structural_margin(fixed)
    fixed = fixed.with_concavity(max(min(proved, step), 0.0) / 4)
    return Repaired(fixed if isinstance(model, Qubo) else to_bqm(fixed), fixed, raised, left)

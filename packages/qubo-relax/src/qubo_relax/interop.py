"""To and from dimod's binary quadratic models (extra `dimod`)."""

from __future__ import annotations

from typing import Any

import numpy as np
from lemmata_core import InvalidInput
from scipy import sparse

from qubo_relax.qubo import Qubo


def from_bqm(bqm: Any, *, concavity: float = 0.0) -> Qubo:
    """A `Qubo` from a dimod binary quadratic model.

    Parameters
    ----------
    bqm : dimod.BinaryQuadraticModel
        SPIN models are converted (``s = 2 x - 1``); the model itself is left alone.
    concavity : float

    Returns
    -------
    Qubo
        Its `labels` are the model's variables, in their order.
    """
    if not hasattr(bqm, "to_numpy_vectors") or not hasattr(bqm, "vartype"):
        raise InvalidInput.argument("bqm", expected="a dimod BinaryQuadraticModel", got=type(bqm).__name__)
    model = bqm if bqm.vartype.name == "BINARY" else bqm.change_vartype("BINARY", inplace=False)
    labels = list(model.variables)
    vectors = model.to_numpy_vectors(variable_order=labels)
    i, j, v = vectors.quadratic
    plain = labels == list(range(len(labels)))
    qubo = Qubo.from_coo(
        len(labels),
        np.asarray(i, dtype=np.int64),
        np.asarray(j, dtype=np.int64),
        v,
        vectors.linear_biases,
        vectors.offset,
    )
    if plain:
        return qubo.with_concavity(concavity)
    return Qubo._trusted(qubo.linear, qubo.quadratic, qubo.offset, concavity=concavity, labels=labels)


def to_bqm(qubo: Qubo) -> Any:
    """A dimod binary quadratic model with the energies of `qubo` on binary points.

    Parameters
    ----------
    qubo : Qubo
        Folded; its concavity, which is zero on binary points, is dropped.

    Returns
    -------
    dimod.BinaryQuadraticModel
    """
    try:
        import dimod
    except ImportError as err:
        raise InvalidInput.argument("qubo", expected="the extra qubo-relax[dimod] for this", got="no dimod") from err
    linear = qubo.linear if qubo.diagonal is None else qubo.linear + qubo.diagonal
    upper = sparse.triu(qubo.quadratic, 1).tocoo()
    i, j = upper.coords
    labels = None if isinstance(qubo.labels, range) else list(qubo.labels)
    return dimod.BinaryQuadraticModel.from_numpy_vectors(
        linear, (i, j, upper.data), qubo.offset, "BINARY", variable_order=labels
    )

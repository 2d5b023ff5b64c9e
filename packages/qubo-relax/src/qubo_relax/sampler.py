"""A dimod sampler (extra `dimod`): what expects an annealer gets certified local minimizers."""

from __future__ import annotations

from typing import Any

import numpy as np

try:
    import dimod
except ImportError as err:
    from lemmata_core import InvalidInput

    raise InvalidInput.argument("RelaxSampler", expected="the extra qubo-relax[dimod]", got="no dimod") from err

from qubo_relax.interop import from_bqm
from qubo_relax.solvers.driver import METHODS, minimize


class RelaxSampler(dimod.Sampler):  # type: ignore[misc]  # dimod ships no types
    """Drop-in for annealers: `sample`, `sample_qubo` and `sample_ising`.

    Examples
    --------
    >>> float(RelaxSampler().sample_ising({}, {("a", "b"): 1.0}, num_reads=4).first.energy)
    -1.0
    """

    @property
    def parameters(self) -> dict[str, list[str]]:
        """Names of the arguments of `sample`."""
        return {"num_reads": [], "num_sweeps": [], "seed": [], "method": ["methods"]}

    @property
    def properties(self) -> dict[str, Any]:
        """The methods that `sample` takes."""
        return {"methods": list(METHODS)}

    def sample(
        self,
        bqm: Any,
        num_reads: int = 32,
        num_sweeps: int = 600,
        seed: int | None = 0,
        method: str = "auto",
        **parameters: Any,
    ) -> Any:
        """Local minimizers of a binary quadratic model.

        Parameters
        ----------
        bqm : dimod.BinaryQuadraticModel
        num_reads, num_sweeps : int
        seed : int or None
            Read k does not depend on `num_reads`.
        method : str
            As in `qubo_relax.minimize`.

        Returns
        -------
        dimod.SampleSet
            In the variable type of `bqm`; ``info`` has the certificate of the best read and the seconds.
        """
        self.remove_unknown_kwargs(**parameters)
        qubo = from_bqm(bqm)
        r = minimize(qubo, method, num_reads, num_sweeps, rng=seed)
        certificate = r.certificate
        info = {
            "certificate": {"status": certificate.status, "worst_gain": certificate.worst_gain},
            "unique_fraction": r.unique_fraction,
            "wall_time": r.wall_time,
        }
        samples = r.samples if bqm.vartype is dimod.BINARY else (2 * r.samples - 1).astype(np.int8)
        return dimod.SampleSet.from_samples_bqm((samples, list(bqm.variables)), bqm, info=info)

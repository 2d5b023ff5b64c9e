"""PGD, Adam and graduated descent in torch (extra `torch`), for GPUs; rounding and proofs stay in float64."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from lemmata_core import InvalidInput

from qubo_relax.solvers.graduated import schedule
from qubo_relax.solvers.lanes import Lanes, Stop
from qubo_relax.solvers.pgd import KICK

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import torch
    from numpy.typing import NDArray

    from qubo_relax.solvers.prepared import Prepared

DENSE_FROM = 0.2
LOOK = 20


def run(
    name: str,
    prep: Prepared,
    X0: NDArray[Any],
    steps: int,
    options: Mapping[str, Any],
    stop: Stop,
    device: str | None,
) -> Lanes:
    """Run one method on all lanes at once.

    Parameters
    ----------
    name : {"pgd", "adam", "graduated"}
    prep : Prepared
    X0 : ndarray of shape (B, n)
    steps : int
    options : mapping
        As for the numba solvers.
    stop : Stop
    device : str or None
        "cuda" where there is one and none is named.

    Returns
    -------
    Lanes

    Raises
    ------
    InvalidInput
        Without torch, for another method, or a device that torch does not have.
    """
    try:
        import torch
    except ImportError as err:
        raise InvalidInput.argument("backend", expected="the extra qubo-relax[torch]", got="torch") from err
    steppers = {"pgd": _pgd, "adam": _adam, "graduated": _graduated}
    if name not in steppers:
        raise InvalidInput.argument("method", expected="pgd, adam or graduated with the torch backend", got=name)
    place = device or ("cuda" if torch.cuda.is_available() else "cpu")
    try:
        X = torch.as_tensor(np.ascontiguousarray(X0.T, dtype=np.float32), device=place)
    except (RuntimeError, AssertionError) as err:
        raise InvalidInput.argument("device", expected="a device that torch has here", got=device) from err
    product = _product(prep, X)
    step = steppers[name](prep, X, steps, options)
    done, ended = 0, "done"
    with torch.no_grad():
        try:
            while done < steps:
                G = product(X)
                if done % LOOK == 0:
                    stop.count(min(LOOK, steps - done) * X.shape[1])
                    ended = stop.reason(done)
                    if ended != "done" or (name != "graduated" and bool(_settled(X, G, prep.qubo.concavity))):
                        break
                X = step(X, G, done)
                done += 1
        except KeyboardInterrupt:
            ended = "interrupted"
    return Lanes(np.ascontiguousarray(X.T.cpu().numpy()), done, ended)


def _product(prep: Prepared, X: torch.Tensor) -> Callable[[torch.Tensor], torch.Tensor]:
    import warnings

    import torch

    n, S = prep.qubo.n, prep.qubo.quadratic
    linear = torch.as_tensor(prep.linear, device=X.device)[:, None]
    if S.nnz > DENSE_FROM * n * n:
        matrix = torch.as_tensor(S.toarray().astype(np.float32), device=X.device)
    else:
        with warnings.catch_warnings():
            # torch calls its CSR support beta; the products used here are the stable part.
            warnings.simplefilter("ignore", UserWarning)
            matrix = torch.sparse_csr_tensor(
                torch.as_tensor(prep.indptr),
                torch.as_tensor(prep.indices.astype(np.int64)),
                torch.as_tensor(prep.data),
                size=(n, n),
            ).to(X.device)
    return lambda Y: linear + matrix @ Y


def _settled(X: torch.Tensor, g: torch.Tensor, eps: float) -> torch.Tensor:
    G = g + eps * (1 - 2 * X)
    return (((X == 0) & (G > 0)) | ((X == 1) & (G < 0))).all()


def _pgd(
    prep: Prepared,
    X: torch.Tensor,
    steps: int,  # noqa: ARG001 - one signature for the three
    options: Mapping[str, Any],
) -> Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]:
    import torch

    size, eps = float(options.get("step", 1.0)) / prep.spectral[0], prep.qubo.concavity
    shift = np.random.default_rng(0).uniform(-1, 1, (len(X), 1)) * float(options.get("kick", KICK))
    kick = torch.as_tensor(shift, dtype=X.dtype, device=X.device)

    def step(Y: torch.Tensor, g: torch.Tensor, t: int) -> torch.Tensor:
        G = g + eps * (1 - 2 * Y)
        Z = (Y - size * G).clamp_(0, 1)
        if t % LOOK == LOOK - 1:
            good = (((Y == 0) & (G > 0)) | ((Y == 1) & (G < 0))).all(dim=0)
            stuck = (Z == Y).all(dim=0) & ~good
            Z = torch.where(stuck, (Z + kick).clamp_(0, 1), Z)
        return Z

    return step


def _adam(
    prep: Prepared,
    X: torch.Tensor,
    steps: int,  # noqa: ARG001 - one signature for the three
    options: Mapping[str, Any],
) -> Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]:
    import torch

    lr, (b1, b2) = float(options.get("lr", 0.05)), options.get("betas", (0.9, 0.999))
    m, v = torch.zeros_like(X), torch.zeros_like(X)
    eps, tiny = prep.qubo.concavity, 1e-8 * prep.spectral[0]

    def step(Y: torch.Tensor, g: torch.Tensor, t: int) -> torch.Tensor:
        G = g + eps * (1 - 2 * Y)
        m.mul_(b1).add_(G, alpha=1 - b1)
        v.mul_(b2).addcmul_(G, G, value=1 - b2)
        size = (v / (1 - b2 ** (t + 1))).sqrt_().add_(tiny)
        moved: torch.Tensor = Y - lr / (1 - b1 ** (t + 1)) * m / size
        if options.get("reset", False):
            outside = (moved <= 0) | (moved >= 1)
            m.masked_fill_(outside, 0.0)
            v.masked_fill_(outside, 0.0)
        return moved.clamp_(0, 1)

    return step


def _graduated(
    prep: Prepared, X: torch.Tensor, steps: int, options: Mapping[str, Any]
) -> Callable[[torch.Tensor, torch.Tensor, int], torch.Tensor]:
    import torch

    mus, levels, step_size, mom = schedule(prep.spectral, steps, options)
    size, momentum = float(step_size), float(mom)
    noise = torch.as_tensor(options["noise"], device=X.device) if levels.any() else None
    V = torch.zeros_like(X)

    def step(Y: torch.Tensor, g: torch.Tensor, t: int) -> torch.Tensor:
        nonlocal V
        G = g + float(mus[t]) * (1 - 2 * Y)
        if noise is not None:
            G = G + float(levels[t]) * noise
        V = momentum * V - size * G
        Z = Y + V
        V = torch.where((Z > 0) & (Z < 1), V, 0.0)
        return Z.clamp_(0, 1)

    return step

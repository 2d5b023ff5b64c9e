"""The embedding: minimise ``tr(H^T L H)`` subject to ``H^T H = I`` and ``C^T H = 0``, by any of the solvers."""

from __future__ import annotations

import time
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import scipy.sparse as sp
from lemmata_core import InvalidInput, check
from lemmata_core.rng import generator

from riemann_fair.laplacian import Operator, read_affinity
from riemann_fair.problem import Problem, prepare
from riemann_fair.radmm import Callback, RADMMParams, RADMMState, pull_inside, radmm
from riemann_fair.rcg import RCGParams, rcg
from riemann_fair.result import EmbeddingResult
from riemann_fair.retraction import orthonormalise
from riemann_fair.spectral import Ritz, dense, lanczos, shift_invert
from riemann_fair.threads import one_blas_thread

SOLVERS = (
    "auto", "dense", "lanczos", "fast-lanczos", "block-krylov", "shift-invert", "chebyshev", "rcg", "radmm", "pymanopt",
)  # fmt: skip

PARAMS: dict[str, type] = {"radmm": RADMMParams, "rcg": RCGParams}
SINGLE_VECTOR = ("lanczos", "fast-lanczos", "shift-invert")

# `auto`, by size and mean degree. Measured (benchmarks/bench_embedding.py, ratio to projected eigsh): block model of
# degree 548, n = 12000: block-krylov 0.33, fast-lanczos 0.85; degree 40, n = 20000: fast-lanczos 0.4, block-krylov 0.7;
# LastFM, Deezer and kNN graphs (degree 6 to 16): fast-lanczos 0.2 to 0.4, block-krylov above 1.
DENSE_UP_TO = 1000
BLOCK_ABOVE_DEGREE = 100.0
BLOCK_UP_TO_K = 16
# A relaxed solution this near to its dual bound, relative, is one whatever the iteration says.
CERTIFIED = 1e-4


def fair_embedding(
    affinity: Any,
    groups: Any,
    n_components: int,
    *,
    solver: str = "auto",
    constraint: str = "count",
    tolerance: float = 0.0,
    regularization: float | str = 0.0,
    params: Any = None,
    tol: float = 1e-3,
    max_iter: int | None = None,
    dtype: Any = "float64",
    rng: Any = None,
    x0: np.ndarray | None = None,
    callback: Callback | None = None,
) -> EmbeddingResult:
    """The fair spectral embedding of a graph.

    Parameters
    ----------
    affinity : ndarray or scipy.sparse matrix, shape (n, n)
        Symmetric, non-negative.
    groups : array-like or None
        Protected attributes (see `read_groups`); None: plain spectral embedding.
    n_components : int
        k, columns of H, the trivial vector among them.
    solver : str
        "auto", "dense", "lanczos", "fast-lanczos", "block-krylov", "shift-invert", "chebyshev", "rcg", "radmm" or
        "pymanopt".
    constraint : {"count", "plain", "volume"}
        Proportions by node count; the uncentred form of the reference implementation, for reproduction only; or by
        degree mass.
    tolerance : float
        Allowed ``||Q^T H||_F``; above 0 `radmm` runs.
    regularization : float or "auto"
        tau of ``W + (tau/n) 1 1^T``; "auto": the mean degree.
    params : RADMMParams, RCGParams, or a pymanopt optimizer, optional
        Constants of radmm, of rcg, or what pymanopt runs; the other solvers take none.
    tol : float
        Largest absolute residual (eigensolvers).
    max_iter : int, optional
        Products or steps at most; outer iterations of radmm.
    dtype : {"float64", "float32"}
        Of the result; and of the iterates in radmm and chebyshev.
    rng : numpy.random.Generator, int or None
    x0 : ndarray of shape (n, k), optional
        Start.
    callback : callable, optional
        radmm: called with the record of each outer iteration; a true answer stops.

    Returns
    -------
    EmbeddingResult

    Raises
    ------
    InvalidInput
        Before any work: an affinity or groups that cannot be used, more components than the fair subspace has
        dimensions, unknown options.

    Warns
    -----
    NotConvergedWarning
        The tolerance was not reached; `status` and `residuals` say how far it got.
    """
    began = time.perf_counter()
    with one_blas_thread():
        problem = prepare(read_affinity(affinity), groups, n_components, constraint, regularization)
    result = embed(problem, n_components, solver=solver, tolerance=tolerance, params=params, tol=tol,
                   max_iter=max_iter, dtype=dtype, rng=rng, x0=x0, callback=callback)  # fmt: skip
    warn_unless_converged(result, tol)
    return replace(result, wall_time=time.perf_counter() - began)


def embed(
    problem: Problem,
    k: int,
    *,
    solver: str,
    tolerance: float,
    params: Any,
    tol: float,
    max_iter: int | None,
    dtype: Any,
    rng: Any,
    x0: np.ndarray | None = None,
    callback: Callback | None = None,
) -> EmbeddingResult:
    """`fair_embedding` of a problem that was prepared, without its warning."""
    began = time.perf_counter()
    _check_options(solver, tolerance, tol, max_iter, dtype, x0, (problem.n, k))
    if tolerance > 0 and solver not in ("auto", "radmm"):
        raise InvalidInput.argument("solver", expected='"auto" or "radmm" with tolerance > 0', got=solver)
    if tolerance > 0 and problem.op.space.rank == 0:
        tolerance = 0.0
    chosen = choose(solver, problem.op, k, tolerance)
    _check_params(params, chosen)
    start = None if x0 is None else np.asarray(x0, dtype=np.float64)[problem.active]
    with one_blas_thread():
        if chosen == "radmm":
            constants = params or RADMMParams()
            constants = constants if max_iter is None else replace(constants, max_outer=max_iter)
            state = radmm(problem.op, k, constants, delta=tolerance, dtype=dtype, rng=generator(rng), start=start,
                          callback=callback)  # fmt: skip
            result = from_state(problem, state, tolerance, constants, dtype)
        else:
            result = _by_eigensolver(problem, k, chosen, params, tol, max_iter, dtype, generator(rng), start)
    return replace(result, wall_time=time.perf_counter() - began)


def _check_params(params: Any, solver: str) -> None:
    expected = PARAMS.get(solver)
    if params is None or (expected is not None and isinstance(params, expected)):
        return
    if solver == "pymanopt" and callable(getattr(params, "run", None)):
        return
    raise InvalidInput.argument(
        "params (solver_params of the estimator)",
        expected=f"None with the solver {solver}; a RADMMParams goes with radmm, a RCGParams with rcg, an optimizer "
        "with pymanopt",
        got=params,
    )


def _check_options(
    solver: str,
    tolerance: float,
    tol: float,
    max_iter: int | None,
    dtype: Any,
    x0: Any,
    shape: tuple[int, int],
) -> None:
    check.one_of(solver, "solver", SOLVERS)
    check.in_range(tolerance, "tolerance", 0)
    check.in_range(tol, "tol", 0, low_open=True)
    if max_iter is not None:
        check.positive_int(max_iter, "max_iter")
    try:
        given = np.dtype(dtype).name
    except TypeError:
        given = str(dtype)
    check.one_of(given, "dtype", ("float64", "float32"))
    if x0 is not None:
        check.array(x0, "x0", ndim=2, shape=shape)


def choose(solver: str, op: Operator, k: int, tolerance: float) -> str:
    """The solver that "auto" stands for; see the table at the top of this file."""
    if solver != "auto":
        return solver
    if tolerance > 0:
        return "radmm"
    if op.n <= DENSE_UP_TO:
        return "dense"
    entries = op.W.nnz if sp.issparse(op.W) else op.n**2
    if (entries / op.n > BLOCK_ABOVE_DEGREE and k <= BLOCK_UP_TO_K) or not sp.issparse(op.W):
        return "block-krylov"
    return "fast-lanczos"


def _by_eigensolver(
    problem: Problem,
    k: int,
    solver: str,
    params: Any,
    tol: float,
    max_iter: int | None,
    dtype: Any,
    rng: np.random.Generator,
    start: np.ndarray | None,
) -> EmbeddingResult:
    op = problem.op
    trivial = np.zeros((op.n, 0)) if op.trivial is None else op.trivial[:, None]
    m = k - trivial.shape[1]
    status, history, products, steps = "converged", list[dict[str, Any]](), 0.0, 0
    Y, AY, theta, residuals = trivial[:, :0], trivial[:, :0], np.zeros(0), np.zeros(0)
    inner_tol = tol
    for attempt in range(3 if m else 0):
        found = _solve(op, m, solver, params, inner_tol, max_iter, rng, start, dtype)
        Y, AY, theta, residuals, extra = rayleigh_ritz(op, found.X, found.AX, m)
        history, status, steps = history + found.history, found.status, steps + found.n_iter
        products += found.n_products + (extra if solver in SINGLE_VECTOR else min(extra, 1))
        # What the recurrence promised is checked against the products; short of it, it starts again from here.
        if status != "converged" or residuals.max() <= max(2 * tol, 1e-12) or attempt == 2:
            break
        inner_tol, start = inner_tol / 4, Y
    if m and status == "converged" and residuals.max() > max(2 * tol, 1e-11):
        status = "not_converged"
    known = trivial.shape[1]
    H, AH = np.column_stack([trivial, Y]), np.column_stack([trivial, AY])
    values = np.concatenate([np.zeros(known), 1 - theta])
    residuals = np.concatenate([np.zeros(known), residuals])
    return _finished(problem, H, values, residuals, float(k - np.sum(H * AH)), status, solver,
                     steps, products, history, None, dtype)  # fmt: skip


def _solve(
    op: Operator,
    m: int,
    solver: str,
    params: Any,
    tol: float,
    max_iter: int | None,
    rng: np.random.Generator,
    start: np.ndarray | None,
    dtype: Any,
) -> Ritz:
    dimension = op.n - op.space.rank - (op.trivial is not None)
    # ARPACK wants fewer vectors than rows, pymanopt a manifold of more than one point.
    if solver == "dense" or (solver in ("lanczos", "shift-invert", "pymanopt") and m >= min(dimension, op.n - 1)):
        return dense(op, m)
    if solver == "lanczos":
        return lanczos(op, m, tol, max_iter, rng, start)
    if solver == "shift-invert":
        return shift_invert(op, m, tol, max_iter, rng, x0=start)
    if solver == "rcg":
        return rcg(op, m, tol, max_iter, rng, params, start)
    if solver == "chebyshev":
        from riemann_fair.chebyshev import chebyshev

        return chebyshev(op, m, tol, max_iter, rng, start, np.dtype(dtype))
    if solver == "block-krylov":
        from riemann_fair.block_krylov import block_krylov

        return block_krylov(op, m, tol, max_iter, rng, start)
    if solver == "pymanopt":
        from riemann_fair.manifolds import minimise_trace

        return minimise_trace(op, m, params, tol, max_iter, rng, start)
    from riemann_fair.fast_lanczos import fast_lanczos

    return fast_lanczos(op, m, tol, max_iter, rng, start)


def rayleigh_ritz(
    op: Operator, X: np.ndarray, AX: np.ndarray | None, m: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    """The m best feasible Ritz vectors in the span of X, ``A X``, Ritz values, true residuals, products made."""
    clean = op.project(op.project(X))
    try:
        Q, R = orthonormalise(clean)
    except np.linalg.LinAlgError:
        Q, R = np.linalg.qr(clean)
    if AX is None or np.linalg.norm(clean - X) > 1e-8 or np.linalg.cond(R) > 1e3:
        AQ, extra = op.apply(Q), X.shape[1]
    else:
        AQ, extra = np.linalg.solve(R.T, AX.T).T, 0
    PAQ = op.project(AQ)
    T = Q.T @ PAQ
    theta, V = np.linalg.eigh((T + T.T) / 2)
    theta, V = theta[::-1][:m], V[:, ::-1][:, :m]
    Y = Q @ V
    residuals = np.linalg.norm(PAQ @ V - Y * theta, axis=0)
    return Y, AQ @ V, theta, residuals, extra


def from_state(problem: Problem, state: RADMMState, delta: float, params: RADMMParams, dtype: Any) -> EmbeddingResult:
    """The result of an ADMM run: polished if asked, rotated to Ritz vectors, with the dual bound when relaxed."""
    op = problem.op
    k = state.H.shape[1]
    H = pull_inside(op, state.H, delta) if params.polish else state.H.astype(np.float64)
    LH = op.laplacian(H)
    lower, multiplier, status = None, 0.0, state.status
    if delta > 0:
        from riemann_fair.dual import dual_bound, multiplier_at, relaxed_in_span

        bound = dual_bound(op, k, delta, multiplier_at(op, H, LH), H)
        lower, multiplier = bound.value, bound.multiplier
        if params.polish:
            better = pull_inside(op, relaxed_in_span(op, [H, *bound.blocks], k, delta), delta)
            image = op.laplacian(better)
            if np.sum(better * image) < np.sum(H * LH):
                H, LH = better, image
        if status == "max_iter" and np.sum(H * LH) - lower <= CERTIFIED * lower:
            status = "converged"
    T = H.T @ LH
    values, V = np.linalg.eigh((T + T.T) / 2)
    H, LH = H @ V, LH @ V
    gradient = LH + multiplier * op.space.normal_part(H) if delta > 0 else op.space.project(LH)
    residuals = np.linalg.norm(gradient - H @ (H.T @ gradient), axis=0)
    return _finished(problem, H, values, residuals, float(np.sum(H * LH)), status, "radmm",
                     state.n_iter, float(state.n_products), state.history, lower, dtype)  # fmt: skip


def _finished(
    problem: Problem,
    H: np.ndarray,
    values: np.ndarray,
    residuals: np.ndarray,
    objective: float,
    status: str,
    solver: str,
    n_iter: int,
    n_products: float,
    history: list[dict[str, Any]],
    lower: float | None,
    dtype: Any,
) -> EmbeddingResult:
    return EmbeddingResult(
        embedding=problem.widen(H).astype(dtype, copy=False),
        eigenvalues=np.asarray(values, dtype=np.float64),
        objective=objective,
        fairness_violation=problem.op.space.violation(H),
        residuals=residuals,
        status=status,
        solver=solver,
        n_iter=n_iter,
        n_products=n_products,
        history=history,
        lower_bound=lower,
        wall_time=0.0,
        scale=problem.widen(problem.op.scale),
    )


def warn_unless_converged(result: EmbeddingResult, tol: float) -> None:
    """Say how far a run that did not converge got, to the caller's caller."""
    from lemmata_core import NotConvergedWarning

    if result.status in ("converged", "stopped"):
        return
    warnings.warn(
        f"{result.solver} ended with status {result.status!r}: largest residual {result.residuals.max():.2e} "
        f"(asked {tol:.2e}), fairness violation {result.fairness_violation:.2e}. A larger max_iter, "
        'regularization > 0 or solver="shift-invert" on graphs with tiny gaps helps',
        NotConvergedWarning,
        stacklevel=3,
    )

"""The paper's claims as code, and ours beside them."""

from __future__ import annotations

from typing import Any

from lemmata_core import Claim, Scale

from riemann_fair import claims_quality as quality
from riemann_fair import claims_speed as speed

PAPER = "Riemannian Optimization for Fair Spectral Clustering, ICML 2026"


def _claim(name: str, statement: str, run: Any, accept: Any, source: str, **more: Any) -> Claim:
    return Claim(id=f"riemann-fair/{name}", statement=statement, source=source, run=run, accept=accept, **more)


CLAIMS: tuple[Claim, ...] = (
    _claim(
        "quality-synthetic",
        "The Riemannian ADMM recovers planted clusters as well as exact constrained eigenvectors do.",
        quality.quality_synthetic,
        quality.accept_quality,
        f"{PAPER}, abstract",
        paper="comparable or better",
    ),
    _claim(
        "fairness-needed",
        "Where groups are stronger than clusters, plain spectral clustering fails and fair clustering succeeds.",
        quality.fairness_needed,
        quality.accept_needed,
        "our addition to the paper's setting (fewer groups than clusters)",
    ),
    _claim(
        "quality-real",
        "On real graphs the Riemannian ADMM reaches the quality and the fairness of exact constrained eigenvectors.",
        quality.quality_real,
        quality.accept_real,
        f"{PAPER}, abstract",
        paper="high quality and fairness",
    ),
    _claim(
        "feasible",
        "With the published constants, primal residual and fairness violation fall below 1e-4 in 30 outer iterations.",
        quality.feasible,
        quality.accept_feasible,
        f"{PAPER}, reference implementation",
        paper="1e-4 within 30",
    ),
    _claim(
        "optimum",
        "The Riemannian ADMM reaches the optimum of the constrained eigenproblem.",
        quality.optimum,
        quality.accept_optimum,
        "follows from the problem (arXiv 2210.16435, section 3)",
    ),
    _claim(
        "fast-vs-published",
        "The Riemannian ADMM is much faster than sFairSC as it was published.",
        speed.fast_vs_published,
        speed.accept_published,
        f"{PAPER}, abstract",
        paper="significantly faster",
        timed=True,
    ),
    _claim(
        "fast-vs-honest",
        "The Riemannian ADMM is faster than a well-written constrained eigensolver.",
        speed.fast_vs_honest,
        speed.accept_honest,
        f"{PAPER}, abstract (implied by 'expensive eigendecompositions')",
        timed=True,
    ),
    _claim(
        "relaxed",
        "Variable splitting reaches any level of fairness between none and full, and the dual bound certifies it.",
        quality.relaxed,
        quality.accept_relaxed,
        "our extension of the paper's splitting",
    ),
    _claim(
        "growth",
        "Time grows almost linearly with the number of edges.",
        speed.growth,
        speed.accept_growth,
        f"{PAPER}, abstract (large graphs)",
        paper="large graphs",
        timed=True,
    ),
    _claim(
        "gpu-scale",
        "The paper's synthetic grid at 50,000 nodes is reproduced on a GPU.",
        speed.gpu_scale,
        quality.accept_quality,
        f"{PAPER}, experiments",
        scales=frozenset({Scale.FULL}),
        requires=("torch",),
    ),
)

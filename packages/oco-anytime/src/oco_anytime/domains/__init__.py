"""Domains: convex compact sets with exact, fast projections."""

from oco_anytime.domains.base import Domain, ProjectionFailed
from oco_anytime.domains.simple import Ball, Box, BudgetSet, CappedSimplex, L1Ball, Simplex

__all__ = [
    "Ball",
    "Box",
    "BudgetSet",
    "CappedSimplex",
    "Domain",
    "L1Ball",
    "ProjectionFailed",
    "Simplex",
]

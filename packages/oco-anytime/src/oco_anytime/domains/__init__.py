"""Domains: convex compact sets with exact, fast projections."""

from oco_anytime.domains.base import Domain, ProjectionFailed
from oco_anytime.domains.combine import Custom, Intersection, Product
from oco_anytime.domains.flow import FlowPolytope
from oco_anytime.domains.polytope import Polytope
from oco_anytime.domains.simple import Ball, Box, BudgetSet, CappedSimplex, L1Ball, Simplex

__all__ = [
    "Ball",
    "Box",
    "BudgetSet",
    "CappedSimplex",
    "Custom",
    "Domain",
    "FlowPolytope",
    "Intersection",
    "L1Ball",
    "Polytope",
    "Product",
    "ProjectionFailed",
    "Simplex",
]

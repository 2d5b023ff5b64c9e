"""The least value of a function of one variable by golden-section search."""

from rl_mfpo.golden_section import Solution, minimise

__all__ = ["Solution", "minimise"]

"""Pure mathematics of polynomials: monomials, Taylor expansion of a JAX function, local interpolation."""

from paramfilter.polynomials.local import FEWEST_POINTS, interpolated, misses_between
from paramfilter.polynomials.monomials import MonomialBasis, multiply
from paramfilter.polynomials.taylor import taylor_coefficients

__all__ = [
    "FEWEST_POINTS",
    "MonomialBasis",
    "interpolated",
    "misses_between",
    "multiply",
    "taylor_coefficients",
]

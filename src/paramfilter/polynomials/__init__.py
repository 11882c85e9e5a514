"""Pure mathematics of polynomials: monomials in several variables, Taylor expansion of a JAX function."""

from paramfilter.polynomials.monomials import MonomialBasis, multiply
from paramfilter.polynomials.taylor import taylor_coefficients

__all__ = ["MonomialBasis", "multiply", "taylor_coefficients"]

"""Pure mathematics of polynomials: monomials, Taylor expansion of a JAX function, Chebyshev interpolation."""

from paramfilter.polynomials.chebyshev import (
    along_axes,
    chebyshev_points,
    interpolation_matrix,
    interpolation_row,
    midpoints,
    series_at,
    series_matrix,
)
from paramfilter.polynomials.monomials import MonomialBasis, multiply
from paramfilter.polynomials.taylor import taylor_coefficients

__all__ = [
    "MonomialBasis",
    "along_axes",
    "chebyshev_points",
    "interpolation_matrix",
    "interpolation_row",
    "midpoints",
    "multiply",
    "series_at",
    "series_matrix",
    "taylor_coefficients",
]

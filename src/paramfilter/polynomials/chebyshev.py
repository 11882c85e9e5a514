"""Interpolation at Chebyshev points, from values alone.

The points u_k = -cos(pi k / (n - 1)) cluster at the ends of [-1, 1]; the polynomial of degree n - 1 through values at
them converges geometrically for a function that is smooth there, and is evaluated stably, in float32 too, by the
barycentric formula (Berrut and Trefethen, Barycentric Lagrange interpolation, SIAM Review 46, 2004).

>>> import jax.numpy as jnp, numpy as np
>>> values = chebyshev_points(9) ** 3
>>> round(float(interpolation_row(9, jnp.array(0.3)) @ values), 6)
0.027
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float


def chebyshev_points(size: int) -> np.ndarray:
    """Return the points in ascending order, both ends included."""
    return -np.cos(np.pi * np.arange(size) / (size - 1))


def midpoints(size: int) -> np.ndarray:
    """Return the points halfway between neighbours (in angle), where interpolation errs most."""
    return -np.cos(np.pi * (np.arange(size - 1) + 0.5) / (size - 1))


def barycentric_weights(size: int) -> np.ndarray:
    """Return the weights of the points in the barycentric formula, up to a common factor."""
    signs = (-1.0) ** np.arange(size)
    signs[[0, -1]] *= 0.5
    return signs


def interpolation_row(size: int, u: Float[Array, ""]) -> Float[Array, " node"]:
    """Return the weights r with r . values = the interpolant at u; they sum to one."""
    offsets = u - jnp.asarray(chebyshev_points(size), u.dtype)
    is_hit = offsets == 0
    terms = jnp.asarray(barycentric_weights(size), u.dtype) / jnp.where(is_hit, 1.0, offsets)
    return jnp.where(jnp.any(is_hit), is_hit.astype(u.dtype), terms / jnp.sum(terms))


def series_matrix(size: int) -> np.ndarray:
    """Return the matrix from values at the points to coefficients of Chebyshev polynomials."""
    return np.linalg.inv(np.polynomial.chebyshev.chebvander(chebyshev_points(size), size - 1))


def series_at(coefficients: Float[Array, "order *other"], u: Float[Array, ""]) -> Float[Array, "*other"]:
    """Return the series along the first axis at u, by Clenshaw's recurrence: no division, so cheap at many points.

    >>> coefficients = series_matrix(5) @ chebyshev_points(5) ** 3
    >>> float(series_at(jnp.asarray(coefficients, jnp.float32), jnp.float32(0.5)))
    0.125
    """
    last = before_last = jnp.zeros_like(coefficients[0])
    for coefficient in coefficients[:0:-1]:
        last, before_last = coefficient + 2 * u * last - before_last, last
    return coefficients[0] + u * last - before_last


def interpolation_matrix(size: int, points: np.ndarray) -> np.ndarray:
    """Return the rows of several points that are known in advance.

    >>> np.allclose(interpolation_matrix(9, np.array([0.3])) @ chebyshev_points(9) ** 3, 0.027)
    True
    """
    offsets = points[:, None] - chebyshev_points(size)
    is_hit = offsets == 0
    terms = barycentric_weights(size) / np.where(is_hit, 1.0, offsets)
    return np.where(np.any(is_hit, axis=1, keepdims=True), is_hit, terms / np.sum(terms, axis=1, keepdims=True))


def along_axes(matrices: tuple[Float[Array, "_ _"], ...], values: Float[Array, "..."]) -> Float[Array, "..."]:
    """Apply one matrix along each axis of a tensor of values."""
    for axis, matrix in enumerate(matrices):
        values = jnp.moveaxis(jnp.tensordot(matrix, values, axes=(1, axis)), 0, axis)
    return values

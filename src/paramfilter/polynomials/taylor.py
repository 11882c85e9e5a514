"""Taylor coefficients of any JAX function of the parameters, in one or several variables.

The paper expands the transition mean, or the log-density, by hand around theta = 0 (its section 4). Here

    f(center + u) = sum_{|alpha| <= M} a_alpha u^alpha + O(|u|^(M+1)),   a_alpha = d^alpha f(center) / alpha!,

is found from the program of f:

1. Along one direction v, `series_along` gives the coefficients c_k(v) of t -> f(center + t v).
2. Each c_k is a homogeneous polynomial of v, with the coefficients that are wanted:
   c_k(v) = sum_{|alpha| = k} a_alpha v^alpha.
3. With as many directions as there are monomials of degree M, the a_alpha of every degree follow by least
   squares. Directions and inverse matrices depend on the basis alone: they are made once, in float64.

Directions are approximate Fekete points: out of many candidates on the sphere, a pivoted QR decomposition picks those
whose monomials span a large volume (Sommariva and Vianello 2009). They magnify rounding errors by at most 4 (p = 2,
M <= 9), 12 (p = 3, M <= 10) or 33 (p = 5, M = 6), relative to k!/alpha! times the largest c_k.

A Taylor series says nothing beyond its radius of convergence, and a truncated log-density need not be one:
look at its highest part with `MonomialBasis.homogeneous_parts`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jaxtyping import Array, Float
from scipy.linalg import qr

from paramfilter.numerics.even_points import normal_points
from paramfilter.polynomials.monomials import MonomialBasis
from paramfilter.polynomials.series import series_along

CANDIDATES_PER_DIRECTION = 20
"""How many points of the sphere compete for each direction."""


def taylor_coefficients(
    function: Callable[[Float[Array, " param"]], Array],
    center: Float[Array, " param"],
    basis: MonomialBasis,
) -> Float[Array, "coeff *output"]:
    """Return the Taylor coefficients of `function` at `center`, one for each monomial of the basis.

    Works under `jit` and `vmap`, and is meant for them: outside, every coefficient is dispatched on its own.

    Args:
        function: from an array of parameters to one array of any shape. It may close over traced values.
            Whatever JAX can differentiate can be expanded, except for loops of `jax.lax` that depend on
            the parameters.
        center: where to expand.
        basis: the monomials in u = theta - center.

    Returns:
        The coefficients a_alpha in the order of the basis, and then the axes of the function's output.

    >>> basis = MonomialBasis(2, 3)
    >>> c = taylor_coefficients(lambda u: jnp.sin(u[0]) * jnp.exp(u[1]), jnp.zeros(2), basis)
    >>> [abs(round(float(v), 4)) for v in c]  # u_1 + u_1 u_2 - u_1^3 / 6 + u_1 u_2^2 / 2
    [0.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.1667, 0.0, 0.5, 0.0]
    """
    if center.shape != (basis.dimension,) or not jnp.issubdtype(center.dtype, jnp.floating):
        found = f"{center.dtype} of shape {center.shape}"
        raise ValueError(f"the center needs {basis.dimension} floating-point numbers, got {found}")
    if basis.dimension == 1:
        return series_along(function, center, jnp.ones_like(center), basis.degree)
    directions, inverses = _directions_and_inverses(basis)
    # numpy changes the dtype: JAX 0.12.0.1 mistakes that of an array it has seen while 64-bit numbers were on
    expand = jax.vmap(lambda direction: series_along(function, center, direction, basis.degree))
    along = expand(directions.astype(center.dtype))
    by_degree = [
        jnp.tensordot(inverse.astype(along.dtype), along[:, k], 1, precision=lax.Precision.HIGHEST)
        for k, inverse in enumerate(inverses, start=1)
    ]
    return jnp.concatenate([along[:1, 0], *by_degree])


@functools.cache
def _directions_and_inverses(
    basis: MonomialBasis,
) -> tuple[Float[np.ndarray, "node param"], list[Float[np.ndarray, "_ node"]]]:
    """Return unit vectors, and for each degree from 1 the matrix from values there to coefficients."""
    p, num_directions = basis.dimension, math.comb(basis.dimension - 1 + basis.degree, basis.degree)
    candidates = normal_points(CANDIDATES_PER_DIRECTION * num_directions, p)  # and so evenly over the sphere
    candidates /= np.linalg.norm(candidates, axis=1, keepdims=True)
    pivots = qr(_monomials(basis, basis.degree, candidates)[0].T, mode="r", pivoting=True)[-1]
    directions = candidates[pivots[:num_directions]]
    inverses = []
    for k in range(1, basis.degree + 1):
        monomials, scale = _monomials(basis, k, directions)
        inverses.append(scale[:, None] * np.linalg.pinv(monomials))
    return directions, inverses


def _monomials(
    basis: MonomialBasis, degree: int, points: Float[np.ndarray, "node param"]
) -> tuple[Float[np.ndarray, "node _"], Float[np.ndarray, " _"]]:
    """Return the monomials of one degree, scaled to length 1 at every unit vector, and the scale sqrt(k! / alpha!)."""
    exponents = basis.exponents[basis.degree_slice(degree)]
    scale = np.sqrt([math.factorial(degree) / math.prod(map(math.factorial, alpha)) for alpha in exponents.tolist()])
    return scale * np.prod(points[:, None, :] ** exponents, axis=2), scale

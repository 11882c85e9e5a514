"""Taylor coefficients of any JAX function of the parameters, in one or several variables.

The paper expands the transition mean, or the log-density, by hand around theta = 0 (its section 4). Here

    f(center + u) = sum_{|alpha| <= M} a_alpha u^alpha + O(|u|^(M+1)),   a_alpha = d^alpha f(center) / alpha!,

is found from the program of f:

1. Along one direction v, `directional_taylor` gives the coefficients c_k(v) of t -> f(center + t v).
2. Each c_k is a homogeneous polynomial of v, with the coefficients that are wanted:
   c_k(v) = sum_{|alpha| = k} a_alpha v^alpha.
3. With as many directions as there are monomials of degree M, the a_alpha of every degree follow by least
   squares. Directions and inverse matrices depend on the basis alone: they are made once, in float64.

Two variables take directions equally spaced over a half circle. More variables take approximate Fekete
points: out of many candidates on the sphere those whose monomials span the largest volume, picked one by one
(Sommariva and Vianello 2009). Rounding errors are magnified by at most 2 (p = 2, M <= 9), 12 (p = 3, M <= 10)
or 40 (p = 5, M = 6), relative to k!/alpha! times the largest c_k.

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

from paramfilter.polynomials.expansion import directional_taylor
from paramfilter.polynomials.monomials import MonomialBasis

CANDIDATES_PER_DIRECTION = 20
"""How many points of the sphere compete for each direction."""

GOLDEN_ITERATIONS = 64
"""Each brings the generalised golden ratio at least two bits closer."""


def taylor_coefficients(
    function: Callable[[Float[Array, " param"]], Array],
    center: Float[Array, " param"],
    basis: MonomialBasis,
) -> Float[Array, "coeff *output"]:
    """Return the Taylor coefficients of `function` at `center`, one for each monomial of the basis.

    Works under `jit` and `vmap`, and is meant for them: outside, every coefficient is dispatched on its own.

    Args:
        function: from an array of parameters to one array of any shape. It may close over traced values.
            Whatever JAX can differentiate can be expanded, but for a `while_loop` that depends on the
            parameters.
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
        return directional_taylor(function, center, jnp.ones_like(center), basis.degree)
    directions, inverses = _directions_and_inverses(basis)
    expand = functools.partial(directional_taylor, function, center, order=basis.degree)
    # numpy changes the dtype: JAX 0.12.0.1 mistakes that of an array it has seen while 64-bit numbers were on
    along = jax.vmap(lambda v: expand(direction=v))(directions.astype(center.dtype))
    by_degree = [along[:1, 0]] + [
        jnp.tensordot(inverse.astype(along.dtype), along[:, k], 1, precision=lax.Precision.HIGHEST)
        for k, inverse in enumerate(inverses, start=1)
    ]
    return jnp.concatenate(by_degree)


@functools.cache
def _directions_and_inverses(
    basis: MonomialBasis,
) -> tuple[Float[np.ndarray, "node param"], list[Float[np.ndarray, "_ node"]]]:
    """Return unit vectors, and for each degree from 1 the matrix from values there to coefficients."""
    directions = _half_circle(basis.degree) if basis.dimension == 2 else _fekete_points(basis)
    inverses = []
    for k in range(1, basis.degree + 1):
        scale = _isotropic_scale(basis, k)
        inverses.append(scale[:, None] * np.linalg.pinv(scale * _monomials(basis, k, directions)))
    return directions, inverses


def _half_circle(degree: int) -> Float[np.ndarray, "node 2"]:
    angle = np.pi * np.arange(degree + 1) / (degree + 1)
    return np.stack([np.cos(angle), np.sin(angle)], axis=1)


def _fekete_points(basis: MonomialBasis) -> Float[np.ndarray, "node param"]:
    """Pick, one by one, the candidate whose monomials are farthest from the span of those picked before."""
    num_directions = math.comb(basis.dimension - 1 + basis.degree, basis.degree)
    candidates = _spread_over_sphere(basis.dimension, CANDIDATES_PER_DIRECTION * num_directions)
    remaining = _isotropic_scale(basis, basis.degree) * _monomials(basis, basis.degree, candidates)
    picked = []
    for _ in range(num_directions):
        picked.append(int(np.argmax(np.sum(remaining**2, axis=1))))
        unit = remaining[picked[-1]] / np.linalg.norm(remaining[picked[-1]])
        remaining = remaining - np.outer(remaining @ unit, unit)
    return candidates[picked]


def _spread_over_sphere(dimension: int, count: int) -> Float[np.ndarray, "node param"]:
    """Return points spread evenly and not by chance.

    A Kronecker sequence in a cube, whose steps are powers of the generalised golden ratio (the root of
    g^(d+1) = g + 1), sent to Gaussian numbers by Box and Muller's formula and so to the sphere.
    """
    pairs = (dimension + 1) // 2
    golden = 2.0
    for _ in range(GOLDEN_ITERATIONS):
        golden = (1 + golden) ** (1 / (2 * pairs + 1))
    steps = golden ** -np.arange(1.0, 2 * pairs + 1)
    uniform = np.modf(0.5 + np.outer(np.arange(1, count + 1), steps))[0]
    radius, angle = np.sqrt(-2 * np.log(uniform[:, :pairs])), 2 * np.pi * uniform[:, pairs:]
    gaussian = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)], axis=1)[:, :dimension]
    return gaussian / np.linalg.norm(gaussian, axis=1, keepdims=True)


def _monomials(
    basis: MonomialBasis, degree: int, points: Float[np.ndarray, "node param"]
) -> Float[np.ndarray, "node _"]:
    exponents = basis.exponents[basis.degree_slice(degree)]
    return np.prod(points[:, None, :] ** exponents, axis=2)


def _isotropic_scale(basis: MonomialBasis, degree: int) -> Float[np.ndarray, " coeff"]:
    """Return sqrt(k! / alpha!), with which the monomials of degree k have length 1 at every unit vector."""
    exponents = basis.exponents[basis.degree_slice(degree)].tolist()
    return np.sqrt([math.factorial(degree) / math.prod(map(math.factorial, alpha)) for alpha in exponents])

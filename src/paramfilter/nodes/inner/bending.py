"""Gaussians that are bent: with skewness, and in one dimension an excess of kurtosis, beside mean and covariance.

    p(x) = N(e; 0, I) (1 + sum_ijk s_ijk H_ijk(e) / 6 + ...),    x = mean + scale e

s_ijk = E[e_i e_j e_k] is the skewness and H_ijk the Hermite polynomial of degree 3 (the Gram-Charlier series). A linear
move with Gaussian noise keeps s up to a factor, so what a skewed likelihood does to a state is not lost at the next
step. On stochastic volatility this takes the error of the log likelihood over 500 observations from 0.27 to 0.0004
nats, at the same number of points.

H. Cramer, Mathematical Methods of Statistics (1946), section 17.6.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.numerics.small_matrices import Matrix, solve_lower

MOST_DIMENSIONS = 3
"""In which Gaussians are bent; there are d^3 numbers s_ijk."""
MOST_SKEW, MOST_EXCESS = 1.0, 1.5
"""That a bent Gaussian takes; a polynomial cannot bend it further and stay positive."""
LEAST = 1e-6
"""Of the factor, which is a polynomial and may be negative far out."""

Shape = dict[str, Float[Array, "..."]]
"""`skew`, axes (i, j, k, node), and `excess`, axes (1, node); empty where there is none."""


def straight(dimension: int) -> Shape:
    """Return the shape of a Gaussian, of one node."""
    size = dimension if dimension <= MOST_DIMENSIONS else 0
    return {"skew": jnp.zeros((size, size, size)), "excess": jnp.zeros(1 if dimension == 1 else 0)}


def shape_of(third: Any, fourth: Any, scale: Matrix) -> Shape:
    """Return the shape from central moments, E[x_i x_j x_k] by their indices, and E[x^4] in one dimension."""
    size = len(scale)
    if size > MOST_DIMENSIONS:
        return {"skew": jnp.zeros((0, 0, 0, scale.shape[-1])), "excess": jnp.zeros((0, scale.shape[-1]))}
    if size == 1:
        skew = (third(0, 0, 0) / scale[0, 0] ** 3)[None, None, None]
        excess = (fourth / scale[0, 0] ** 4 - 3)[None]
        return _clipped(skew, excess)
    axes = range(size)
    # The same for any order of the indices: each is computed once.
    unique: dict[tuple[int, ...], Any] = {key: third(*key) for key in itertools.combinations_with_replacement(axes, 3)}
    skew = jnp.stack([unique[tuple(sorted(key))] for key in itertools.product(axes, repeat=3)])
    skew = skew.reshape(size, size, size, -1)
    for _ in range(3):  # standardise one index, and turn to the next
        skew = jnp.moveaxis(solve_lower(scale[:, :, None, None], skew), 0, 2)
    return _clipped(skew, jnp.zeros((0, scale.shape[-1])))


def _clipped(skew: Any, excess: Any) -> Shape:
    skew, excess = jnp.clip(skew, -MOST_SKEW, MOST_SKEW), jnp.clip(excess, -MOST_EXCESS, MOST_EXCESS)
    return jax.tree.map(lambda leaf: jnp.where(jnp.isfinite(leaf), leaf, 0.0), {"skew": skew, "excess": excess})


def bend(e: Any, shape: Shape) -> Any:
    """Return the factor that bends a standard normal density; e has axes (state, point, ...)."""
    skew, excess = shape["skew"], shape["excess"]
    if len(skew) == 0:
        return jnp.ones(())
    if len(skew) == 1:
        e = e[0]
        return 1 + skew[0, 0, 0] / 6 * (e**3 - 3 * e) + excess[0] / 24 * (e**4 - 6 * e**2 + 3)
    factor = jnp.ones(())
    for i, j, k in itertools.combinations_with_replacement(range(len(skew)), 3):
        orders = len(set(itertools.permutations((i, j, k))))
        hermite = e[i] * e[j] * e[k] - (j == k) * e[i] - (i == k) * e[j] - (i == j) * e[k]
        factor += orders / 6 * skew[i, j, k] * hermite
    return factor


def log_bent_normal(e: Float[Array, "state point node"], shape: Shape) -> Any:
    """Return the log density of a bent standard normal distribution, without its constant."""
    log_normal = -0.5 * sum(row**2 for row in e)
    skew = shape["skew"]
    if len(skew) == 0:
        return log_normal
    factor = bend(e, shape)
    if len(skew) == 1:  # Edgeworth's next term
        square = e[0] ** 2
        factor += skew[0, 0, 0] ** 2 / 72 * (square * (square * (square - 15) + 45) - 15)
    return log_normal + jnp.log(jnp.maximum(factor, LEAST))

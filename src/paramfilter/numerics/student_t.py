"""A Student t in standard coordinates: a Gaussian with tails heavy enough that importance weights stay bounded."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from paramfilter.types import KeyArray

DEGREES_OF_FREEDOM = 8


def draw(key: KeyArray, dimension: int, dtype) -> Float[Array, " _"]:
    """Draw one point."""
    key_normal, key_scale = jax.random.split(key)
    normal = jax.random.normal(key_normal, (dimension,), dtype)
    # A chi-square with an even number of degrees of freedom is a sum of exponentials: cheap and exact.
    halves = jax.random.exponential(key_scale, (DEGREES_OF_FREEDOM // 2,), dtype)
    return normal / jnp.sqrt(2.0 * jnp.sum(halves) / DEGREES_OF_FREEDOM)


def log_density(standard: Float[Array, " _"]) -> Float[Array, ""]:
    """Return the normalised log density at a point."""
    dimension, total = standard.shape[0], DEGREES_OF_FREEDOM + standard.shape[0]
    constant = (
        gammaln(total / 2) - gammaln(DEGREES_OF_FREEDOM / 2) - 0.5 * dimension * jnp.log(DEGREES_OF_FREEDOM * jnp.pi)
    )
    return constant - 0.5 * total * jnp.log1p(jnp.sum(standard**2) / DEGREES_OF_FREEDOM)

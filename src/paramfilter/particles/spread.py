"""Where the particles' thetas are: their mean and covariance, and evenly spread points in between."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from scipy.special import ndtri

MIN_SPREAD = 1e-6
"""Floor of the particles' spread in units of the prior's, so that a collapsed population can still move."""

ROUNDING = 100
"""In units of the last place: well above what a sum over the particles loses."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Spread:
    """Mean and a factor of the covariance of the particles' theta; `whiten` needs a lower triangular factor."""

    mean: Float[Array, " param"]
    factor: Float[Array, "param param"]

    def unwhiten(self, point: Float[Array, " param"]) -> Float[Array, " param"]:
        """Map standard deviations to z."""
        return self.mean + self.factor @ point

    def whiten(self, z: Float[Array, " param"]) -> Float[Array, " param"]:
        """Map z to standard deviations."""
        return jax.scipy.linalg.solve_triangular(self.factor, z - self.mean, lower=True)


def spread_of(z: Float[Array, "particle param"], log_weights: Float[Array, " particle"], floor: np.ndarray) -> Spread:
    """Return the spread of weighted points; `floor` is the least standard deviation of each coordinate."""
    weights = jax.nn.softmax(log_weights)[:, None]
    mean = jnp.sum(weights * z, axis=0)
    centered = z - mean
    return Spread(mean, _factor((weights * centered).T @ centered + jnp.diag(jnp.asarray(floor, z.dtype) ** 2)))


def _factor(covariance: Float[Array, "param param"]) -> Float[Array, "param param"]:
    """Return the Cholesky factor; where rounding has left none, as of points on a line, that of a little more."""
    factor = jnp.linalg.cholesky(covariance)
    more = ROUNDING * jnp.finfo(covariance.dtype).eps * jnp.diag(jnp.diag(covariance))
    return jnp.where(jnp.all(jnp.isfinite(factor)), factor, jnp.linalg.cholesky(covariance + more))


def quasi_random_normals(num_points: int, dimension: int) -> np.ndarray:
    """Return evenly spread standard normal points: multiples of powers of the root of g^(d+1) = g + 1, modulo 1."""
    root = max(np.roots([1.0, *[0.0] * (dimension - 1), -1.0, -1.0]).real)
    steps = root ** -np.arange(1.0, dimension + 1)
    return ndtri((0.5 + np.arange(1, num_points + 1)[:, None] * steps) % 1.0)

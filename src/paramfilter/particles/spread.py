"""Where the particles' thetas are: their mean and covariance."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.gaussian import Gaussian, gaussian_around

MIN_SPREAD = 1e-6
"""Floor of the particles' spread in units of the prior's, so that a collapsed population can still move."""

ROUNDING = 100
"""In units of the last place: well above what a sum over the particles loses, as of points on a line."""


def spread_of(
    z: Float[Array, "particle param"], log_weights: Float[Array, " particle"], prior_sd: np.ndarray
) -> Gaussian:
    """Return the spread of weighted points; `prior_sd` is that of each coordinate."""
    floor = jnp.asarray(MIN_SPREAD * prior_sd, z.dtype) ** 2
    more = ROUNDING * jnp.finfo(z.dtype).eps
    return gaussian_around(z, jax.nn.softmax(log_weights), lambda variances: floor + more * variances)

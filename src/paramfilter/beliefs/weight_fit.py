"""Mean and covariance of weighted values by a fit to their log weights, not by an average over the values.

Values that are spread like a normal law N(m, S) and weighted by w(z) stand for the law N(z; m, S) w(z). If log w is a
quadratic, that law is normal too, and its moments follow from the quadratic's coefficients: without noise, and also if
most of its mass lies beyond the outermost value, where an average would end too soon. In s, standard coordinates of
N(m, S):

    log w = c + b . s + s^T H s / 2    makes    covariance (I - H)^{-1}    and    mean (I - H)^{-1} b.

The fit counts each value by its weight. It is for few values; many know better by themselves how far they are from a
normal law. It is not sound, and says so, if values are too few or too many, if the quadratic leaves more of the log
weights than `LARGEST_MISFIT`, or if the law would be much wider than the values are spread.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from paramfilter.beliefs.quadratic_fit import LEAST_CURVATURE, bend_of, num_quadratic_terms, quadratic_terms
from paramfilter.beliefs.spread import Spread

LARGEST_MISFIT = 0.3
"""Nats, rms by weight."""

VALUES_PER_COEFFICIENT = (2, 100)
"""Fewer cannot be fitted, and more need not be."""

RIDGE = 1e-6


def posterior_of_weights(
    spread: Spread, z: Float[Array, "particle param"], log_weights: Float[Array, " particle"]
) -> tuple[Spread, Bool[Array, ""]]:
    """Return mean and covariance of weighted values, and whether they can be trusted.

    Args:
        spread: Of the values, unweighted.
        z: The values.
        log_weights: Theirs, normalised or not; a value without any is left out.

    >>> z = jax.random.normal(jax.random.key(0), (200, 1))
    >>> spread = Spread(jnp.zeros(1), jnp.eye(1))
    >>> found, is_sound = posterior_of_weights(spread, z, -0.5 * (z[:, 0] - 4.0) ** 2)
    >>> [round(float(part[0]), 3) for part in (found.mean, found.covariance[0])]
    [2.0, 0.5]
    """
    num_values, dimension = z.shape
    fewest, most = (each * num_quadratic_terms(dimension) for each in VALUES_PER_COEFFICIENT)
    if not fewest <= num_values <= most:
        return spread, jnp.bool_(False)
    is_known = jnp.isfinite(log_weights)
    weights = jnp.where(is_known, jax.nn.softmax(jnp.where(is_known, log_weights, -jnp.inf)), 0.0)
    target = jnp.where(is_known, log_weights - jnp.max(log_weights, where=is_known, initial=-jnp.inf), 0.0)
    terms = quadratic_terms(jax.vmap(spread.to_standard)(z))
    gram = (weights[:, None] * terms).T @ terms
    coefficients = jnp.linalg.solve(gram + RIDGE * jnp.diag(jnp.diag(gram)), terms.T @ (weights * target))
    misfit = jnp.sqrt(jnp.sum(weights * (target - terms @ coefficients) ** 2))
    bend = bend_of(coefficients, dimension)
    precision = jnp.eye(dimension, dtype=z.dtype) - bend.curvature
    is_sound = (misfit < LARGEST_MISFIT) & (jnp.linalg.eigvalsh(precision)[0] > LEAST_CURVATURE)  # NaN is not
    covariance = jnp.linalg.inv(jnp.where(is_sound, precision, jnp.eye(dimension, dtype=z.dtype)))
    factor = jnp.linalg.cholesky(covariance)
    return Spread(spread.from_standard(covariance @ bend.slope), spread.factor @ factor), is_sound

"""Two beliefs made one: the even mixture of two log densities that are linear in a few numbers, projected back.

The average of two log densities keeps their shape, but not the distance between them: it is as narrow as its parts. So
the mixture is sought as

    log q = log prior + kappa (S_1 + S_2) / 2 . P + quadratic,

with a quadratic that makes mean and covariance those of the mixture, whatever ties the parameters together.

**How much of the shape stays.** A mixture is nearly one of its parts convolved with the distance between them: third
cumulants stay, while variances grow by a factor 1 / ratio. The cubic term of log q is the third cumulant divided by the
cube of the variance, so that kappa = ratio^3. With kappa = 1 the quadratic would have to cancel most of a log density
whose tails are not quadratic, and the sum turns up again far out; with kappa = 0 the mixture is just a Gaussian. On
AR(1) with unknown coefficient and noise, prototypes with powers of 0, 1.5, 3 and 10 left errors of 0.5, 0.24, 0.18 and
0.27 posterior sds in the coefficient; 18 runs rule out the first, and cannot tell the others apart
(docs/decisions/0015-mixing-several-parameters.md).

**Moments.** The Gaussians of the two parts come from `QuadraticFit`, which looks at the log density in the bulk and
misses what skewness and tails add to mean and variance. How much that is, is found once for the typical belief of the
population, by importance weights on shared points, and put back for the part of the shape that is given up.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.beliefs.log_quadratic import LogQuadratic
from paramfilter.beliefs.mean_cholesky import MeanCholesky, quasi_random_normals
from paramfilter.beliefs.quadratic_fit import QuadraticFit
from paramfilter.numerics.small_matrices import cholesky, inverse_of_lower
from paramfilter.numerics.weights import effective_sample_size

SHAPE_POWER = 3.0

NUM_POINTS = 256
WIDER = 1.2
"""Spread of the shared points, in units of the population's."""

FEWEST, ENOUGH = 10.0, 30.0
"""Effective number of shared points below which their moments are not used at all, and above which they are in full."""

LARGEST_CHANGE = 4.0
"""Factor by which the variance of a coordinate may differ from the fitted one."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MomentPoints:
    """Points over the population, in its standard coordinates, where moments are taken.

    Attributes:
        standard: The points.
        features: What multiplies the numbers of a belief there.
        log_prior: Minus infinity where a point is impossible, or not to be trusted.
        log_volume: Minus the log density of the points.
    """

    standard: Float[Array, "point param"]
    features: Float[Array, "point number"]
    log_prior: Float[Array, " point"]
    log_volume: Float[Array, " point"]

    @classmethod
    def around(cls, spread: MeanCholesky, features: Callable, log_prior: Callable) -> MomentPoints:
        """Spread points over a population."""
        normal = jnp.asarray(quasi_random_normals(NUM_POINTS, len(spread.mean)), spread.mean.dtype)
        standard = WIDER * normal
        z = jax.vmap(spread.unwhiten)(standard)
        rows, prior = jax.vmap(features)(z), jax.vmap(log_prior)(z)
        is_possible = jnp.all(jnp.isfinite(rows), axis=1) & jnp.isfinite(prior)
        return cls(
            standard,
            jnp.where(is_possible[:, None], rows, 0.0),
            jnp.where(is_possible, prior, -jnp.inf),
            0.5 * jnp.sum(normal**2, axis=1),
        )

    def moments(self, numbers: Float[Array, " number"], fitted: MeanCholesky) -> MeanCholesky:
        """Return mean and covariance of a belief: those of its fitted Gaussian plus what the points see beyond it.

        The Gaussian is weighed on the same points, so that their noise cancels.
        """
        deviations = (self.standard - fitted.mean) @ inverse_of_lower(cholesky(fitted.covariance)).T
        ours = self.log_volume + self.log_prior + self.features @ numbers
        its = self.log_volume - 0.5 * jnp.sum(deviations**2, axis=1)
        effective = jnp.minimum(*(effective_sample_size(weights) for weights in (ours, its)))
        trust = jnp.clip((effective - FEWEST) / (ENOUGH - FEWEST), 0.0, 1.0)
        (mean, covariance), (its_mean, its_covariance) = self._first_two(ours), self._first_two(its)
        new = fitted.covariance + trust * (covariance - its_covariance)
        change = jnp.diagonal(new) / jnp.diagonal(fitted.covariance)
        factor = cholesky(new)
        is_sound = jnp.all((change > 1 / LARGEST_CHANGE) & (change < LARGEST_CHANGE)) & jnp.all(jnp.isfinite(factor))
        return MeanCholesky(
            fitted.mean + jnp.where(is_sound, trust * (mean - its_mean), 0.0),
            jnp.where(is_sound, factor, cholesky(fitted.covariance)),
        )

    def _first_two(self, log_weights: Float[Array, " point"]):
        weights = jax.nn.softmax(log_weights)
        mean = weights @ self.standard
        centerd = self.standard - mean
        return mean, (weights[:, None] * centerd).T @ centerd


def project_mixture(
    fit: QuadraticFit,
    points: MomentPoints,
    first: Float[Array, " number"],
    second: Float[Array, " number"],
    num_values: int,
) -> tuple[Float[Array, ""], LogQuadratic]:
    """Return kappa and the quadratic, in standard coordinates of the fit.

    Args:
        fit: Of the population's beliefs.
        points: Over the same population.
        first: The numbers of one belief.
        second: Those of the other.
        num_values: How many of the numbers come first and are S; the others are an earlier quadratic.
    """
    both = jax.vmap(fit.standard_gaussian)(jnp.stack([first, second]))
    one, other = (jax.tree.map(lambda leaf, which=which: leaf[which], both) for which in (0, 1))
    mixture = one.blended(other, 0.5)
    share = _share_of_shape(both, mixture)
    fitted = fit.standard_gaussian(fit.typical)
    right = points.moments(fit.typical, fitted)
    stretch = right.factor @ inverse_of_lower(cholesky(fitted.covariance))
    identity = jnp.eye(len(stretch), dtype=stretch.dtype)
    wanted = MeanCholesky(
        mixture.mean + (1 - share) * (right.mean - fitted.mean),
        (identity + (1 - share) * (stretch - identity)) @ mixture.factor,
    )
    shape = jnp.zeros_like(first).at[:num_values].set(0.5 * share * (first + second)[:num_values])
    return share, LogQuadratic.of_gaussian(wanted).minus(fit.quadratic(shape))


def _share_of_shape(both: MeanCholesky, mixture: MeanCholesky) -> Float[Array, ""]:
    """Return kappa, with the product of the ratios along all directions for the ratio."""
    average_precision = -jnp.mean(jax.vmap(LogQuadratic.of_gaussian)(both).curvature, axis=0)
    factors = jax.vmap(cholesky)(jnp.stack([average_precision, mixture.covariance]))
    log_ratio = -2 * jnp.sum(jnp.log(jnp.diagonal(factors, axis1=1, axis2=2)))
    return jnp.exp(SHAPE_POWER * jnp.minimum(log_ratio, 0.0))

"""A Gaussian for each belief of a population, by one least-squares fit that all of them share.

Around the particles' spread, s = standard coordinates, a log density that is linear in a statistic S,

    log q(s) = prior(s) + S . P(s)  ~  c + b . s - s^T A s / 2,

has coefficients that are linear in S too: (c, b, A) = offset + map S. The map needs P at a few fixed points only, and
then serves every particle. The Gaussian has mean A^{-1} b and covariance A^{-1}; where A is not positive, small or
negative curvatures are lifted to `LEAST_CURVATURE`, for no belief is to be taken as much wider than the region. If
the typical belief is no quadratic on any region, the population's own Gaussian stands for every belief.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from paramfilter.beliefs.log_quadratic import LogQuadratic
from paramfilter.beliefs.mean_cholesky import MeanCholesky, quasi_random_normals
from paramfilter.numerics.small_matrices import inverse_of_lower

POINTS_PER_COEFFICIENT = 3

TEMPER = 0.5
DEEPEST = 7.0
"""A point of the fit counts with this power of the typical belief, but never less than exp(-DEEPEST)."""

RIDGE = 1e-5

LARGEST_MISFIT = 1.0
"""Rms of what a quadratic leaves of the typical belief, in nats, above which it is not used."""
LEAST_CURVATURE = 0.2
OUTSIDE = 20.0
"""Nats below its lowest value that the prior is given outside its support."""

ZOOMS = (1.0, 0.3, 0.1, 0.03)
"""Regions that are tried one after the other, in units of the population's spread."""

FARTHEST_MEAN = 4.0
"""In standard deviations of the population, a coordinate; a fit that says more is not to be trusted."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class QuadraticFit:
    """The fit: `offset + map @ statistic` are the coefficients of 1, s_i and s_i s_j.

    `typical` is the statistic by whose belief the points of the fit were weighed, and `is_good` tells whether that
    belief is a quadratic over the whole population; if not, `spread` may be narrower.
    """

    spread: MeanCholesky
    offset: Float[Array, " coeff"]
    map: Float[Array, "coeff pivot"]
    typical: Float[Array, " pivot"]
    is_good: Bool[Array, ""]

    @classmethod
    def around(
        cls, spread: MeanCholesky, log_prior: Callable, weights: Callable, typical: Float[Array, " pivot"]
    ) -> QuadraticFit:
        """Fit beliefs of the form `log_prior(z) + statistic . weights(z)` around a spread, or around a narrower one.

        `typical` is the population's mean statistic: points where its belief is low count for less, since a cliff far
        from the bulk would bend the fit. Where paths disagree, beliefs are much narrower than the population and no
        quadratic fits over all of it: then the fit is tried again on smaller regions, around the best point so far.
        """
        standard_normal = jnp.asarray(_standard_normal(len(spread.mean)), spread.mean.dtype)
        no_map = jnp.zeros((len(standard_normal), len(typical)), spread.mean.dtype)
        nothing = _Attempt(spread, standard_normal, no_map, jnp.bool_(False))

        def closer(carry, zoom):
            found, center = carry
            attempt, best = _fitted(MeanCholesky(center, zoom * spread.factor), log_prior, weights, typical)
            stays = found.is_sound | ~attempt.is_sound
            kept = jax.tree.map(lambda old, new: jnp.where(stays, old, new), found, attempt)
            return (kept, best), attempt.is_sound

        (found, _), sound = jax.lax.scan(closer, (nothing, spread.mean), jnp.asarray(ZOOMS, spread.mean.dtype))
        return cls(found.spread, found.offset, found.map, typical, sound[0])

    def gaussian(
        self, statistic: Float[Array, " pivot"]
    ) -> tuple[Float[Array, " param"], Float[Array, "param param"], Float[Array, "param param"]]:
        """Return mean, a factor of the covariance, and the factor's inverse, in z."""
        mean, inverse, lower = self._standard(statistic)
        whitener = inverse_of_lower(self.spread.factor)
        return self.spread.unwhiten(mean), self.spread.factor @ inverse.T, lower.T @ whitener

    def standard_gaussian(self, statistic: Float[Array, " pivot"]) -> MeanCholesky:
        """Return mean and a factor of the covariance, in standard coordinates."""
        mean, inverse, _ = self._standard(statistic)
        return MeanCholesky(mean, inverse.T)

    def quadratic(self, statistic: Float[Array, " pivot"]) -> LogQuadratic:
        """Return the quadratic in standard coordinates, as it was fitted."""
        return bend_of(self.offset + self.map @ statistic, len(self.spread.mean))

    def _standard(self, statistic: Float[Array, " pivot"]):
        """Return the mean in standard coordinates, the inverse of the precision's Cholesky factor, and the factor."""
        quadratic = self.quadratic(statistic)
        lower = lifted_cholesky(-quadratic.curvature)
        inverse = inverse_of_lower(lower)
        return jnp.clip(inverse.T @ (inverse @ quadratic.slope), -FARTHEST_MEAN, FARTHEST_MEAN), inverse, lower


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Attempt:
    """A fit around one spread, and whether the typical belief is a quadratic there."""

    spread: MeanCholesky
    offset: Float[Array, " coeff"]
    map: Float[Array, "coeff pivot"]
    is_sound: Bool[Array, ""]


def _fitted(
    spread: MeanCholesky, log_prior: Callable, weights: Callable, typical: Float[Array, " pivot"]
) -> tuple[_Attempt, Float[Array, " param"]]:
    """Fit around one spread; return also the point where the typical belief is highest."""
    points = jnp.asarray(_points(len(spread.mean)), spread.mean.dtype)
    features = quadratic_terms(points)
    z = jax.vmap(spread.unwhiten)(points)
    prior, rows = jax.vmap(log_prior)(z), jax.vmap(weights)(z)
    is_known = jnp.isfinite(prior)
    lowest = jnp.min(jnp.where(is_known, prior, jnp.inf))
    # Outside the prior's support the fit is told that the density is low there, not that it vanishes.
    prior = jnp.where(is_known, prior, lowest - OUTSIDE)
    is_possible = jnp.all(jnp.isfinite(rows), axis=1)
    rows = jnp.where(is_possible[:, None], rows, 0.0)
    log_density = jnp.where(is_possible, prior + rows @ typical, -jnp.inf)
    importance = jnp.exp(jnp.maximum(TEMPER * (log_density - jnp.max(log_density)), -DEEPEST))
    importance = jnp.where(is_possible, importance, 0.0)
    log_density_or_zero = jnp.where(is_possible, log_density, 0.0)
    weighted = features * importance[:, None]
    gram = weighted.T @ features
    ridge = RIDGE * jnp.trace(gram) / len(gram) * jnp.eye(len(gram), dtype=gram.dtype)
    solver = jnp.linalg.solve(gram + ridge, weighted.T)
    misfit = (features @ (solver @ log_density_or_zero) - log_density_or_zero) * jnp.sqrt(importance)
    is_sound = jnp.sum(misfit**2) < LARGEST_MISFIT**2 * jnp.sum(importance)
    return _Attempt(spread, solver @ prior, solver @ rows, is_sound), z[jnp.argmax(log_density)]


def num_quadratic_terms(dimension: int) -> int:
    """Return how many coefficients a quadratic has."""
    return (dimension + 1) * (dimension + 2) // 2


def quadratic_terms(points: Float[Array, "point param"]) -> Float[Array, "point coeff"]:
    """Return 1, s_i and s_i s_j of each point."""
    rows, columns = np.triu_indices(points.shape[1])
    ones = jnp.ones((len(points), 1), points.dtype)
    return jnp.concatenate([ones, points, points[:, rows] * points[:, columns]], axis=1)


def bend_of(coefficients: Float[Array, " coeff"], dimension: int) -> LogQuadratic:
    """Return slope and curvature of a quadratic, from its coefficients in `quadratic_terms`."""
    rows, columns = np.triu_indices(dimension)
    upper = jnp.zeros((dimension, dimension), coefficients.dtype).at[rows, columns].set(coefficients[1 + dimension :])
    return LogQuadratic(coefficients[1 : 1 + dimension], upper + upper.T)


def lifted_cholesky(matrix: Float[Array, "param param"]) -> Float[Array, "param param"]:
    """Return a lower Cholesky factor, with pivots below `LEAST_CURVATURE` lifted to it.

    Written out column by column: for many small matrices at once this is much faster than a library call for each.
    """
    dimension = matrix.shape[0]
    lower = jnp.zeros_like(matrix)
    for column in range(dimension):
        rest = matrix[:, column] - lower @ lower[column]
        pivot = rest[column]
        is_sound = pivot > LEAST_CURVATURE
        root = jnp.sqrt(jnp.where(is_sound, pivot, LEAST_CURVATURE))
        # A lifted pivot says that this direction is not understood: leave it uncorrelated with the later ones.
        values = jnp.where(is_sound, rest / root, 0.0).at[column].set(root)
        lower = lower.at[:, column].set(jnp.where(np.arange(dimension) >= column, values, 0.0))
    return lower


@lru_cache(maxsize=32)
def _points(dimension: int) -> np.ndarray:
    """Return fixed points in standard coordinates."""
    return quasi_random_normals(POINTS_PER_COEFFICIENT * num_quadratic_terms(dimension) + 8, dimension)


def _standard_normal(dimension: int) -> np.ndarray:
    """Return the coefficients of -|s|^2 / 2."""
    rows, columns = np.triu_indices(dimension)
    return np.concatenate([np.zeros(1 + dimension), np.where(rows == columns, -0.5, 0.0)])

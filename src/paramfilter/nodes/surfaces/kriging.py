"""Kriging: the log likelihood as a Gaussian process through its values at few nodes.

    log L(z) = top - |u|^2 / 2 + trend(u) + g(u)        u = z in standard coordinates of the posterior

A Gaussian posterior needs neither trend nor g. The trend is a quadratic whose coefficients have a Gaussian prior; g has
the covariance A^2 exp(-|u - v|^2 / 2 LENGTH^2). The mean given the nodes' values goes through them, to an error that
may grow with a node's distance from the top. The standard deviation says how far a point is from where nodes know
something: a part of it is taken off the mean, so that a surface promises nothing there.

With 128 nodes and three parameters it is three to four times closer than weighted nodes alone, where polynomials that
so few nodes can carry are further off (`docs/decisions/0040-few-nodes.md`). All matrices are conditioned for single
precision.

C. Rasmussen and C. Williams, Gaussian Processes for Machine Learning, 2006, sections 2.7 and 5.4.2.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
from jaxtyping import Bool, Float

from paramfilter.nodes.proposals import normal_of
from paramfilter.nodes.surfaces.base import DEEPEST, REACH, Surface
from paramfilter.nodes.surfaces.polynomial import features
from paramfilter.polynomials.monomials import MonomialBasis
from paramfilter.tracing import is_traced, numbers
from paramfilter.types import Numbers

LENGTH = 2.5
"""Of the covariance, in posterior sds."""
AMPLITUDE, TREND = 3.0, 3.0
"""Standard deviations in nats: of g, and of each coefficient of the trend, at REACH posterior sds."""
NEAR, FAR = 0.02, 0.05
"""Error in nats that is allowed at the top, and what is added for each nat below it."""
FARTHEST = 8.0
"""Posterior sds from the mean beyond which nodes do not count, and nothing is said."""
CAUTION = 0.5
"""Standard deviations that are taken off the mean."""
LARGEST_DOUBT = 3.0
"""Standard deviation in nats up to which a point is inside."""
ROUNDING = 3e-5
NOTHING = 1e3
"""Relative error of nodes that do not count."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Kriging(Surface):
    """A Gaussian process given the nodes.

    Attributes:
        u: The nodes, in standard coordinates.
        half: H with H'H the inverse of the covariance of g at the nodes, errors included, over A^2.
        pulled: H'H times the trend's monomials at the nodes.
        gram: Covariance of the trend's coefficients, over A^2.
        pull: What each node contributes to g.
        coefficients: Of the trend.
    """

    u: Float[Numbers, "node param"]
    half: Float[Numbers, "node node"]
    pulled: Float[Numbers, "node coeff"]
    gram: Float[Numbers, "coeff coeff"]
    pull: Float[Numbers, " node"]
    coefficients: Float[Numbers, " coeff"]

    def at(self, z: Float[Numbers, "point param"]) -> tuple[Float[Numbers, " point"], Bool[Numbers, " point"]]:
        xp = numbers(self, z)
        u, is_near = _standard(self, z)
        near, left = self._apart(u)
        mean = near @ self.pull + _quadratic(u) @ self.coefficients - 0.5 * xp.sum(u**2, axis=1)
        variance = 1 - xp.sum((near @ self.half.T) ** 2, axis=1) + xp.sum((left @ self.gram) * left, axis=1)
        doubt = AMPLITUDE * xp.sqrt(xp.maximum(variance, 0.0))
        return self.top + mean - CAUTION * doubt, is_near & (doubt < LARGEST_DOUBT)

    def shares(
        self, z: Float[Numbers, "point param"], nodes: Float[Numbers, "node param"], is_core: Bool[Numbers, " node"]
    ) -> Float[Numbers, "point node"]:
        near, left = self._apart(_standard(self, z)[0])
        return (near @ self.half.T @ self.half + left @ self.gram @ self.pulled.T) * is_core

    def _apart(self, u: Any) -> tuple[Any, Any]:
        """Return covariances with the nodes, and what the nodes leave open of the trend."""
        near = _covariance(u, self.u)
        return near, _quadratic(u) - near @ self.pulled


def fit_kriging(
    z: Float[Numbers, "node param"],
    log_likelihood: Float[Numbers, " node"],
    log_prior: Float[Numbers, " node"],
    weights: Float[Numbers, " node"],
) -> Kriging:
    """Condition the process on weighted nodes."""
    xp = numbers(z, log_likelihood, weights)
    log_posterior = log_prior + log_likelihood
    best, top = xp.max(log_posterior), log_likelihood[xp.argmax(log_posterior)]
    drop = best - log_posterior
    around = normal_of(z, weights)
    u = around.standard(z)
    counts = (drop < DEEPEST) & (xp.sum(u**2, axis=1) < FARTHEST**2)
    u = xp.where(counts[:, None], u, 0.0)
    target = xp.where(counts, log_likelihood - top + 0.5 * xp.sum(u**2, axis=1), 0.0)
    error = xp.where(counts, (NEAR + FAR * drop) / AMPLITUDE, NOTHING)
    half = _inverse_factor(_covariance(u, u) + xp.diag(error**2 + ROUNDING))
    trend = _quadratic(u)
    pulled = half.T @ (half @ trend)
    unit = xp.eye(trend.shape[1], dtype=trend.dtype)
    gram = xp.linalg.inv(trend.T @ pulled + (AMPLITUDE / TREND) ** 2 * unit)
    coefficients = gram @ (pulled.T @ target)
    pull = half.T @ (half @ target) - pulled @ coefficients
    precision = xp.sum(half**2, axis=0) - xp.sum((pulled @ gram) * pulled, axis=1)
    left_out = xp.where(counts, pull / xp.maximum(precision, ROUNDING), 0.0)
    misfit = xp.sqrt(xp.sum(weights * left_out**2))
    return Kriging(around, top, best, misfit, left_out, u, half, pulled, gram, pull, coefficients)


def _standard(surface: Kriging, z: Any) -> tuple[Any, Any]:
    """Return standard coordinates, drawn back to what is near, and whether they were near."""
    xp = numbers(surface, z)
    u = surface.around.standard(z)
    length = xp.sqrt(xp.sum(u**2, axis=1, keepdims=True))
    return u * xp.minimum(1.0, FARTHEST / xp.maximum(length, 1.0)), length[:, 0] < FARTHEST


def _covariance(u: Any, v: Any) -> Float[Numbers, "point node"]:
    """Return the covariance of g between points, over A^2."""
    xp = numbers(u, v)
    squares = xp.sum(u**2, axis=1)[:, None] + xp.sum(v**2, axis=1) - 2 * u @ v.T
    return xp.exp(-0.5 * xp.maximum(squares, 0.0) / LENGTH**2)


def _inverse_factor(matrix: Any) -> Float[Numbers, "node node"]:
    """Return H with H'H the inverse of a covariance."""
    xp = numbers(matrix)
    factor, unit = xp.linalg.cholesky(matrix), xp.eye(len(matrix), dtype=matrix.dtype)
    if is_traced(matrix):
        return jax.scipy.linalg.solve_triangular(factor, unit, lower=True)
    return xp.linalg.inv(factor)


def _quadratic(u: Any) -> Float[Numbers, "point coeff"]:
    """Return the trend's monomials."""
    return features(u / REACH, MonomialBasis(u.shape[1], 2).size)

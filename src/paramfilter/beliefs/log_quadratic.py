"""A quadratic beside a belief."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.beliefs.mean_cholesky import MeanCholesky
from paramfilter.numerics.small_matrices import cholesky, inverse_of_lower


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class LogQuadratic:
    """slope . s + s^T curvature s / 2, in standard coordinates s of some spread."""

    slope: Float[Array, " param"]
    curvature: Float[Array, "param param"]

    @classmethod
    def none(cls, dimension: int) -> LogQuadratic:
        """Return zero."""
        return cls(jnp.zeros(dimension), jnp.zeros((dimension, dimension)))

    @classmethod
    def of_gaussian(cls, gaussian: MeanCholesky) -> LogQuadratic:
        """Return the log density of a Gaussian, but for its constant."""
        whitener = inverse_of_lower(cholesky(gaussian.covariance))
        precision = whitener.T @ whitener
        return cls(precision @ gaussian.mean, -precision)

    @staticmethod
    def features(point: Float[Array, " param"]) -> Float[Array, " coefficient"]:
        """Return what multiplies the slope and the curvature's entries, one after the other."""
        return jnp.concatenate([point, 0.5 * jnp.ravel(jnp.outer(point, point))])

    @property
    def coefficients(self) -> Float[Array, " coefficient"]:
        """Slope and curvature in the order of `features`."""
        return jnp.concatenate([self.slope, jnp.ravel(self.curvature)])

    def at(self, point: Float[Array, " param"]) -> Float[Array, ""]:
        """Return the value at a point."""
        return jnp.dot(self.slope + 0.5 * self.curvature @ point, point)

    def minus(self, other: LogQuadratic) -> LogQuadratic:
        """Return the difference."""
        return jax.tree.map(jnp.subtract, self, other)

    def change_coordinates(self, old: MeanCholesky, new: MeanCholesky) -> LogQuadratic:
        """Return the same quadratic, but for a constant, in standard coordinates of another spread."""
        turn = jax.scipy.linalg.solve_triangular(old.factor, new.factor, lower=True)
        shift = old.whiten(new.mean)
        return LogQuadratic(turn.T @ (self.slope + self.curvature @ shift), turn.T @ self.curvature @ turn)

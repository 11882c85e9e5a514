"""Exact posteriors of one Gaussian regression block, each as a small sufficient statistic.

With delta = beta - (prior mean), whitened residuals r and whitened design F (one row a response), a step adds

    precision += F^T F,   shift += F^T r,   square += r^T r,   count += number of observed responses,

as compensated sums. K is the Cholesky factor of the prior covariance of beta.

- `KnownVariance`: delta | data is Gaussian with precision K^-T K^-1 + precision. This is the Kalman update of the
  paper's appendix (Storvik's recursion) in information form.
- `VarianceOnly`: v | data ~ InverseGamma(a + count/2, b + square/2).
- `CoefficientsAndVariance`: independent priors N(beta) InverseGamma(v). In the eigenbasis of K^T precision K = U g
  U^T, with k = U^T K^T shift, beta integrates out and log v has the one-dimensional density

      -(a + count/2) log v - (b + (square - sum k^2/(v + g))/2) / v - 1/2 sum log(1 + g/v),

  which is drawn exactly by `inverse_cdf`; then beta given v is Gaussian. (The textbook's normal-inverse-gamma prior
  ties the spread of beta to v; here the user's priors stay independent, as written.)
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import gammaln
from jaxtyping import Array, Float

from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.numerics.small_matrices import cholesky, solve_lower, solve_upper
from paramfilter.particles.inverse_cdf import CdfTable, tabulate
from paramfilter.types import KeyArray

HALF_LOG_TWO_PI = 0.5 * np.log(2 * np.pi)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Sums:
    """What a particle remembers of a block: coefficients need the first two, a variance the others."""

    precision: CompensatedSum
    shift: CompensatedSum
    square: CompensatedSum
    count: CompensatedSum

    @classmethod
    def start(cls, size: int) -> Sums:
        """Return the sums of no data."""
        return cls(*(CompensatedSum.start(jnp.zeros(shape)) for shape in ((size, size), size, (), ())))

    def add(self, residual: Array, design: Array, count: Array) -> Sums:
        """Add one step."""
        terms = design.T @ design, design.T @ residual, jnp.sum(residual**2), count
        sums = self.precision, self.shift, self.square, self.count
        return Sums(*(one.add(term) for one, term in zip(sums, terms, strict=True)))


Value = Float[Array, " coordinate"]
"""Of a block: delta, and after it log v if the variance is unknown."""


@dataclass(frozen=True, eq=False)
class BlockPosterior(abc.ABC):
    """The posterior of one block as a function of its sums.

    Args:
        prior_factor: K.
        shape: Of the prior of an unknown variance: a.
        rate: Its b.
    """

    prior_factor: np.ndarray
    shape: float = np.nan
    rate: float = np.nan

    @abc.abstractmethod
    def sample(self, key: KeyArray, sums: Sums) -> Value:
        """Draw the block's parameters exactly."""

    @abc.abstractmethod
    def moments(self, sums: Sums) -> tuple[Value, Value]:
        """Return means and variances of delta and of v itself."""

    @abc.abstractmethod
    def log_prob(self, sums: Sums, value: Value) -> Float[Array, ""]:
        """Return the normalised log density of (delta, log v)."""


class KnownVariance(BlockPosterior):
    """Coefficients with known noise."""

    def sample(self, key, sums):
        prior_factor, mean, posterior_factor = self._solve(sums)
        normal = jax.random.normal(key, mean.shape, mean.dtype)
        # posterior_factor is lower Cholesky of I + K^T precision K, so its inverse transpose colours the noise.
        noise = solve_upper(posterior_factor, normal)
        return prior_factor @ (mean + noise)

    def moments(self, sums):
        prior_factor, mean, posterior_factor = self._solve(sums)
        root = solve_lower(posterior_factor, prior_factor.T)
        return prior_factor @ mean, jnp.sum(root**2, axis=0)

    def log_prob(self, sums, value):
        prior_factor, mean, posterior_factor = self._solve(sums)
        whitened = solve_lower(prior_factor, value) - mean
        white = posterior_factor.T @ whitened
        log_scale = jnp.sum(jnp.log(jnp.diagonal(posterior_factor))) - jnp.sum(jnp.log(jnp.diagonal(prior_factor)))
        return -0.5 * jnp.sum(white**2) + log_scale - len(white) * HALF_LOG_TWO_PI

    def _solve(self, sums):
        """Return K, the posterior mean of K^-1 delta, and the Cholesky factor of its precision."""
        precision, shift = sums.precision.value, sums.shift.value
        prior_factor = jnp.asarray(self.prior_factor, shift.dtype)
        inner = jnp.eye(len(shift), dtype=shift.dtype) + prior_factor.T @ precision @ prior_factor
        posterior_factor = cholesky(inner)
        mean = solve_upper(posterior_factor, solve_lower(posterior_factor, prior_factor.T @ shift))
        return prior_factor, mean, posterior_factor


class VarianceOnly(BlockPosterior):
    """A noise variance and no coefficients."""

    def sample(self, key, sums):
        shape, rate = self._posterior(sums)
        return (jnp.log(rate) - jax.random.loggamma(key, shape, dtype=shape.dtype))[None]

    def moments(self, sums):
        shape, rate = self._posterior(sums)
        mean = jnp.where(shape > 1, rate / jnp.maximum(shape - 1, 1e-30), jnp.inf)
        variance = jnp.where(shape > 2, mean**2 / jnp.maximum(shape - 2, 1e-30), jnp.inf)
        return mean[None], variance[None]

    def log_prob(self, sums, value):
        shape, rate = self._posterior(sums)
        log_variance = value[0]
        return shape * jnp.log(rate) - gammaln(shape) - shape * log_variance - rate * jnp.exp(-log_variance)

    def _posterior(self, sums):
        square, count = sums.square.value, sums.count.value
        return self.shape + 0.5 * count, self.rate + 0.5 * square


class CoefficientsAndVariance(BlockPosterior):
    """Coefficients and the variance of their noise, with independent priors."""

    def sample(self, key, sums):
        key_variance, key_delta = jax.random.split(key)
        rotation, gains, pulls, table = self._tabulate(sums)
        log_variance = table.invert(jax.random.uniform(key_variance, dtype=gains.dtype))
        mean, variance = _given_variance(jnp.exp(log_variance), gains, pulls)
        delta = rotation @ (mean + jnp.sqrt(variance) * jax.random.normal(key_delta, mean.shape, mean.dtype))
        return jnp.append(delta, log_variance)

    def moments(self, sums):
        rotation, gains, pulls, table = self._tabulate(sums)
        variances = jnp.exp(table.points)
        means, spreads = jax.vmap(lambda v: _given_variance(v, gains, pulls))(variances)
        means, spreads = means @ rotation.T, spreads @ (rotation**2).T
        delta_mean = table.weights @ means
        delta_variance = table.weights @ (spreads + (means - delta_mean) ** 2)
        variance_mean = table.weights @ variances
        variance_variance = table.weights @ (variances - variance_mean) ** 2
        return jnp.append(delta_mean, variance_mean), jnp.append(delta_variance, variance_variance)

    def log_prob(self, sums, value):
        rotation, gains, pulls, table = self._tabulate(sums)
        log_variance = value[-1]
        mean, variance = _given_variance(jnp.exp(log_variance), gains, pulls)
        coordinates = jnp.linalg.solve(rotation, value[:-1])
        gaussian = (
            -0.5 * jnp.sum((coordinates - mean) ** 2 / variance + jnp.log(variance)) - len(mean) * HALF_LOG_TWO_PI
        )
        log_volume = jnp.sum(jnp.log(jnp.abs(jnp.diagonal(jnp.asarray(self.prior_factor, gains.dtype)))))
        marginal = self._log_marginal(sums, gains, pulls)(log_variance[None]) - table.log_normaliser
        return marginal + gaussian - log_volume

    def _tabulate(self, sums) -> tuple[Array, Array, Array, CdfTable]:
        """Return K U, the eigenvalues g, the pulls k, and the table of the density of log v."""
        rotation, gains, pulls = self._eigenbasis(sums)
        low, high = self._window(sums, gains, pulls)
        table = tabulate(self._log_marginal(sums, gains, pulls), low[None], high[None])
        return rotation, gains, pulls, table

    def _eigenbasis(self, sums) -> tuple[Array, Array, Array]:
        """Return K U, the eigenvalues g and the pulls k."""
        prior_factor = jnp.asarray(self.prior_factor, sums.shift.total.dtype)
        inner = prior_factor.T @ sums.precision.value @ prior_factor
        pull = prior_factor.T @ sums.shift.value
        if len(self.prior_factor) == 1:
            gains, rotation, pulls = inner[0], prior_factor, pull
        else:
            gains, vectors = jnp.linalg.eigh(inner)
            rotation, pulls = prior_factor @ vectors, vectors.T @ pull
        return rotation, jnp.maximum(gains, 0.0), pulls

    def _log_marginal(self, sums, gains, pulls):
        shape = self.shape + 0.5 * sums.count.value
        square = sums.square.value

        def log_density(log_variance):
            variance = jnp.exp(log_variance[0])
            left_over = jnp.maximum(square - jnp.sum(pulls**2 / (variance + gains)), 0.0)
            return (
                -shape * log_variance[0]
                - (self.rate + 0.5 * left_over) / variance
                - 0.5 * jnp.sum(jnp.log1p(gains / variance))
            )

        return log_density

    def _window(self, sums, gains, pulls):
        """Return a generous window of log v: between no and all of the square explained, plus both tails.

        The right tail falls like exp(-shape log v), the left one faster than any exponential.
        """
        shape = self.shape + 0.5 * sums.count.value
        square = sums.square.value
        explained = jnp.sum(pulls**2 / jnp.where(gains > 0, gains, jnp.inf))
        smallest = (self.rate + 0.5 * jnp.maximum(square - explained, 0.0)) / (shape + 1 + 0.5 * len(gains))
        largest = (self.rate + 0.5 * square) / shape
        margin = 40.0 / shape + 12.0 / jnp.sqrt(shape)
        return jnp.log(smallest) - margin, jnp.log(largest) + margin


def _given_variance(variance, gains, pulls):
    """Return mean and variance of the rotated, scaled coefficients given v."""
    return pulls / (variance + gains), variance / (variance + gains)

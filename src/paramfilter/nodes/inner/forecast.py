"""Forecasts of an observation: where it lies in them, and their mean and variance, component by component."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.types import Observation

LEAST_KNOWN = 0.5
"""Weight of the parts of a mixture that must know a number."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Forecast:
    """What is foretold of each component of y; NaN where a distribution does not know it.

    Attributes:
        lower: P(Y < y).
        upper: P(Y <= y): the same for a distribution without atoms.
        mean: E Y.
        variance: Var Y.
    """

    lower: Float[Array, "obs ..."]
    upper: Float[Array, "obs ..."]
    mean: Float[Array, "obs ..."]
    variance: Float[Array, "obs ..."]

    def averaged(self, weights: Float[Array, "part ..."]) -> Forecast:
        """Return the forecast of a mixture; the second axis is its parts, and weights sum to one over them.

        Parts that do not know a number (NaN) are left out if they are few: far out, a mean can underflow to 0.
        """

        def average(values):
            known = jnp.where(jnp.isnan(values), 0.0, weights)
            total = jnp.sum(known, axis=1)
            mean = jnp.sum(jnp.where(known != 0, known * values, 0.0), axis=1) / total
            return jnp.where(total > LEAST_KNOWN, mean, jnp.nan)

        mean = average(self.mean)
        variance = average(self.variance + (self.mean - mean[:, None]) ** 2)
        return Forecast(average(self.lower), average(self.upper), mean, variance)


def normal_forecast(
    mean: Float[Array, "obs ..."], variance: Float[Array, "obs ..."], y: Float[Array, "obs ..."]
) -> Forecast:
    """Return the forecast of Gaussian components."""
    below = norm.cdf(y, mean, jnp.sqrt(variance))
    return Forecast(below, below, mean, variance)


def forecast_of(law: distributions.DistributionTree, y: Observation) -> Forecast:
    """Return the forecast that a tree of distributions is."""
    leaves = jax.tree.leaves(law, is_leaf=distributions.is_distribution)
    parts = [_forecast_of_leaf(leaf, value) for leaf, value in zip(leaves, jax.tree.leaves(y), strict=True)]
    return jax.tree.map(lambda *each: jnp.concatenate(each), *parts)


def _forecast_of_leaf(law: Any, y: Any) -> Forecast:
    inner = distributions.components(law)
    whole = lambda values: jnp.ravel(jnp.broadcast_to(values, jnp.shape(y))).astype(float)
    if isinstance(inner, dist.MultivariateNormal):
        return normal_forecast(whole(inner.mean), whole(inner.variance), jnp.ravel(y))
    try:
        upper = inner.cdf(y)
        atom = jnp.exp(inner.log_prob(y)) if getattr(inner.support, "is_discrete", False) else 0.0
    except (NotImplementedError, ImportError, ValueError):
        upper, atom = jnp.nan, 0.0
    try:
        mean, variance = inner.mean, inner.variance
    except NotImplementedError:
        mean, variance = jnp.nan, jnp.nan
    return Forecast(whole(upper - atom), whole(upper), whole(mean), whole(variance))

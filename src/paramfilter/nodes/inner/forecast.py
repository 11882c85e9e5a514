"""Where an observation lies in its forecast: P(Y < y) and P(Y <= y) of each component, by the laws' own functions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpyro.distributions as dist
from jax.scipy.stats import norm
from jaxtyping import Array, Float

from paramfilter import distributions
from paramfilter.types import Observation

Bounds = tuple[Float[Array, "obs ..."], Float[Array, "obs ..."]]
"""P(Y < y) and P(Y <= y): the same for a law without atoms; NaN for a law whose function is not known."""


def bounds_of(law: distributions.DistributionTree, y: Observation) -> Bounds:
    """Return where y lies in a tree of laws."""
    leaves = jax.tree.leaves(law, is_leaf=distributions.is_distribution)
    parts = [_bounds_of_leaf(leaf, value) for leaf, value in zip(leaves, jax.tree.leaves(y), strict=True)]
    lower, upper = zip(*parts, strict=True)
    return jnp.concatenate(lower), jnp.concatenate(upper)


def _bounds_of_leaf(law: Any, y: Any) -> Bounds:
    inner = distributions.components(law)
    if isinstance(inner, dist.MultivariateNormal):
        sd = jnp.sqrt(jnp.diagonal(jnp.asarray(inner.covariance_matrix)))
        below = norm.cdf(y, inner.mean, sd)
        return jnp.ravel(below), jnp.ravel(below)
    try:
        upper = jnp.broadcast_to(inner.cdf(y), jnp.shape(y))
        atom = jnp.exp(inner.log_prob(y)) if getattr(inner.support, "is_discrete", False) else 0.0
    except (NotImplementedError, ImportError, ValueError):
        upper, atom = jnp.full(jnp.shape(y), jnp.nan), 0.0
    return jnp.ravel(upper - atom), jnp.ravel(upper)

"""A model speaks in distributions, one or a pytree of them; this file samples and scores such trees.

A state or an observation may be a pytree: then `transition` or `observation` returns a pytree of distributions of the
same structure, independent of each other given the past. A distribution is anything with `sample(key)` and
`log_prob(value)`; numpyro's are meant.

Missing observations are NaN. Where a distribution factorises over components (a batch, or `to_event` of one), each
missing component simply drops out. A `MultivariateNormal` is marginalised exactly. Any other joint distribution can be
missing as a whole; missing in part it is refused where the data come in, and returns NaN inside compiled code.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Bool, Float, PyTree

from paramfilter.types import KeyArray

DistributionTree = PyTree
"""A distribution, or a pytree with distributions as leaves."""


def is_distribution(value: Any) -> bool:
    """Tell whether `value` can be sampled and scored."""
    return hasattr(value, "sample") and hasattr(value, "log_prob") and not isinstance(value, type)


def sample(key: KeyArray, distributions: DistributionTree) -> PyTree:
    """Draw one value of each distribution of the tree."""
    leaves, structure = jax.tree.flatten(distributions, is_leaf=is_distribution)
    keys = [key] if len(leaves) == 1 else jax.random.split(key, len(leaves))
    return jax.tree.unflatten(structure, [leaf.sample(k) for leaf, k in zip(leaves, keys, strict=True)])


def log_prob(distributions: DistributionTree, values: PyTree) -> Float[Array, ""]:
    """Return the log density of a whole tree of values."""
    scores = jax.tree.map(
        lambda leaf, value: jnp.sum(leaf.log_prob(value)), distributions, values, is_leaf=is_distribution
    )
    return sum(jax.tree.leaves(scores), start=jnp.zeros(()))


def log_prob_where_observed(distributions: DistributionTree, values: PyTree) -> Float[Array, ""]:
    """Return the log density of the components that are not NaN."""
    scores = jax.tree.map(_leaf_log_prob_where_observed, distributions, values, is_leaf=is_distribution)
    return sum(jax.tree.leaves(scores), start=jnp.zeros(()))


def ravel(values: PyTree) -> Array:
    """Lay a tree of values out as one vector."""
    return jnp.concatenate([jnp.ravel(leaf) for leaf in jax.tree.leaves(values)])


def components(distribution: Any) -> Any:
    """Strip `to_event` wrappers: what is left scores each component by itself where that is possible."""
    while isinstance(distribution, dist.Independent):
        distribution = distribution.base_dist
    return distribution


@dataclass(frozen=True)
class Support:
    """The values that a distribution can take, as far as they do not depend on parameters.

    Attributes:
        family: The kind of the distribution.
        is_whole: Whether they are whole numbers.
        low: The lowest.
        high: The highest.
        is_open: Whether the lowest is itself excluded.
    """

    family: str
    is_whole: bool
    low: float
    high: float
    is_open: bool

    @property
    def words(self) -> str:
        """Say which values they are."""
        kind = "whole numbers" if self.is_whole else "numbers"
        if np.isfinite(self.high):
            return f"{kind} from {self.low:g} to {self.high:g}"
        return f"{kind} above {self.low:g}" if self.is_open else f"{kind} from {self.low:g}"

    def excludes(self, values: Float[np.ndarray, "..."]) -> Bool[np.ndarray, "..."]:
        """Mark the values that it does not hold; NaN and infinite ones have a meaning of their own."""
        is_odd = (values < self.low) | (values > self.high) | (self.is_open & (values == self.low))
        is_odd |= self.is_whole & (values != np.round(values))
        return np.asarray(is_odd & np.isfinite(values))


def support_of(distribution: Any) -> Support | None:
    """Return the support of a distribution if it is narrower than the real numbers, and known; also inside a trace."""
    inner = components(distribution)
    support = getattr(inner, "support", None)
    if support is None or isinstance(support, type(dist.constraints.circular)):  # angles may be counted on
        return None
    bounds: list[Any] = [getattr(support, name, None) for name in ("lower_bound", "upper_bound")]
    if support is dist.constraints.boolean:
        bounds = [0, 1]
    low, high = (
        float(one) if isinstance(one, int | float) else end for one, end in zip(bounds, (-np.inf, np.inf), strict=True)
    )
    if not support.is_discrete and not np.isfinite(low):
        return None
    is_open = bounds[1] is None and not support(low)
    return Support(type(inner).__name__, bool(support.is_discrete), low, high, is_open)


def missing_only_whole(distribution: Any) -> str | None:
    """Return the kind of a distribution whose components cannot be missing one by one, or None if they can."""
    inner = components(distribution)
    if isinstance(inner, dist.MultivariateNormal):
        return None
    drawn = jax.eval_shape(inner.sample, jax.random.key(0))
    score = jax.eval_shape(inner.log_prob, drawn)
    return None if score.shape == drawn.shape else type(inner).__name__


def _leaf_log_prob_where_observed(distribution: Any, value: Array) -> Float[Array, ""]:
    inner = components(distribution)
    observed = ~jnp.isnan(value)
    if isinstance(inner, dist.MultivariateNormal):
        return _marginal_normal_log_prob(inner, value, observed)
    safe = _fill_missing(inner, value, observed)
    scores = inner.log_prob(safe)
    if jnp.shape(scores) == jnp.shape(value):
        return jnp.sum(jnp.where(observed, scores, 0.0))
    partly_missing = jnp.any(observed) & ~jnp.all(observed)
    score = jnp.where(jnp.all(observed), jnp.sum(scores), 0.0)
    return jnp.where(partly_missing, jnp.nan, score)


def _fill_missing(distribution: Any, value: Array, observed: Bool[Array, "..."]) -> Array:
    """Put a value of the support where one is missing, in the dtype that the distribution draws."""
    drawn = jax.eval_shape(distribution.sample, jax.random.key(0))
    filled = jnp.where(observed, value, 0.0)
    support = getattr(distribution, "support", None)
    if support is not None and hasattr(support, "feasible_like"):
        filled = jnp.where(observed, value, support.feasible_like(filled))
    return filled.astype(drawn.dtype)


def _marginal_normal_log_prob(
    distribution: dist.MultivariateNormal, value: Array, observed: Bool[Array, "..."]
) -> Float[Array, ""]:
    """Score the observed components of a joint Gaussian, exactly.

    A missing component is given zero residual, unit variance and no covariance: it then contributes exactly
    -log(2 pi)/2, which is taken off again.
    """
    residual = jnp.where(observed, value - distribution.mean, 0.0)
    both = observed[..., :, None] & observed[..., None, :]
    full = jnp.asarray(distribution.covariance_matrix)
    covariance = jnp.where(both, full, jnp.eye(value.shape[-1], dtype=residual.dtype))
    score = dist.MultivariateNormal(jnp.zeros_like(residual), covariance).log_prob(residual)
    num_missing = jnp.sum(~observed, axis=-1)
    return jnp.sum(score + 0.5 * jnp.log(2 * jnp.pi) * num_missing)

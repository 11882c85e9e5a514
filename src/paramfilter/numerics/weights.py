"""Arithmetic of log-weights: normalise, count the effective particles, average.

A particle filter multiplies small numbers for ever, so weights live as logarithms `l_i = log w_i`, known up
to a common constant. Every function here first divides by the largest weight,

    w_i / max_j w_j = exp(l_i - max_j l_j),

which cannot overflow and keeps the digits of the differences `l_i - l_j` however far from zero the `l_i` are.

Four rules hold in every function, so that no NaN is ever made from weights:

1. `-inf` is a weight of zero.
2. NaN is a weight of zero as well. Whoever computes weights should count the NaNs before they arrive here.
3. `+inf` outweighs all that is finite: the particles that have it share the whole mass equally.
4. If no weight is positive the population is *dead*. `normalise` then returns equal weights and a
   `log_total` of `-inf`, and `effective_sample_size` is 0. Means become unweighted means, and the caller
   decides what a dead population means by looking at `log_total`, which is minus infinity only in this
   case.

The effective sample size is that of Kong, Liu and Wong (1994), "Sequential imputations and Bayesian missing
data problems", J. Amer. Statist. Assoc. 89.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from paramfilter.tracing import numbers
from paramfilter.types import KeyArray, Numbers


def normalise(
    log_weights: Float[Array, " particle"],
) -> tuple[Float[Array, " particle"], Float[Array, ""]]:
    """Scale weights to sum to one; return them with the logarithm of what they summed to.

    `log_total = log sum_i exp(l_i)` and the normalised log-weights are `l_i - log_total`. They are computed
    as `(l_i - max l) - log sum_j exp(l_j - max l)`: subtracting `log_total` itself would lose digits when
    the `l_i` are large (in float32 about 0.06 nat at `l_i = -1e6`).

    Args:
        log_weights: unnormalised log-weights.

    Returns:
        The normalised log-weights, never NaN, and `log_total`. A dead population gives `-log N` everywhere
        and `log_total = -inf`.

    >>> import jax.numpy as jnp
    >>> log_weights, log_total = normalise(jnp.log(jnp.array([1.0, 0.0, 3.0])))
    >>> jnp.exp(log_weights).round(4).tolist(), round(float(jnp.exp(log_total)), 4)
    ([0.25, 0.0, 0.75], 4.0)
    """
    num_particles = log_weights.shape[0]
    log_relative, largest = _relative_to_largest(log_weights)
    is_dead = largest == -jnp.inf
    # One stands in for the sum of a dead population, so that the logarithm (and its derivative) stays finite.
    log_sum = jnp.log(jnp.where(is_dead, 1.0, jnp.sum(jnp.exp(log_relative))))
    equal = -jnp.log(jnp.asarray(num_particles, log_weights.dtype))
    return jnp.where(is_dead, equal, log_relative - log_sum), largest + log_sum


def relative_weights(log_weights: Float[Array, " particle"]) -> Float[Array, " particle"]:
    """Return the weights divided by the largest of them; all zeros for a dead population.

    >>> import jax.numpy as jnp
    >>> relative_weights(jnp.array([-1000.0, -jnp.inf, jnp.nan])).tolist()
    [1.0, 0.0, 0.0]
    """
    log_relative, _ = _relative_to_largest(log_weights)
    return jnp.exp(log_relative)


def effective_sample_size(log_weights: Float[Array, " particle"]) -> Float[Array, ""]:
    """Count how many equally weighted particles would be as good: `(sum_i w_i)^2 / sum_i w_i^2`.

    Lies in [1, N] whether or not the weights are normalised, and is 0 for a dead population.

    >>> import jax.numpy as jnp
    >>> float(effective_sample_size(jnp.array([0.0, 0.0, -jnp.inf, -jnp.inf])))
    2.0
    """
    weights = relative_weights(log_weights)
    total = jnp.sum(weights)
    is_dead = total == 0.0
    # The largest relative weight is one, so the sum of squares of a living population is at least one.
    sum_of_squares = jnp.where(is_dead, 1.0, jnp.sum(jnp.square(weights)))
    size = total * (total / sum_of_squares)
    # Rounding may step just outside the range that Cauchy and Schwarz promise.
    return jnp.where(is_dead, 0.0, jnp.clip(size, 1.0, log_weights.shape[0]))


def weighted_mean_and_variance(
    log_weights: Float[Array, " particle"], values: Float[Array, "particle *state"]
) -> tuple[Float[Array, "*state"], Float[Array, "*state"]]:
    """Average values over the weighted particles, component by component.

    `mean = sum_i W_i v_i` and `variance = sum_i W_i (v_i - mean)^2` with normalised weights `W_i`: the
    moments of the weighted cloud itself, without a small-sample factor.

    What a particle of weight zero holds (NaN, inf) never reaches the answer: `0 * NaN` is NaN, so such
    values are replaced before the product. A NaN held by a particle that *has* weight does reach it, as it
    should.

    Args:
        log_weights: log-weights, normalised or not.
        values: one value per particle, of any shape after the particle axis.

    Returns:
        Mean and variance, of the shape of one value.

    >>> import jax.numpy as jnp
    >>> log_weights = jnp.log(jnp.array([0.5, 0.5, 0.0]))
    >>> mean, variance = weighted_mean_and_variance(log_weights, jnp.array([1.0, 3.0, jnp.nan]))
    >>> float(mean), float(variance)
    (2.0, 1.0)
    """
    weights = jnp.exp(normalise(log_weights)[0]).reshape((-1,) + (1,) * (values.ndim - 1))
    has_weight = weights > 0.0
    safe_values = jnp.where(has_weight, values, 0.0)
    rough_mean = jnp.sum(weights * safe_values, axis=0)
    deviations = jnp.where(has_weight, safe_values - rough_mean, 0.0)
    # In float32 the weights sum to one only to about 1e-6, which would shift the mean of values far from
    # zero. The mean deviation is that shift.
    shift = jnp.sum(weights * deviations, axis=0)
    variance = jnp.sum(weights * jnp.square(deviations), axis=0) - jnp.square(shift)
    return rough_mean + shift, jnp.maximum(variance, 0.0)


def _relative_to_largest(
    log_weights: Float[Array, " particle"],
) -> tuple[Float[Array, " particle"], Float[Array, ""]]:
    """Return `l_i - max_j l_j` and the maximum, with NaN read as `-inf`; all `-inf` for a dead population."""
    clean = jnp.where(jnp.isnan(log_weights), -jnp.inf, log_weights)
    largest = jnp.max(clean)
    # inf - inf is NaN: a dead population keeps its -inf, and among +inf the finite ones are as good as zero.
    relative = clean - jnp.where(jnp.isinf(largest), 0.0, largest)
    relative_to_infinity = jnp.where(clean == jnp.inf, 0.0, -jnp.inf)
    return jnp.where(largest == jnp.inf, relative_to_infinity, relative), largest


def choose_by_weight(key: KeyArray, log_weights: Float[Array, " particle"], num_draws: int) -> Int[Array, " draw"]:
    """Choose particles by weight, systematically, as many as wanted (resampling keeps their number).

    >>> import jax, jax.numpy as jnp
    >>> choose_by_weight(jax.random.key(0), jnp.log(jnp.array([0.5, 0.0, 0.5])), 4).tolist()
    [0, 0, 2, 2]
    """
    levels = (jnp.arange(num_draws) + jax.random.uniform(key)) / num_draws
    return jnp.asarray(at_levels(jnp.exp(log_weights), levels))


def at_levels(weights: Float[Numbers, " particle"], levels: Float[Numbers, " draw"]) -> Int[Numbers, " draw"]:
    """Return for each level between 0 and 1 the particle at which the cumulative weight passes it.

    >>> import numpy as np
    >>> at_levels(np.array([2.0, 0.0, 2.0]), np.array([0.25, 0.75])).tolist()
    [0, 2]
    """
    xp = numbers(weights, levels)
    cumulative = xp.cumsum(weights)
    return xp.clip(xp.searchsorted(cumulative, levels * cumulative[-1], side="right"), 0, len(weights) - 1)


def mixture_mean_and_variance(
    log_weights: Float[Array, " part"], means: PyTree, variances: PyTree
) -> tuple[PyTree, PyTree]:
    """Return mean and variance of a mixture from those of its parts: what they vary by, and how far they are apart.

    Args:
        log_weights: One log-weight a part, normalised or not.
        means: A tree of arrays with a leading axis of parts.
        variances: The same of variances.
    """
    within = jax.tree.map(lambda leaf: weighted_mean_and_variance(log_weights, leaf)[0], variances)
    pairs = jax.tree.map(lambda leaf: weighted_mean_and_variance(log_weights, leaf), means)
    mean, between = jax.tree.transpose(jax.tree.structure(means), jax.tree.structure((0, 0)), pairs)
    return mean, jax.tree.map(jnp.add, within, between)

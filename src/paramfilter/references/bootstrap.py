"""The plain bootstrap particle filter that the references use: as a pilot, and as an estimate of the likelihood.

Resampling is systematic, at every step: with u uniform, particle i has as many offspring as there are points
(k + u) / N in its stretch of the cumulated weights. The estimate of the likelihood is unbiased for any number of
particles.

N. Gordon, D. Salmond and A. Smith, Novel approach to nonlinear/non-Gaussian Bayesian state estimation, 1993.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax.scipy.special import logsumexp
from jaxtyping import Array, Float, Int

from paramfilter.references.problem import Problem
from paramfilter.tracing import strongly_typed
from paramfilter.types import KeyArray


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Population:
    """What a bootstrap filter saw: the weighted moments of the state at each time, and who was left at the end."""

    log_likelihood: Float[Array, ""]
    means: Float[Array, "time state"]
    variances: Float[Array, "time state"]
    z: Float[Array, "particle param"]


def bootstrap_filter(
    problem: Problem, key: KeyArray, z: Float[Array, "particle param"], *, view: Callable[[Array], Array] | None = None
) -> Population:
    """Filter with one particle for each row of `z`, whose theta it carries along.

    With equal rows this is the filter of a known theta. With draws from the prior it is SIR on (x, theta): good enough
    to find where the states and the parameters live, no more. Moments are taken of `view(x)`, of x itself unless given.
    """
    model, num_particles = problem.model, z.shape[0]
    key_initial, key_steps = jax.random.split(key)

    def start(key, z):
        return strongly_typed(model.sample_initial(key, model.parameters.constrain(z), problem.initial_inputs))

    def move(key, z, x, y, inputs):
        theta = model.parameters.constrain(z)
        x = strongly_typed(model.sample_transition(key, theta, x, inputs))
        log_weight = model.observation_log_prob(theta, x, y, inputs)
        return x, jnp.where(jnp.isnan(log_weight), -jnp.inf, log_weight)

    def step(carry, now):
        z, x, log_likelihood = carry
        key, y, inputs = now
        key_move, key_resample = jax.random.split(key)
        keys = jax.random.split(key_move, num_particles)
        x, log_weights = jax.vmap(move, in_axes=(0, 0, 0, None, None))(keys, z, x, y, inputs)
        total = logsumexp(log_weights)
        # all weights zero: go on with equal ones, the likelihood has become -inf anyway
        weights = jnp.where(jnp.isfinite(total), jnp.exp(log_weights - total), 1.0 / num_particles)
        vectors = _as_vectors(x) if view is None else view(_as_vectors(x))
        mean = weights @ vectors
        variance = weights @ (vectors - mean) ** 2
        chosen = systematic(key_resample, weights)
        z, x = jax.tree.map(lambda leaf: leaf[chosen], (z, x))
        return (z, x, log_likelihood + total - jnp.log(num_particles)), (mean, variance)

    x0 = jax.vmap(start)(jax.random.split(key_initial, num_particles), z)
    now = (jax.random.split(key_steps, problem.num_steps), problem.ys, problem.inputs)
    (z, _, log_likelihood), (means, variances) = jax.lax.scan(step, (z, x0, jnp.zeros(())), now)
    return Population(log_likelihood, means, variances, z)


def systematic(key: KeyArray, weights: Float[Array, " particle"]) -> Int[Array, " particle"]:
    """Return the ancestor of each of N offspring, in the order of the ancestors."""
    num_particles = weights.shape[0]
    cumulative = jnp.cumsum(weights)
    scaled = num_particles * cumulative / cumulative[-1]
    # the first offspring after ancestor i: counting them and summing up is five times faster than a search
    firsts = jnp.ceil(scaled - jax.random.uniform(key)).astype(jnp.int32)
    counts = jnp.zeros(num_particles, jnp.int32).at[firsts].add(1, mode="drop")
    return jnp.minimum(jnp.cumsum(counts), num_particles - 1)


def _as_vectors(x) -> Float[Array, "particle state"]:
    leaves = [jnp.reshape(leaf, (leaf.shape[0], -1)) for leaf in jax.tree.leaves(x)]
    return jnp.concatenate(leaves, axis=1).astype(jnp.float64)

"""Before the update: resample the particles, draw theta for each, and move the states.

A proposal that looks ahead has theta drawn first, and particles are resampled by w^i a^i, where a^i estimates
p(y | x^i, theta^i); dividing by a^i afterwards keeps the weights right (the auxiliary particle filter of M. Pitt and
N. Shephard, 1999).
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.numerics.weights import normalise
from paramfilter.particles.belief import Shared
from paramfilter.particles.parts import Draws, Parents, Particles, Parts, StepKeys
from paramfilter.particles.state import ParticleState
from paramfilter.proposals import Move
from paramfilter.types import Inputs, KeyArray, Observation


def parents_of(parts: Parts, keys: StepKeys, state: ParticleState, y: Observation, inputs: Inputs) -> Parents:
    """Resample the particles and draw their thetas, in the order that the proposal asks for."""
    before = Particles.of(state)
    if parts.proposal.looks_ahead:
        shared, pool, draws = _sample_theta(parts, keys, state.shared, before, y, inputs)
        return _resample_ahead(parts, keys.resample, shared, pool, draws)
    resampled = parts.resampling.resample(keys.resample, before.log_weights)
    particles = before.copied(resampled, resampled.log_weights)
    shared, particles, draws = _sample_theta(parts, keys, state.shared, particles, y, inputs)
    everyone = jnp.arange(parts.num_particles, dtype=jnp.int32)
    return Parents(shared, particles, draws, particles, everyone, resampled)


def discounted(parts: Parts, parents: Parents) -> Parents:
    """Count old data less, if the filter forgets: by exp(-1) after `memory` steps."""
    if parts.memory is None:
        return parents
    factor = jnp.asarray(1.0 - 1.0 / parts.memory)
    discount = jax.vmap(lambda statistic: parts.belief.discount(statistic, factor))
    fade = lambda particles: replace(particles, statistics=discount(particles.statistics))
    return replace(parents, particles=fade(parents.particles), pool=fade(parents.pool))


def propose(parts: Parts, keys: StepKeys, parents: Parents, y: Observation, inputs: Inputs) -> Move:
    """Draw the next state of each particle, and what it is weighed by."""

    def move(key, plan, z, x):
        return parts.proposal.propose(key, plan, parts.model.parameters.constrain(z), x, y, inputs)

    return jax.vmap(move)(keys.move, parents.draws.plan, parents.draws.z, parents.particles.x)


def _sample_theta(
    parts: Parts, keys: StepKeys, shared: Shared, before: Particles, y: Observation, inputs: Inputs
) -> tuple[Shared, Particles, Draws]:
    """Adapt what beliefs share, draw theta from them, and plan the moves."""
    shared, statistics = parts.belief.adapt(shared, before.statistics, before.z, before.log_weights)
    draws = jax.vmap(parts.belief.sample, in_axes=(0, None, 0, 0))(keys.theta, shared, statistics, before.z)
    plan = lambda z, x: parts.proposal.plan(parts.model.parameters.constrain(z), x, y, inputs)
    plans = jax.vmap(plan)(draws.z, before.x)
    return shared, replace(before, statistics=statistics), Draws(draws.z, draws.outcome, plans)


def _resample_ahead(parts: Parts, key: KeyArray, shared: Shared, pool: Particles, draws: Draws) -> Parents:
    """Resample by weight times the estimate of p(y | x, theta), and take the estimate off the weight again."""
    ahead: Float[Array, " particle"] = jax.vmap(parts.proposal.ahead)(draws.plan)
    weighed, log_total = normalise(pool.log_weights + ahead)
    resampled = parts.resampling.resample(key, weighed)
    # Particles whose estimates are all zero are resampled evenly, and there is nothing to be taken off.
    correction = jnp.where(jnp.isfinite(log_total), log_total - ahead[resampled.ancestors], 0.0)
    particles = pool.copied(resampled, resampled.log_weights + correction)
    chosen = jax.tree.map(lambda leaf: leaf[resampled.ancestors], draws)
    return Parents(shared, particles, chosen, pool, resampled.ancestors, resampled)

"""Before the data are absorbed: resample the particles, draw theta for each, and move the states.

A proposal that looks ahead has theta drawn first, and particles are resampled by w^i a^i, where a^i estimates
p(y | x^i, theta^i); dividing by a^i afterwards keeps the weights right (the auxiliary particle filter of M. Pitt and
N. Shephard, 1999).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from paramfilter.beliefs import Blur
from paramfilter.filters.health import Lineage
from paramfilter.filters.islands import members, normalise_within, resample_within
from paramfilter.filters.state import FilterState
from paramfilter.proposals import Move
from paramfilter.resampling import Resampled
from paramfilter.types import Inputs, KeyArray, Observation

if TYPE_CHECKING:
    from paramfilter.filters.particle_filter import ParticleFilter


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Particles:
    """State, the theta that moved it last, what is remembered, and weight."""

    x: PyTree
    z: Float[Array, "particle param"]
    statistics: PyTree
    log_weights: Float[Array, " particle"]
    lineage: Lineage


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class ThetaDraws:
    """The theta that each particle has drawn, what came up, how the belief blurs the move, and the plan for it."""

    z: Float[Array, "particle param"]
    outcome: Int[Array, " particle"]
    blur: Blur | None
    plan: PyTree


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Parents:
    """Particles that are about to move, and where they come from.

    Attributes:
        shared: What the beliefs share.
        particles: After resampling.
        draws: Their thetas.
        pool: Particles that any child may have come from: the same, or those before they were resampled.
        pool_draws: The thetas of the pool.
        ancestors: Whose copy in the pool each particle is.
        resampled: What the resampling did.
    """

    shared: PyTree
    particles: Particles
    draws: ThetaDraws
    pool: Particles
    pool_draws: ThetaDraws
    ancestors: Int[Array, " particle"]
    resampled: Resampled


def parents_of(
    filter: ParticleFilter,
    key_resample: KeyArray,
    key_theta: KeyArray,
    state: FilterState,
    y: Observation,
    inputs: Inputs,
) -> Parents:
    """Resample the particles and draw their thetas, in the order that the proposal asks for."""
    before = particles_of(state)
    if filter.bound_proposal.looks_ahead:
        shared, pool, pool_draws = _sample_theta(filter, key_theta, state.shared, before, y, inputs)
        particles, draws, resampled = _resample_ahead(filter, key_resample, pool, pool_draws, state.time)
        return Parents(shared, particles, draws, pool, pool_draws, resampled.ancestors, resampled)
    resampled = resample_within(filter.resampling, filter.num_islands, key_resample, before.log_weights)
    particles = _copy(before, resampled, resampled.log_weights, state.time)
    shared, particles, draws = _sample_theta(filter, key_theta, state.shared, particles, y, inputs)
    everyone = jnp.arange(filter.num_particles, dtype=jnp.int32)
    return Parents(shared, particles, draws, particles, draws, everyone, resampled)


def particles_of(state: FilterState) -> Particles:
    """Return the particles of a state."""
    return Particles(state.x, state.z, state.statistics, state.log_weights, state.lineage)


def _sample_theta(
    filter: ParticleFilter, key: KeyArray, shared: PyTree, before: Particles, y: Observation, inputs: Inputs
) -> tuple[PyTree, Particles, ThetaDraws]:
    """Regroup the beliefs, draw theta from them, and plan the moves."""
    belief, proposal, parameters = filter.bound_belief, filter.bound_proposal, filter.model.parameters
    shared, statistics = belief.regroup(shared, before.statistics, before.z, before.log_weights)
    keys = jax.random.split(key, filter.num_particles)
    draws = jax.vmap(belief.draw, in_axes=(0, None, 0, 0))(keys, shared, statistics, before.z)

    def plan(statistic, z, x):
        blur = belief.transition_blur(shared, statistic, z, x, inputs) if proposal.takes_blur else None
        if blur is None:
            return None, proposal.plan(parameters.constrain(z), x, y, inputs)
        return blur, proposal.plan(parameters.constrain(blur.z), x, y, inputs, blur.columns)

    blurs, plans = jax.vmap(plan)(statistics, draws.z, before.x)
    return shared, replace(before, statistics=statistics), ThetaDraws(draws.z, draws.outcome, blurs, plans)


def _resample_ahead(
    filter: ParticleFilter, key: KeyArray, before: Particles, draws: ThetaDraws, time: Int[Array, ""]
) -> tuple[Particles, ThetaDraws, Resampled]:
    """Resample by weight times the estimate of p(y | x, theta), and take the estimate off the weight again."""
    ahead = jax.vmap(filter.bound_proposal.ahead)(draws.plan)
    weighed, island_totals = normalise_within(filter.num_islands, before.log_weights + ahead)
    resampled = resample_within(filter.resampling, filter.num_islands, key, weighed)
    draws = jax.tree.map(lambda leaf: leaf[resampled.ancestors], draws)
    # An island whose estimates are all zero is resampled evenly, and has nothing to be taken off.
    is_known = members(jnp.isfinite(island_totals), filter.num_particles)
    shares = members(island_totals + jnp.log(filter.num_islands), filter.num_particles)
    correction = jnp.where(is_known, shares - ahead[resampled.ancestors], 0.0)
    return _copy(before, resampled, resampled.log_weights + correction, time), draws, resampled


def _copy(
    before: Particles, resampled: Resampled, log_weights: Float[Array, " particle"], time: Int[Array, ""]
) -> Particles:
    x, z, statistics = jax.tree.map(lambda leaf: leaf[resampled.ancestors], (before.x, before.z, before.statistics))
    return Particles(x, z, statistics, log_weights, before.lineage.through(resampled.ancestors, time))


def propose(filter: ParticleFilter, key: KeyArray, parents: Parents, y: Observation, inputs: Inputs) -> Move:
    """Draw the next state of each particle, and what it is weighed by."""

    def move(one_key, plan, z, x):
        return filter.bound_proposal.propose(one_key, plan, filter.model.parameters.constrain(z), x, y, inputs)

    keys = jax.random.split(key, filter.num_particles)
    return jax.vmap(move)(keys, parents.draws.plan, parents.draws.z, parents.particles.x)

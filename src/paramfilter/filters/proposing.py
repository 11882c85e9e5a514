"""Before the update: resample the particles, draw theta for each, and move the states.

A proposal that looks ahead has theta drawn first, and particles are resampled by w^i a^i, where a^i estimates
p(y | x^i, theta^i); dividing by a^i afterwards keeps the weights right (the auxiliary particle filter of M. Pitt and
N. Shephard, 1999).
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, Key, PyTree

from paramfilter.beliefs.base import Discountable, LinearInTheta, MarginalTransition, adapt
from paramfilter.filters.health import Lineage
from paramfilter.filters.islands import members, normalise_within, resample_within
from paramfilter.filters.state import FilterState
from paramfilter.proposals import Move
from paramfilter.resampling import Resampled
from paramfilter.types import Inputs, KeyArray, Observation

if TYPE_CHECKING:
    from paramfilter.filters.particle_filter import ParticleFilter


Keys = Key[Array, " particle"]


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class StepKeys:
    """The random keys of one step, by purpose; `theta` and `move` have one for each particle.

    They come from one call, because each call adds a hundred instructions to the program.
    """

    resample: KeyArray
    mix: KeyArray
    observe: KeyArray
    health: KeyArray
    theta: Keys
    move: Keys

    @classmethod
    def at(cls, state: FilterState) -> StepKeys:
        """Derive the keys of a step from the filter's key and the time."""
        size = len(state.log_weights)
        keys = jax.random.split(jax.random.fold_in(state.key, state.time), 4 + 2 * size)
        return cls(keys[0], keys[1], keys[2], keys[3], keys[4 : 4 + size], keys[4 + size :])


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
    """What each particle has drawn, its flags, its transition with coefficients integrated out, and the plan."""

    z: Float[Array, "particle param"]
    outcome: Int[Array, " particle"]
    marginal: MarginalTransition | None
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


def parents_of(filter: ParticleFilter, keys: StepKeys, state: FilterState, y: Observation, inputs: Inputs) -> Parents:
    """Resample the particles and draw their thetas, in the order that the proposal asks for."""
    before = particles_of(state)
    if filter.bound_proposal.looks_ahead:
        shared, pool, pool_draws = _sample_theta(filter, keys.theta, state.shared, before, y, inputs)
        particles, draws, resampled = _resample_ahead(filter, keys.resample, pool, pool_draws, state.time)
        return Parents(shared, particles, draws, pool, pool_draws, resampled.ancestors, resampled)
    resampled = resample_within(filter.resampling, filter.num_islands, keys.resample, before.log_weights)
    particles = _copy(before, resampled, resampled.log_weights, state.time)
    shared, particles, draws = _sample_theta(filter, keys.theta, state.shared, particles, y, inputs)
    everyone = jnp.arange(filter.num_particles, dtype=jnp.int32)
    return Parents(shared, particles, draws, particles, draws, everyone, resampled)


def discounted(filter: ParticleFilter, parents: Parents) -> Parents:
    """Count old data less, if the filter forgets: by exp(-1) after `memory` steps."""
    if filter.memory is None or not isinstance(filter.bound_belief, Discountable):
        return parents
    discount = functools.partial(filter.bound_belief.discount, factor=jnp.asarray(1.0 - 1.0 / filter.memory))
    fade = lambda particles: replace(particles, statistics=jax.vmap(discount)(particles.statistics))
    return replace(parents, particles=fade(parents.particles), pool=fade(parents.pool))


def particles_of(state: FilterState) -> Particles:
    """Return the particles of a state."""
    return Particles(state.x, state.z, state.statistics, state.log_weights, state.lineage)


def _sample_theta(
    filter: ParticleFilter, keys: Keys, shared: PyTree, before: Particles, y: Observation, inputs: Inputs
) -> tuple[PyTree, Particles, ThetaDraws]:
    """Adapt what beliefs share, draw theta from them, and plan the moves."""
    belief, proposal, parameters = filter.bound_belief, filter.bound_proposal, filter.model.parameters
    shared, statistics = adapt(belief, shared, before.statistics, before.z, before.log_weights)
    draws = jax.vmap(belief.sample, in_axes=(0, None, 0, 0))(keys, shared, statistics, before.z)

    def plan(statistic, z, x):
        marginal = None
        if proposal.takes_marginal and isinstance(belief, LinearInTheta):
            marginal = belief.marginal_transition(shared, statistic, z, x, inputs)
        if marginal is None:
            return None, proposal.plan(parameters.constrain(z), x, y, inputs)
        return marginal, proposal.plan(parameters.constrain(marginal.z), x, y, inputs, marginal.loading)

    marginals, plans = jax.vmap(plan)(statistics, draws.z, before.x)
    return shared, replace(before, statistics=statistics), ThetaDraws(draws.z, draws.outcome, marginals, plans)


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


def propose(filter: ParticleFilter, keys: Keys, parents: Parents, y: Observation, inputs: Inputs) -> Move:
    """Draw the next state of each particle, and what it is weighed by."""

    def move(one_key, plan, z, x):
        return filter.bound_proposal.propose(one_key, plan, filter.model.parameters.constrain(z), x, y, inputs)

    return jax.vmap(move)(keys, parents.draws.plan, parents.draws.z, parents.particles.x)

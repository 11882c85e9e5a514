"""The loop of filters whose particles fix the state and hold a belief about theta.

One step, for particles i = 1..N with states x^i, statistics S^i and weights w^i (Erol et al. 2013, Algorithm 3):

1. resample (x, S) by w, if the resampling part asks for it;
2. adapt what the beliefs share, and sample theta^i from the belief q(theta | S^i);
3. propose the next state x'^i given theta^i and y, and weigh it (bootstrap: draw by the transition, weigh by
   p(y | x'^i, theta^i));
4. update S^i by (x^i, x'^i, y), along the particle's path or mixed over ancestors;
5. guard: undo what cannot be used, and flag it.

Steps 1 to 3 are in `proposing`, 4 in `mixing`, 5 in `guard`; `health` has what a filter reports of itself. Weights are
kept until the next step begins, so that posteriors use all particles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from paramfilter.beliefs.base import Observing, init_shared, rms_error
from paramfilter.filters.guard import flags_of, guarded, keep_where, learned, rolled_back, usable
from paramfilter.filters.health import Forecasts, Lineage, forecast, health_figures
from paramfilter.filters.outliers import screened
from paramfilter.filters.proposing import StepKeys, discounted, parents_of, particles_of, propose
from paramfilter.filters.state import FilterState, StepInfo
from paramfilter.model import Transition
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.numerics.weights import effective_sample_size, normalise
from paramfilter.outcome import Outcome
from paramfilter.tracing import strongly_typed
from paramfilter.types import Inputs, KeyArray, Observation

if TYPE_CHECKING:
    from paramfilter.filters.particle_filter import ParticleFilter


def first_state(filter: ParticleFilter, key: KeyArray, inputs: Inputs) -> FilterState:
    """Draw particles from the prior and the initial distribution."""
    belief, parameters = filter.bound_belief, filter.model.parameters
    key_filter, key_theta, key_x = jax.random.split(key, 3)

    z = jax.vmap(parameters.sample)(jax.random.split(key_theta, filter.num_particles))
    shared = init_shared(belief, z)

    def one(particle_key, particle_z):
        x = strongly_typed(filter.model.sample_initial(particle_key, parameters.constrain(particle_z), inputs))
        return x, belief.update_initial(shared, belief.init(), x, inputs)

    x, statistics = jax.vmap(one)(jax.random.split(key_x, filter.num_particles), z)
    log_weights, _ = normalise(jnp.zeros(filter.num_particles, z.dtype))
    return FilterState(
        key=key_filter,
        time=jnp.int32(0),
        x=x,
        z=z,
        shared=shared,
        statistics=statistics,
        log_weights=log_weights,
        running_log_evidence=CompensatedSum.start(jnp.zeros((), z.dtype)),
        lineage=Lineage.start(filter.num_particles),
        skipped=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.int32), filter.shapes.y),
        last_mixed=jnp.int32(-1),
        outcome=jnp.int32(Outcome.OK),
        fingerprint=filter.fingerprint,
    )


def forecasts_of(filter: ParticleFilter, state: FilterState, inputs: Inputs) -> Forecasts:
    """Return draws of the next observation, before it is taken in."""
    key = StepKeys.at(state).health
    return forecast(key, filter.model, state.x, state.z, state.log_weights, inputs)


def next_state(
    filter: ParticleFilter, state: FilterState, y: Observation, inputs: Inputs
) -> tuple[FilterState, StepInfo]:
    """Take in one observation."""
    keys = StepKeys.at(state)
    given, forecasts, skipped = y, None, state.skipped
    if filter.health or filter.outliers is not None:
        forecasts = forecasts_of(filter, state, inputs)
        y, skipped = screened(filter.outliers, given, forecasts.y, state.skipped)

    parents = discounted(filter, parents_of(filter, keys, state, y, inputs))
    moves = propose(filter, keys.move, parents, y, inputs)
    is_usable = usable(moves, parents)
    data = Transition(parents.particles.x, keep_where(is_usable, moves.x, parents.particles.x), y, inputs)
    updated, is_mixed = filter.bound_mixing.update(filter, keys.mix, parents, data, state.time)
    after, verdict = guarded(filter, parents, moves, is_usable, learned(filter, parents, updated, y), given)
    kept = rolled_back(filter, verdict, after, particles_of(state))
    shared = parents.shared
    if isinstance(filter.bound_belief, Observing):
        shared = filter.bound_belief.observe(keys.observe, shared, data, after.z, after.log_weights, state.time)
    shared = verdict.accepted(shared, state.shared)

    error = rms_error(filter.bound_belief, shared, kept.statistics, kept.log_weights)
    flags = flags_of(verdict, parents, error, skipped, state)
    evidence = state.running_log_evidence
    new_state = FilterState(
        key=state.key,
        # A failed step passes (the next one uses fresh random numbers); a refused observation was never taken in.
        time=jnp.where(verdict.is_refused, state.time, state.time + 1),
        x=kept.x,
        z=kept.z,
        shared=shared,
        statistics=kept.statistics,
        log_weights=kept.log_weights,
        running_log_evidence=verdict.accepted(evidence.add(verdict.log_total), evidence),
        lineage=kept.lineage,
        skipped=jax.tree.map(lambda new, old: jnp.where(verdict.is_refused, old, new), skipped, state.skipped),
        last_mixed=jnp.where(is_mixed & verdict.is_accepted, state.time, state.last_mixed),
        outcome=state.outcome | flags,
        fingerprint=state.fingerprint,
    )
    info = StepInfo(
        ess=jnp.where(verdict.has_failed, 0.0, effective_sample_size(kept.log_weights)),
        log_evidence_increment=jnp.where(verdict.is_refused, 0.0, verdict.log_total),
        outcome=flags,
        resampled=jnp.any(parents.resampled.happened) & verdict.is_accepted,
        num_nan=jnp.where(verdict.is_refused, 0, jnp.sum(~verdict.is_usable)),
        approximation_error=jnp.where(verdict.is_accepted, error, 0.0),
        **health_figures(filter, kept, forecasts, given),
    )
    return new_state, info

"""The loop of filters whose particles fix the state and hold a belief about theta.

One step, for particles i = 1..N with states x^i, statistics S^i and weights w^i (Erol et al. 2013, Algorithm 3):

1. resample (x, S) by w, if the resampling part asks for it;
2. regroup what the beliefs share, and draw theta^i from the belief q(theta | S^i);
3. propose the next state x'^i given theta^i and y, and weigh it (bootstrap: draw by the transition, weigh by
   p(y | x'^i, theta^i));
4. absorb (x^i, x'^i, y) into S^i; now and then, if the filter has two ancestors, mix in what another particle that
   could have come to x'^i would believe (see `backward`);
5. guard: undo what cannot be used, and flag it.

Steps 1 to 3 are in `proposing`, 4 in `absorbing`, 5 in `guard`. Weights are kept until the next step begins, so that
posteriors use all particles.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp

from paramfilter.filters.absorbing import absorb
from paramfilter.filters.guard import flags_of, guarded, keep_where, rolled_back, usable
from paramfilter.filters.health import Lineage, forecast, forecast_quantiles, predictive_rank
from paramfilter.filters.islands import disagreement, island_moments
from paramfilter.filters.outliers import mean_and_spread
from paramfilter.filters.posterior import approximation_error
from paramfilter.filters.proposing import parents_of, particles_of, propose
from paramfilter.filters.state import FilterState, StepInfo
from paramfilter.model import Datum, strongly_typed
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.numerics.weights import effective_sample_size, normalise
from paramfilter.outcome import Outcome
from paramfilter.types import Inputs, KeyArray, Observation

if TYPE_CHECKING:
    from paramfilter.filters.particle_filter import ParticleFilter

WITNESS, FORECAST, RANK, OTHER = 3, 4, 5, 6
"""Folded into a step's key for what beliefs keep, for forecasts and their ranks, and for other ancestors; the
other keys are split from it."""


def first_state(filter: ParticleFilter, key: KeyArray, inputs: Inputs) -> FilterState:
    """Draw particles from the prior and the initial law."""
    belief, parameters = filter.bound_belief, filter.model.parameters
    key_filter, key_theta, key_x = jax.random.split(key, 3)

    z = jax.vmap(parameters.sample)(jax.random.split(key_theta, filter.num_particles))
    shared = belief.start_shared(z)

    def one(particle_key, particle_z):
        x = strongly_typed(filter.model.sample_initial(particle_key, parameters.constrain(particle_z), inputs))
        return x, belief.absorb_initial(shared, belief.start(), x, inputs)

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
        mixed_at=jnp.int32(-1),
        outcome=jnp.int32(Outcome.OK),
        made_by=filter.fingerprint,
    )


def next_state(
    filter: ParticleFilter, state: FilterState, y: Observation, inputs: Inputs
) -> tuple[FilterState, StepInfo]:
    """Take in one observation."""
    key_step = jax.random.fold_in(state.key, state.time)
    key_resample, key_theta, key_move = jax.random.split(key_step, 3)
    key_forecast, key_rank, key_other, key_witness = (
        jax.random.fold_in(key_step, purpose) for purpose in (FORECAST, RANK, OTHER, WITNESS)
    )
    forecasts = forecast(key_forecast, filter.model, state.x, state.z, state.log_weights, inputs)
    given, skipped = y, state.skipped
    if filter.outliers is not None:
        y, skipped = filter.outliers.screen(given, *mean_and_spread(forecasts), state.skipped)

    parents = parents_of(filter, key_resample, key_theta, state, y, inputs)
    moves = propose(filter, key_move, parents, y, inputs)
    is_usable = usable(moves, parents)
    data = Datum(parents.particles.x, keep_where(is_usable, moves.x, parents.particles.x), y, inputs)
    absorbed, is_mixed = absorb(filter, key_other, parents, data, state.time)
    after, verdict = guarded(filter, parents, moves, is_usable, absorbed, given)
    witnessed = filter.bound_belief.witness(key_witness, parents.shared, data, after.z, after.log_weights, state.time)
    kept = rolled_back(filter, verdict, after, particles_of(state))
    shared = verdict.accepted(witnessed, state.shared)

    error = approximation_error(filter.bound_belief, shared, kept.statistics, kept.z, kept.log_weights)
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
        mixed_at=jnp.where(is_mixed & verdict.is_accepted, state.time, state.mixed_at),
        outcome=state.outcome | flags,
        made_by=state.made_by,
    )
    info = StepInfo(
        ess=jnp.where(verdict.has_failed, 0.0, effective_sample_size(kept.log_weights)),
        log_evidence_increment=jnp.where(verdict.is_refused, 0.0, verdict.log_total),
        outcome=flags,
        resampled=jnp.any(parents.resampled.happened) & verdict.is_accepted,
        num_nan=jnp.where(verdict.is_refused, 0, jnp.sum(~verdict.is_usable)),
        approximation_error=jnp.where(verdict.is_accepted, error, 0.0),
        rhat=disagreement(island_moments(filter.num_islands, kept.z, kept.log_weights)),
        num_ancestors=kept.lineage.num_ancestors(),
        forecast=forecast_quantiles(forecasts),
        pit=predictive_rank(key_rank, forecasts, given),
    )
    return new_state, info

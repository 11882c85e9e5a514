"""The loop of filters whose particles fix the state and hold a belief about theta: Algorithm 3 of the paper.

One step, for particles i = 1..N with states x^i, statistics S^i and weights w^i (Erol et al. 2013):

1. resample (x, S) by w, if the resampling part asks for it;
2. adapt what the beliefs share, and sample theta^i from the belief q(theta | S^i);
3. propose the next state x'^i given theta^i and y, and weigh it (bootstrap: draw by the transition, weigh by
   p(y | x'^i, theta^i));
4. update S^i by (x^i, x'^i, y), along the particle's path or mixed over ancestors;
5. guard: undo what cannot be used, and flag it.

With `PointMass` it is Algorithm 1 on (x, theta), with `Conjugate` Storvik's (Algorithm 2). Steps 1 to 3 are in
`moving`, 4 in `mixing`, 5 in `guard`. Weights are kept until the next step begins, so that posteriors use all
particles.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from paramfilter.filters.outliers import has_grown, screened
from paramfilter.inspect.probe import probe
from paramfilter.model import Transition
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.numerics.weights import effective_sample_size, normalise
from paramfilter.outcome import Outcome
from paramfilter.particles.belief import rms_error
from paramfilter.particles.forecasts import Forecasts, forecast, forecast_quantiles, predictive_rank
from paramfilter.particles.guard import flags_of, guarded, keep_where, learned, usable
from paramfilter.particles.mixing import updated
from paramfilter.particles.moving import discounted, parents_of, propose
from paramfilter.particles.parts import Particles, Parts, StepKeys
from paramfilter.particles.state import ParticleInfo, ParticleState
from paramfilter.tracing import strongly_typed
from paramfilter.types import Inputs, KeyArray, Observation


def first_state(parts: Parts, key: KeyArray, inputs: Inputs, fingerprint: str) -> ParticleState:
    """Draw particles from the prior and the initial distribution."""
    belief, parameters = parts.belief, parts.model.parameters
    key_filter, key_theta, key_x = jax.random.split(key, 3)

    z = jax.vmap(parameters.sample)(jax.random.split(key_theta, parts.num_particles))
    shared = belief.init_shared(z)

    def one(particle_key, particle_z):
        x = strongly_typed(parts.model.sample_initial(particle_key, parameters.constrain(particle_z), inputs))
        return x, belief.update_initial(shared, belief.init(), x, inputs)

    x, statistics = jax.vmap(one)(jax.random.split(key_x, parts.num_particles), z)
    return ParticleState(
        key=key_filter,
        time=jnp.int32(0),
        x=x,
        z=z,
        shared=shared,
        statistics=statistics,
        log_weights=normalise(jnp.zeros(parts.num_particles, z.dtype))[0],
        running_log_evidence=CompensatedSum.start(jnp.zeros((), z.dtype)),
        skipped=jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.int32), probe(parts.model).y),
        outcome=jnp.int32(Outcome.OK),
        fingerprint=fingerprint,
    )


def forecasts_of(parts: Parts, state: ParticleState, inputs: Inputs) -> Forecasts:
    """Return draws of the next observation, before it is taken in."""
    return forecast(StepKeys.at(state).forecast, parts.model, state.x, state.z, state.log_weights, inputs)


def next_state(
    parts: Parts, state: ParticleState, y: Observation, inputs: Inputs
) -> tuple[ParticleState, ParticleInfo]:
    """Take in one observation."""
    keys, before, given = StepKeys.at(state), Particles.of(state), y
    forecasts = forecasts_of(parts, state, inputs)
    y, skipped = screened(parts.outliers, given, forecasts.y, state.skipped)

    parents = discounted(parts, parents_of(parts, keys, state, y, inputs))
    moves = propose(parts, keys, parents, y, inputs)
    is_usable = usable(moves, parents)
    data = Transition(parents.particles.x, keep_where(is_usable, moves.x, parents.particles.x), y, inputs)
    statistics = learned(parts.belief, parents, updated(parts, keys.mix, parents, data), y)
    after, verdict = guarded(parents, moves, is_usable, statistics, given)

    # A failed step passes (the next one uses fresh random numbers); a refused observation was never taken in.
    kept, shared = verdict.accepted((after, parents.shared), (before, state.shared))
    error = rms_error(parts.belief, shared, kept.statistics, kept.log_weights)
    flags = flags_of(verdict, parents.draws.outcome, error, has_grown(skipped, state.skipped))
    evidence = state.running_log_evidence
    new_state = ParticleState(
        key=state.key,
        time=jnp.where(verdict.is_refused, state.time, state.time + 1),
        x=kept.x,
        z=kept.z,
        shared=shared,
        statistics=kept.statistics,
        log_weights=kept.log_weights,
        running_log_evidence=verdict.accepted(evidence.add(verdict.log_total), evidence),
        skipped=jax.tree.map(lambda new, old: jnp.where(verdict.is_refused, old, new), skipped, state.skipped),
        outcome=state.outcome | flags,
        fingerprint=state.fingerprint,
    )
    info = ParticleInfo(
        ess=jnp.where(verdict.has_failed, 0.0, effective_sample_size(kept.log_weights)),
        log_evidence_increment=jnp.where(verdict.is_refused, 0.0, verdict.log_total),
        outcome=flags,
        resampled=parents.resampled.happened & verdict.is_accepted,
        num_nan=jnp.where(verdict.is_refused, 0, jnp.sum(~verdict.is_usable)),
        approximation_error=jnp.where(verdict.is_accepted, error, 0.0),
        forecast=forecast_quantiles(forecasts.y),
        pit=predictive_rank(forecasts, given),
    )
    return new_state, info

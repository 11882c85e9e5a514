"""The one loop of this library. Its parts make it Storvik's filter, the extended parameter filter, or another.

One step, for particles i = 1..N with states x^i, statistics S^i and weights w^i (Erol et al. 2013, Algorithm 3):

1. resample (x, S) by w, if the resampling part asks for it;
2. regroup what the beliefs share, and draw theta^i from the belief q(theta | S^i);
3. propose the next state x'^i given theta^i and y, and weigh it (bootstrap: draw by the transition, weigh by
   p(y | x'^i, theta^i));
4. absorb (x^i, x'^i, y) into S^i; now and then, if the filter has two ancestors, mix in what another particle that
   could have come to x'^i would believe (see `backward`).

A proposal that looks ahead has theta drawn first, and particles are resampled by w^i a^i, where a^i estimates
p(y | x^i, theta^i); dividing by a^i afterwards keeps the weights right. Weights are kept until the next step begins, so
that posteriors use all particles.

Trouble never raises here and never passes in silence: a particle for which the model is NaN gets weight zero and
keeps its old state; an island that no particle survives is put back to where it was; +-inf is refused; all of it is
flagged in `info.outcome`.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from paramfilter.beliefs import ERROR_LIMIT, Blur
from paramfilter.compensated import CompensatedSum
from paramfilter.filters.backward import few_survive, is_time_to_mix, other_ancestors, several_ancestors
from paramfilter.filters.health import Lineage, forecast, predictive_rank
from paramfilter.filters.islands import disagreement, island_moments, members, normalise_within, resample_within
from paramfilter.filters.outliers import has_grown, mean_and_spread
from paramfilter.filters.posterior import approximation_error
from paramfilter.filters.state import FilterState, StepInfo
from paramfilter.gaussian import known_gaussian
from paramfilter.model import Datum, strongly_typed
from paramfilter.outcome import Outcome
from paramfilter.proposals import Move
from paramfilter.rarely import rarely
from paramfilter.resampling import Resampled
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.weights import effective_sample_size, normalise

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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Particles:
    """Particles before they move: state, the theta they moved with last, what they remember, and weight."""

    x: PyTree
    z: Float[Array, "particle param"]
    statistics: PyTree
    log_weights: Float[Array, " particle"]
    lineage: Lineage


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Intentions:
    """The theta that each particle has drawn, what came up, how the belief blurs the move, and the plan for it."""

    z: Float[Array, "particle param"]
    outcome: Int[Array, " particle"]
    blur: Blur | None
    plan: PyTree


def next_state(
    filter: ParticleFilter, state: FilterState, y: Observation, inputs: Inputs
) -> tuple[FilterState, StepInfo]:
    """Take in one observation."""
    belief, num_islands = filter.bound_belief, filter.num_islands
    key_step = jax.random.fold_in(state.key, state.time)
    key_resample, key_theta, key_move = jax.random.split(key_step, 3)
    before = _Particles(state.x, state.z, state.statistics, state.log_weights, state.lineage)
    key_forecast, key_rank = (jax.random.fold_in(key_step, purpose) for purpose in (FORECAST, RANK))
    forecasts = forecast(key_forecast, filter.model, state.x, state.z, state.log_weights, inputs)
    given, skipped = y, state.skipped
    if filter.outliers is not None:
        y, skipped = filter.outliers.screen(given, *mean_and_spread(forecasts), state.skipped)

    if filter.bound_proposal.looks_ahead:
        none_is_fresh = jnp.zeros(filter.num_particles, bool)
        shared, pool, thoughts = _intend(filter, key_theta, state.shared, before, none_is_fresh, y, inputs)
        ready, intentions, resampled = _resample_ahead(filter, key_resample, pool, thoughts, state.time)
        ancestors = resampled.ancestors
    else:
        ready, resampled = _resample(filter, key_resample, before, state.time)
        is_fresh = members(resampled.happened, filter.num_particles)
        shared, ready, intentions = _intend(filter, key_theta, state.shared, ready, is_fresh, y, inputs)
        pool, thoughts, ancestors = ready, intentions, jnp.arange(filter.num_particles, dtype=jnp.int32)

    moves = _move(filter, key_move, ready, intentions, y, inputs)
    is_usable = jax.vmap(_all_finite)((moves.x, intentions.z)) & (moves.log_weight < jnp.inf)
    new_x, new_z = keep_where(is_usable, (moves.x, intentions.z), (ready.x, ready.z))

    data = Datum(ready.x, new_x, y, inputs)
    key_other, is_mixed = jax.random.fold_in(key_step, OTHER), jnp.bool_(False)
    num_ancestors = filter.num_ancestors or 1  # a filter that is made has a number
    if num_ancestors > 2:
        is_mixed = jnp.bool_(True)
        several = several_ancestors(key_other, num_ancestors, num_islands, pool.log_weights, ancestors)
        absorbed = belief.absorb_from_many(shared, pool.statistics, replace(data, x_prev=pool.x), several)
    else:
        absorbed = belief.absorb_all(shared, ready.statistics, data)
    if num_ancestors == 2:
        is_due = is_time_to_mix(state.time, filter.num_particles)
        if belief.holds_mixtures:
            is_due |= few_survive(resampled.ancestors)
        is_mixed = is_due & belief.can_mix_now(shared)
        mixing = _Mixing(key_other, shared, pool, thoughts, ancestors, absorbed, new_x, y, inputs)
        absorbed = rarely(is_mixed, functools.partial(_with_others, filter), mixing, absorbed)
    # The second argument lends its axis to beliefs without a statistic.
    fits = jax.vmap(lambda statistic, _: _all_finite(statistic))(absorbed, new_z)
    new_statistics = keep_where(is_usable & fits, absorbed, ready.statistics)

    log_weights = ready.log_weights + jnp.where(is_usable, moves.log_weight, -jnp.inf)
    log_weights, island_totals = normalise_within(num_islands, log_weights)
    log_total = jax.nn.logsumexp(island_totals)
    is_refused = _holds_infinity(given)
    has_failed = ~jnp.isfinite(log_total) & ~is_refused
    is_accepted = ~is_refused & ~has_failed
    survives = jnp.isfinite(island_totals) & is_accepted

    witnessed = belief.witness(jax.random.fold_in(key_step, WITNESS), shared, data, new_z, log_weights, state.time)
    after = _Particles(new_x, new_z, new_statistics, log_weights, ready.lineage)
    kept = keep_where(members(survives, filter.num_particles), after, before)
    shared = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), witnessed, state.shared)

    error = approximation_error(belief, shared, kept.statistics, kept.z, kept.log_weights)
    num_nan = jnp.where(is_refused, 0, jnp.sum(~is_usable))
    flags = jnp.where(
        is_refused,
        Outcome.OBSERVATION_NOT_FINITE,
        jnp.where(has_failed, Outcome.ALL_WEIGHTS_ZERO, Outcome.OK)
        | jnp.where(jnp.all(survives) | has_failed, Outcome.OK, Outcome.ISLAND_WEIGHTS_ZERO)
        | jnp.where(num_nan > 0, Outcome.MODEL_RETURNED_NAN, Outcome.OK)
        | jnp.where(error <= ERROR_LIMIT, Outcome.OK, Outcome.BELIEF_INACCURATE)  # also if it is no number
        | jnp.where(jnp.any(is_usable & ~fits), Outcome.STATISTIC_OVERFLOW, Outcome.OK)
        | jnp.where(has_grown(skipped, state.skipped), Outcome.OUTLIER_SKIPPED, Outcome.OK)
        | jax.lax.reduce(intentions.outcome, jnp.int32(Outcome.OK), jax.lax.bitwise_or, (0,)),
    ).astype(jnp.int32)

    running = jax.tree.map(
        lambda new, old: jnp.where(is_accepted, new, old),
        state.running_log_evidence.add(log_total),
        state.running_log_evidence,
    )
    new_state = FilterState(
        key=state.key,
        # A failed step passes (the next one uses fresh random numbers); a refused observation was never taken in.
        time=jnp.where(is_refused, state.time, state.time + 1),
        x=kept.x,
        z=kept.z,
        shared=shared,
        statistics=kept.statistics,
        log_weights=kept.log_weights,
        running_log_evidence=running,
        lineage=kept.lineage,
        skipped=jax.tree.map(lambda new, old: jnp.where(is_refused, old, new), skipped, state.skipped),
        mixed_at=jnp.where(is_mixed & is_accepted, state.time, state.mixed_at),
        outcome=state.outcome | flags,
        made_by=state.made_by,
    )
    info = StepInfo(
        ess=jnp.where(has_failed, 0.0, effective_sample_size(kept.log_weights)),
        log_evidence_increment=jnp.where(is_refused, 0.0, log_total),
        outcome=flags,
        resampled=jnp.any(resampled.happened) & is_accepted,
        num_nan=num_nan,
        approximation_error=jnp.where(is_accepted, error, 0.0),
        rhat=disagreement(island_moments(num_islands, kept.z, kept.log_weights)),
        num_ancestors=kept.lineage.num_ancestors(),
        pit=predictive_rank(key_rank, forecasts, given),
    )
    return new_state, info


def _resample(filter: ParticleFilter, key: KeyArray, before: _Particles, time) -> tuple[_Particles, Resampled]:
    """Resample by weight, within islands."""
    resampled = resample_within(filter.resampling, filter.num_islands, key, before.log_weights)
    return _copy(before, resampled, resampled.log_weights, time), resampled


def _resample_ahead(
    filter: ParticleFilter, key: KeyArray, before: _Particles, intentions: _Intentions, time
) -> tuple[_Particles, _Intentions, Resampled]:
    """Resample by weight times promise, and take the promise off the weight again."""
    promise = jax.vmap(filter.bound_proposal.ahead)(intentions.plan)
    weighed, island_totals = normalise_within(filter.num_islands, before.log_weights + promise)
    resampled = resample_within(filter.resampling, filter.num_islands, key, weighed)
    intentions = jax.tree.map(lambda leaf: leaf[resampled.ancestors], intentions)
    # An island without any promise is resampled evenly, and has nothing to be taken off.
    has_promise = jnp.isfinite(island_totals)
    shares = members(island_totals + jnp.log(filter.num_islands), filter.num_particles)
    owed = jnp.where(members(has_promise, filter.num_particles), shares - promise[resampled.ancestors], 0.0)
    return _copy(before, resampled, resampled.log_weights + owed, time), intentions, resampled


def _copy(before: _Particles, resampled: Resampled, log_weights: Float[Array, " particle"], time) -> _Particles:
    x, z, statistics = jax.tree.map(lambda leaf: leaf[resampled.ancestors], (before.x, before.z, before.statistics))
    return _Particles(x, z, statistics, log_weights, before.lineage.through(resampled.ancestors, time))


def _intend(
    filter: ParticleFilter,
    key: KeyArray,
    shared: PyTree,
    before: _Particles,
    is_fresh: Bool[Array, " particle"],
    y: Observation,
    inputs: Inputs,
) -> tuple[PyTree, _Particles, _Intentions]:
    """Regroup the beliefs, draw theta from them, and plan the moves."""
    belief, proposal, parameters = filter.bound_belief, filter.bound_proposal, filter.model.parameters
    shared, statistics = belief.regroup(shared, before.statistics, before.z, before.log_weights, is_fresh)
    keys = jax.random.split(key, filter.num_particles)
    draws = jax.vmap(belief.draw, in_axes=(0, None, 0, 0))(keys, shared, statistics, before.z)

    def plan(statistic, z, x):
        blur = belief.transition_blur(shared, statistic, z, x, inputs) if proposal.takes_blur else None
        if blur is None:
            return None, proposal.plan(parameters.constrain(z), x, y, inputs)
        return blur, proposal.plan(parameters.constrain(blur.z), x, y, inputs, blur.columns)

    blurs, plans = jax.vmap(plan)(statistics, draws.z, before.x)
    return shared, replace(before, statistics=statistics), _Intentions(draws.z, draws.outcome, blurs, plans)


def _move(
    filter: ParticleFilter, key: KeyArray, ready: _Particles, intentions: _Intentions, y: Observation, inputs: Inputs
) -> Move:
    def move(one_key, plan, z, x):
        return filter.bound_proposal.propose(one_key, plan, filter.model.parameters.constrain(z), x, y, inputs)

    keys = jax.random.split(key, filter.num_particles)
    return jax.vmap(move)(keys, intentions.plan, intentions.z, ready.x)


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Mixing:
    """What it takes to mix beliefs: the particles before the move with their intentions, whose child each new particle
    is, what it has absorbed so far, and where it is now."""

    key: KeyArray
    shared: PyTree
    pool: _Particles
    thoughts: _Intentions
    ancestors: Int[Array, " particle"]
    absorbed: PyTree
    x: PyTree
    y: Observation
    inputs: Inputs


def _with_others(filter: ParticleFilter, given: _Mixing) -> PyTree:
    """Mix into each belief what it would be if the particle had come from another ancestor."""
    belief, pool = filter.bound_belief, given.pool

    def log_score(chosen):
        x_from, intention = jax.tree.map(lambda leaf: leaf[chosen], (pool.x, given.thoughts))
        return _score_moves(filter, x_from, intention, given.x, given.y, given.inputs)

    others = other_ancestors(given.key, filter.num_islands, pool.log_weights, given.ancestors, log_score)
    other_x, other_statistics = jax.tree.map(lambda leaf: leaf[others], (pool.x, pool.statistics))
    data = Datum(other_x, given.x, given.y, given.inputs)
    from_other = belief.absorb_all(given.shared, other_statistics, data)
    return jax.vmap(belief.mixed, in_axes=(None, 0, 0))(given.shared, given.absorbed, from_other)


def _score_moves(
    filter: ParticleFilter, x_prev: PyTree, intentions: _Intentions, x: PyTree, y: Observation, inputs: Inputs
) -> Float[Array, " particle"]:
    """Return log p(x | x_prev, theta) p(y | x, theta) for one origin (x_prev, theta) of each particle."""
    model = filter.model

    def score(x_from, intention, x_new):
        theta = model.parameters.constrain(intention.z)
        seen = model.observation_log_prob(theta, x_new, y, inputs)
        if intention.blur is None:
            return model.transition_log_prob(theta, x_from, x_new, inputs) + seen
        center = model.parameters.constrain(intention.blur.z)
        moved = known_gaussian(model.transition(center, x_from, inputs)).blurred(intention.blur.columns)
        return moved.log_prob(x_new) + seen

    return jax.vmap(score)(x_prev, intentions, x)


def _all_finite(tree: Any) -> Bool[Array, ""]:
    """Tell whether every number of one particle's tree is finite."""
    return functools.reduce(
        jnp.logical_and, [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)], jnp.bool_(True)
    )


def _holds_infinity(y: Observation) -> Bool[Array, ""]:
    return functools.reduce(jnp.logical_or, [jnp.any(jnp.isinf(leaf)) for leaf in jax.tree.leaves(y)], jnp.bool_(False))


def keep_where(mask: Bool[Array, " particle"], new: Any, old: Any) -> Any:
    """Take the new values of the particles where `mask` holds, the old ones elsewhere."""

    def choose(new_leaf, old_leaf):
        return jnp.where(mask.reshape(-1, *[1] * (new_leaf.ndim - 1)), new_leaf, old_leaf)

    return jax.tree.map(choose, new, old)

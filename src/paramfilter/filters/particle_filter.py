"""The one loop of this library. Its parts make it Storvik's filter, the extended parameter filter, or another.

One step, for particles i = 1..N with states x^i, statistics S^i and weights w^i (Erol et al. 2013, Algorithm 3):

1. resample (x, S) by w, if the resampling part asks for it;
2. regroup what the beliefs share, and draw theta^i from the belief q(theta | S^i);
3. propose the next state x'^i given theta^i, and weigh it (bootstrap: draw by the transition, weigh by p(y | x'^i,
   theta^i));
4. absorb (x^i, x'^i, y) into S^i.

Weights are kept until the next step begins, so that posteriors use all particles, and a look-ahead resampling can see
y.

Trouble never raises here and never passes in silence: a particle for which the model is NaN gets weight zero and
keeps its old state; a step that no particle survives is rolled back; +-inf is refused; all of it is flagged in
`info.outcome`.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from paramfilter.beliefs import ERROR_LIMIT, Belief, BoundBelief
from paramfilter.compensated import CompensatedSum
from paramfilter.errors import DataError, ModelError
from paramfilter.filters.fingerprint import fingerprint, first_difference
from paramfilter.filters.posterior import Posterior, approximation_error
from paramfilter.filters.state import FilterState, StepInfo
from paramfilter.model import Datum, StateSpaceModel, strongly_typed
from paramfilter.outcome import Outcome
from paramfilter.probe import ModelShapes, probe
from paramfilter.proposals import Bootstrap, BoundProposal, Proposal
from paramfilter.resampling import Resampling, Systematic
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.weights import effective_sample_size, normalise

WITNESS = 3
"""Folded into a step's key for what beliefs keep; the other keys of a step are split from it."""


@dataclass(frozen=True, eq=False)
class ParticleFilter:
    """A particle filter whose particles believe something about theta.

    Args:
        model: The model.
        num_particles: N.
        belief: What each particle believes about theta.
        proposal: How particles move.
        resampling: When and how particles are resampled.
    """

    model: StateSpaceModel
    num_particles: int
    belief: Belief
    proposal: Proposal = Bootstrap()
    resampling: Resampling = Systematic()
    _compiled: dict[Callable, Callable] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self):
        if not isinstance(self.num_particles, int) or self.num_particles < 2:
            raise ModelError(f"num_particles must be an integer of at least 2, got {self.num_particles!r}.")
        # Touch what can fail, so that a wrong model is refused here and not at the first observation.
        _ = (self.shapes, self.bound_belief, self.bound_proposal, self.fingerprint)

    @cached_property
    def shapes(self) -> ModelShapes:
        """What one state and one observation look like."""
        return probe(self.model)

    @cached_property
    def bound_belief(self) -> BoundBelief:
        """The belief, fitted to the model."""
        return self.belief.bind(self.model)

    @cached_property
    def bound_proposal(self) -> BoundProposal:
        """The proposal, fitted to the model."""
        return self.proposal.bind(self.model)

    @cached_property
    def fingerprint(self) -> str:
        """What tells this filter from another."""
        return fingerprint(self.bound_belief, self.num_particles)

    def require_own(self, state: FilterState) -> None:
        """Refuse a state that another filter made."""
        difference = first_difference(state.made_by, self.fingerprint)
        if difference is not None:
            raise DataError(
                f"this state belongs to another filter; {difference}. Use filter.init, or the filter it came from."
            )

    def init(self, key: KeyArray, inputs: Inputs = None) -> FilterState:
        """Draw particles from the prior and the initial law; no data are seen.

        Args:
            key: A typed key, `jax.random.key(seed)`; the state carries it on.
            inputs: What the model's `initial` is told.
        """
        return self.compiled(_init)(key, strongly_typed(inputs))

    def step(self, state: FilterState, y: Observation, inputs: Inputs = None) -> tuple[FilterState, StepInfo]:
        """Take in one observation: pure, compiled once, and itself usable under jit, vmap and scan.

        Args:
            state: The state so far.
            y: The observation; NaN where missing.
            inputs: What the model is told at this step.
        """
        self.require_own(state)
        return self.compiled(_step)(state, self.as_observation(y), strongly_typed(inputs))

    def posterior(self, state: FilterState) -> Posterior:
        """Return the posterior of theta: the weighted mixture of the particles' beliefs."""
        self.require_own(state)
        return Posterior(self, state)

    def compiled(self, function: Callable) -> Callable:
        """Return `jax.jit` of `function(filter, ...)`, made once for this filter."""
        if function not in self._compiled:
            self._compiled[function] = jax.jit(functools.partial(function, self))
        return self._compiled[function]

    def as_observation(self, y: Observation, leading: tuple[str, ...] = ()) -> Observation:
        """Turn y into float arrays and check its shape; `leading` names axes in front of one observation's."""
        y = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), y)
        expected = self.shapes.y
        if jax.tree.structure(y) != jax.tree.structure(expected):
            raise DataError(
                f"an observation must have the structure of the model's own, {jax.tree.structure(expected)}; got "
                f"{jax.tree.structure(y)}."
            )
        for got, wanted in zip(jax.tree.leaves(y), jax.tree.leaves(expected), strict=True):
            if got.shape[len(leading) :] != wanted.shape or got.ndim < len(leading):
                axes = ", ".join([*leading, *map(str, wanted.shape)])
                raise DataError(
                    f"the model's observation has shape {wanted.shape}, so y must have shape ({axes}); got {got.shape}."
                )
        return y


def _init(self: ParticleFilter, key: KeyArray, inputs: Inputs) -> FilterState:
    belief, parameters = self.bound_belief, self.model.parameters
    key_filter, key_theta, key_x = jax.random.split(key, 3)

    z = jax.vmap(parameters.sample)(jax.random.split(key_theta, self.num_particles))
    shared = belief.start_shared(z)

    def one(particle_key, particle_z):
        x = strongly_typed(self.model.sample_initial(particle_key, parameters.constrain(particle_z), inputs))
        return x, belief.absorb_initial(shared, belief.start(), x, inputs)

    x, statistics = jax.vmap(one)(jax.random.split(key_x, self.num_particles), z)
    log_weights, _ = normalise(jnp.zeros(self.num_particles, z.dtype))
    return FilterState(
        key=key_filter,
        time=jnp.int32(0),
        x=x,
        z=z,
        shared=shared,
        statistics=statistics,
        log_weights=log_weights,
        running_log_evidence=CompensatedSum.start(jnp.zeros((), z.dtype)),
        outcome=jnp.int32(Outcome.OK),
        made_by=self.fingerprint,
    )


def _step(self: ParticleFilter, state: FilterState, y: Observation, inputs: Inputs) -> tuple[FilterState, StepInfo]:
    belief, proposal = self.bound_belief, self.bound_proposal
    key_step = jax.random.fold_in(state.key, state.time)
    key_resample, key_theta, key_move = jax.random.split(key_step, 3)

    resampled = self.resampling.resample(key_resample, state.log_weights)
    x, z, statistics = jax.tree.map(lambda leaf: leaf[resampled.ancestors], (state.x, state.z, state.statistics))

    shared, statistics = belief.regroup(state.shared, statistics, z, resampled.log_weights)
    draws = jax.vmap(belief.draw, in_axes=(0, None, 0, 0))(
        jax.random.split(key_theta, self.num_particles), shared, statistics, z
    )

    def move(key, z_one, x_one):
        return proposal.propose(key, self.model.parameters.constrain(z_one), x_one, y, inputs)

    moves = jax.vmap(move)(jax.random.split(key_move, self.num_particles), draws.z, x)
    is_usable = jax.vmap(_all_finite)((moves.x, draws.z)) & (moves.log_weight < jnp.inf)
    new_x, new_z = _keep_where(is_usable, (moves.x, draws.z), (x, z))

    def absorb(statistic, x_prev, x_new):
        return belief.absorb(shared, statistic, Datum(x_prev, x_new, y, inputs))

    absorbed = jax.vmap(absorb)(statistics, x, new_x)
    # The second argument lends its axis to beliefs without a statistic.
    fits = jax.vmap(lambda statistic, _: _all_finite(statistic))(absorbed, new_z)
    new_statistics = _keep_where(is_usable & fits, absorbed, statistics)

    log_weights = resampled.log_weights + jnp.where(is_usable, moves.log_weight, -jnp.inf)
    log_weights, log_total = normalise(log_weights)
    data = Datum(x, new_x, y, inputs)
    shared = belief.witness(jax.random.fold_in(key_step, WITNESS), shared, data, new_z, log_weights, state.time)
    is_refused = _holds_infinity(y)
    has_failed = ~jnp.isfinite(log_total) & ~is_refused
    is_accepted = ~is_refused & ~has_failed
    error = approximation_error(belief, shared, new_statistics, new_z, log_weights)
    num_nan = jnp.where(is_refused, 0, jnp.sum(~is_usable))
    flags = jnp.where(
        is_refused,
        Outcome.OBSERVATION_NOT_FINITE,
        jnp.where(has_failed, Outcome.ALL_WEIGHTS_ZERO, Outcome.OK)
        | jnp.where(num_nan > 0, Outcome.MODEL_RETURNED_NAN, Outcome.OK)
        | jnp.where(error <= ERROR_LIMIT, Outcome.OK, Outcome.BELIEF_INACCURATE)  # also if it is no number
        | jnp.where(jnp.any(is_usable & ~fits), Outcome.STATISTIC_OVERFLOW, Outcome.OK)
        | jax.lax.reduce(draws.outcome, jnp.int32(Outcome.OK), jax.lax.bitwise_or, (0,)),
    ).astype(jnp.int32)

    after = FilterState(
        key=state.key,
        time=state.time + 1,
        x=new_x,
        z=new_z,
        shared=shared,
        statistics=new_statistics,
        log_weights=log_weights,
        running_log_evidence=state.running_log_evidence.add(log_total),
        outcome=state.outcome,
        made_by=state.made_by,
    )
    kept = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), after, state)
    # A failed step passes (the next one uses fresh random numbers); a refused observation was never taken in.
    time = jnp.where(is_refused, state.time, state.time + 1)
    new_state = FilterState(**{**vars(kept), "time": time, "outcome": state.outcome | flags})
    info = StepInfo(
        ess=jnp.where(has_failed, 0.0, effective_sample_size(kept.log_weights)),
        log_evidence_increment=jnp.where(is_refused, 0.0, log_total),
        outcome=flags,
        resampled=resampled.happened & is_accepted,
        num_nan=num_nan,
        approximation_error=jnp.where(is_accepted, error, 0.0),
    )
    return new_state, info


def _all_finite(tree: Any) -> Bool[Array, ""]:
    """Tell whether every number of one particle's tree is finite."""
    return functools.reduce(
        jnp.logical_and, [jnp.all(jnp.isfinite(leaf)) for leaf in jax.tree.leaves(tree)], jnp.bool_(True)
    )


def _holds_infinity(y: Observation) -> Bool[Array, ""]:
    return functools.reduce(jnp.logical_or, [jnp.any(jnp.isinf(leaf)) for leaf in jax.tree.leaves(y)], jnp.bool_(False))


def _keep_where(mask: Bool[Array, " particle"], new: Any, old: Any) -> Any:
    """Take the new values of the particles where `mask` holds, the old ones elsewhere."""

    def choose(new_leaf, old_leaf):
        return jnp.where(mask.reshape(-1, *[1] * (new_leaf.ndim - 1)), new_leaf, old_leaf)

    return jax.tree.map(choose, new, old)

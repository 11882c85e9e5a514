"""SMC^2: many values of theta, each with a particle filter of its own, moved by PMMH when too few of them count.

It takes one observation at a time and converges to the exact posterior, but it is not online: a move runs the filters
again over the whole past, so the past is kept, and an observation costs more the more came before. When few moves are
accepted the filters are too noisy, and their size is doubled.

N. Chopin, P. Jacob and O. Papaspiliopoulos, SMC^2: an efficient algorithm for sequential analysis of state space
models, JRSS B 75 (2013).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, PyTree
from scipy.special import logsumexp

from paramfilter.errors import ModelError
from paramfilter.filters import keep_where
from paramfilter.model import StateSpaceModel
from paramfilter.references.bootstrap import first_states, moved_and_weighed, systematic
from paramfilter.references.draws import DrawPosterior
from paramfilter.references.metropolis import fitted_step
from paramfilter.references.problem import in_float64
from paramfilter.types import Inputs, KeyArray, Observation

FIRST_ROOM = 256
"""Steps that the kept past has room for at first; doubled when it is full, which compiles anew."""
TOO_FEW_ACCEPTED = 0.15


@dataclass(frozen=True, eq=False)
class Smc2State:
    """What has been learned, and the past that it takes to go on.

    Attributes:
        key: Carried on.
        time: Observations so far.
        z: The values of theta, in unconstrained coordinates.
        x: The states of each value's filter.
        log_likelihood: Each filter's estimate of log p(y_{1:t} | theta).
        log_weights: Normalised weights of the values.
        log_evidence: The estimate of log p(y_{1:t}).
        past: Observations and inputs so far, with room for more.
        initial_inputs: What the model's `initial` is told.
        num_states: Of each filter, now.
        num_runs_of_the_past: How often the filters were run over the whole past.
        acceptance: Of the last moves.
    """

    key: KeyArray
    time: int
    z: Float[Array, "value param"]
    x: PyTree
    log_likelihood: Float[Array, " value"]
    log_weights: Float[np.ndarray, " value"]
    log_evidence: float
    past: Any
    initial_inputs: Inputs
    num_states: int
    num_runs_of_the_past: int = 0
    acceptance: float | None = None


@dataclass(frozen=True, eq=False)
class SMC2:
    """SMC^2 on a model: `init`, `step` and `posterior`, as a filter has them.

    Args:
        model: The model.
        num_particles: Values of theta.
        num_states: States of each value's filter, to begin with.
        num_moves: PMMH moves of each value when values are resampled.
        ess_share: Values are resampled when their effective number falls below this share.
    """

    model: StateSpaceModel
    num_particles: int = 200
    num_states: int = 100
    num_moves: int = 3
    ess_share: float = 0.5
    _compiled: dict[Any, Callable] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self):
        if min(self.num_particles, self.num_states) < 2 or self.num_moves < 1 or not 0 < self.ess_share < 1:
            raise ModelError(
                "SMC2 needs at least 2 particles, 2 states, 1 move and an ess_share between 0 and 1; got "
                f"{self.num_particles}, {self.num_states}, {self.num_moves} and {self.ess_share}."
            )

    def init(self, key: KeyArray, inputs: Inputs = None) -> Smc2State:
        """Draw values of theta from the prior, and states for each."""
        with jax.enable_x64(True):
            key, key_z, key_x = jax.random.split(key, 3)
            z = jax.vmap(self.model.parameters.sample)(jax.random.split(key_z, self.num_particles))
            inputs = in_float64(inputs)
            x = self._started(self.num_states)(key_x, z, inputs)
        even = np.full(self.num_particles, -np.log(self.num_particles))
        return Smc2State(key, 0, z, x, jnp.zeros(self.num_particles), even, 0.0, None, inputs, self.num_states)

    def step(self, state: Smc2State, y: Observation, inputs: Inputs = None) -> Smc2State:
        """Take in one observation; now and then this runs over the whole past."""
        with jax.enable_x64(True):
            now = in_float64((y, inputs))
            key, key_step = jax.random.split(state.key)
            x, increments = self._advanced(state.num_states)(key_step, state.z, state.x, now)
            weighed = state.log_weights + _none_if_nan(increments)
            total = float(logsumexp(weighed))
            if not np.isfinite(total):
                raise ModelError(f"no value of theta explains the observation at t = {state.time + 1}.")
            state = replace(
                state,
                key=key,
                time=state.time + 1,
                x=x,
                log_likelihood=state.log_likelihood + increments,
                log_weights=weighed - total,
                log_evidence=state.log_evidence + total,
                past=_remember(state.past, now, state.time),
            )
            if _effective(state.log_weights) < self.ess_share * self.num_particles:
                state = self._moved(state)
            return state

    def posterior(self, state: Smc2State) -> DrawPosterior:
        """Return the weighted values of theta."""
        return DrawPosterior(
            self.model.parameters,
            np.asarray(state.z),
            state.log_weights,
            log_evidence=state.log_evidence,
            standard_error=float(_effective(state.log_weights) ** -0.5),
            acceptance=state.acceptance,
        )

    def _moved(self, state: Smc2State) -> Smc2State:
        """Resample the values and move each by PMMH on all data so far; double the filters if that hardly works."""
        key, key_choose, *keys = jax.random.split(state.key, 2 + self.num_moves)
        chosen = systematic(key_choose, jnp.exp(state.log_weights))
        z, x, log_likelihood = jax.tree.map(lambda leaf: leaf[chosen], (state.z, state.x, state.log_likelihood))
        factor = jnp.asarray(fitted_step(np.asarray(z), self.model.parameters.prior_sd))
        shares = []
        for key_move in keys:
            z, x, log_likelihood, accepted = self._pmmh_move(state.num_states)(
                key_move, z, x, log_likelihood, factor, state.past, state.initial_inputs, state.time
            )
            shares.append(float(jnp.mean(accepted)))
        even = np.full(self.num_particles, -np.log(self.num_particles))
        acceptance = float(np.mean(shares))
        state = replace(
            state,
            key=key,
            z=z,
            x=x,
            log_likelihood=log_likelihood,
            log_weights=even,
            num_runs_of_the_past=state.num_runs_of_the_past + self.num_moves,
            acceptance=acceptance,
        )
        return self._doubled(state) if acceptance < TOO_FEW_ACCEPTED else state

    def _doubled(self, state: Smc2State) -> Smc2State:
        """Put filters of twice the size in place of the present ones, and weigh by the change of their likelihoods."""
        key, key_run = jax.random.split(state.key)
        num_states = 2 * state.num_states
        run = self._run_again(num_states)
        x, log_likelihood = run(key_run, state.z, state.past, state.initial_inputs, state.time)
        weighed = state.log_weights + _none_if_nan(log_likelihood - state.log_likelihood)
        return replace(
            state,
            key=key,
            x=x,
            log_likelihood=log_likelihood,
            log_weights=weighed - logsumexp(weighed),
            num_states=num_states,
            num_runs_of_the_past=state.num_runs_of_the_past + 1,
        )

    def _started(self, num_states: int) -> Callable:
        return self._jitted("start", num_states, lambda key, z, inputs: self._first(num_states, key, z, inputs))

    def _advanced(self, num_states: int) -> Callable:
        def advance(key, z, x, now):
            y, inputs = now
            return self._next(num_states, key, z, x, y, inputs)

        return self._jitted("advance", num_states, advance)

    def _run_again(self, num_states: int) -> Callable:
        return self._jitted("run again", num_states, lambda *given: self._over_the_past(num_states, *given))

    def _pmmh_move(self, num_states: int) -> Callable:
        log_prior = jax.vmap(self.model.parameters.log_prior)

        def move(key, z, x, log_likelihood, factor, past, initial_inputs, time):
            key_noise, key_run, key_accept = jax.random.split(key, 3)
            proposed = z + jax.random.normal(key_noise, z.shape) @ factor.T
            new_x, new_likelihood = self._over_the_past(num_states, key_run, proposed, past, initial_inputs, time)
            log_ratio = new_likelihood + log_prior(proposed) - log_likelihood - log_prior(z)
            accepted = jnp.log(jax.random.uniform(key_accept, log_ratio.shape)) < log_ratio
            return *keep_where(accepted, (proposed, new_x, new_likelihood), (z, x, log_likelihood)), accepted

        return self._jitted("move", num_states, move)

    def _first(self, num_states: int, key, z, inputs):
        one = lambda key, value: first_states(self.model, key, _rows(value, num_states), inputs)
        return jax.vmap(one)(jax.random.split(key, len(z)), z)

    def _next(self, num_states: int, key, z, x, y, inputs):
        def one(key, value, states):
            key_move, key_resample = jax.random.split(key)
            states, weights, log_mean = moved_and_weighed(
                self.model, key_move, _rows(value, num_states), states, y, inputs
            )
            chosen = systematic(key_resample, weights)
            return jax.tree.map(lambda leaf: leaf[chosen], states), log_mean

        return jax.vmap(one)(jax.random.split(key, len(z)), z, x)

    def _over_the_past(self, num_states: int, key, z, past, initial_inputs, time):
        """Run each value's filter over all data so far."""
        key_first, key_steps = jax.random.split(key)

        def turn(index, carry):
            x, log_likelihood = carry
            y, inputs = jax.tree.map(lambda leaf: leaf[index], past)
            x, increments = self._next(num_states, jax.random.fold_in(key_steps, index), z, x, y, inputs)
            return x, log_likelihood + increments

        start = self._first(num_states, key_first, z, initial_inputs)
        return jax.lax.fori_loop(0, time, turn, (start, jnp.zeros(len(z))))

    def _jitted(self, name: str, num_states: int, function: Callable) -> Callable:
        if (name, num_states) not in self._compiled:
            self._compiled[name, num_states] = jax.jit(function)
        return self._compiled[name, num_states]


def _rows(value: Float[Array, " param"], num_states: int) -> Float[Array, "state param"]:
    return jnp.broadcast_to(value, (num_states, *value.shape))


def _none_if_nan(increments: Float[Array, " value"]) -> Float[np.ndarray, " value"]:
    """Count NaN as impossible."""
    return np.where(np.isnan(increments), -np.inf, np.asarray(increments))


def _effective(log_weights: Float[np.ndarray, " value"]) -> float:
    return float(np.exp(-logsumexp(2 * log_weights)))


def _remember(past: Any, now: Any, time: int) -> Any:
    """Write an observation and its inputs behind those that are there."""
    if past is None:
        past = jax.tree.map(lambda leaf: jnp.zeros((FIRST_ROOM, *leaf.shape), leaf.dtype), now)
    if time == len(jax.tree.leaves(past)[0]):
        past = jax.tree.map(lambda leaf: jnp.concatenate([leaf, jnp.zeros_like(leaf)]), past)
    return jax.tree.map(lambda rows, row: rows.at[time].set(row), past, now)

"""The filter as its user sees it: parts in, states and posteriors out. What a step does is in `loop`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from paramfilter.arguments import require_key, require_kind, whole_number
from paramfilter.distributions import ravel
from paramfilter.errors import ModelError
from paramfilter.filters import Filter, History, Moments, OutlierGate, StepInfo, Summary
from paramfilter.filters.fingerprint import model_fingerprint, settings_of
from paramfilter.filters.history import Maker
from paramfilter.filters.outliers import require_outliers
from paramfilter.filters.quantiles import as_points, as_theta, ravel_rows, unravel_rows
from paramfilter.filters.window import WINDOW, window_of
from paramfilter.inspect.probe import require_densities
from paramfilter.model import StateSpaceModel
from paramfilter.numerics.quantiles import weighted_quantiles
from paramfilter.numerics.weights import mixture_mean_and_variance
from paramfilter.particles.belief import Belief, BoundBelief
from paramfilter.particles.loop import first_state, forecasts_of, next_state
from paramfilter.particles.mixing import AncestorMixing
from paramfilter.particles.parts import Parts
from paramfilter.particles.posterior import Posterior, draw_joint, mixture_moments
from paramfilter.particles.state import ParticleState
from paramfilter.proposals import Bootstrap, Proposal
from paramfilter.resampling import Resampling, Systematic
from paramfilter.tracing import is_traced
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.waiting import waiting

ORDER = "The model comes first, then the number of particles, for example 1000."


@dataclass(frozen=True, eq=False)
class ParticleFilter(Filter):
    """A particle filter whose particles fix a state and hold a belief about theta.

    Args:
        model: The model.
        num_particles: N.
        belief: How each particle represents what it knows about theta.
        proposal: How particles move.
        resampling: When and how particles are resampled.
        mixing: `AncestorMixing(8)` holds beliefs given the present state, mixed over ancestors, if the belief is a
            `Grid`; None follows the particle's path, as in the paper.
        outliers: What to do with observations far outside the forecasts; None uses them like any other.
        memory: After how many observations a datum counts 1/e of a new one, for parameters that drift; None forgets
            nothing. Compare `state.log_evidence` of filters with several memories.
    """

    state_kind: ClassVar[type] = ParticleState
    unit: ClassVar[str] = "particles"

    num_particles: int
    belief: Belief
    proposal: Proposal = Bootstrap()
    resampling: Resampling = Systematic()
    mixing: AncestorMixing | None = None
    outliers: OutlierGate | None = None
    memory: float | None = None

    def __post_init__(self):
        require_kind(self.model, StateSpaceModel, "model", ORDER)
        object.__setattr__(
            self, "num_particles", whole_number(self.num_particles, "num_particles", 2, ORDER, ModelError)
        )
        for name, kind, example in (
            ("belief", Belief, "Grid()"),
            ("proposal", Proposal, "Bootstrap()"),
            ("resampling", Resampling, "Systematic()"),
        ):
            require_kind(getattr(self, name), kind, name, f"Pass a part, such as {name}={example}, brackets and all.")
        if self.mixing is not None:
            require_kind(self.mixing, AncestorMixing, "mixing", "Pass mixing=AncestorMixing(8), or None.")
        require_outliers(self.outliers)
        # Touch what can fail, so that a wrong model is refused here and not at the first observation.
        with waiting("inspecting the model"):
            _ = self.shapes
            require_densities(self.model, "a filter of particles")
            _ = (self.parts, self.fingerprint)

    def __repr__(self) -> str:
        parts = f"{self.num_particles} particles, {self.belief}, {self.proposal}"
        return f"ParticleFilter({self.model.name}, {parts})"

    @property
    def size(self) -> int:
        """The number of particles."""
        return self.num_particles

    @cached_property
    def parts(self) -> Parts:
        """The parts, fitted to the model."""
        belief = self.belief.bind(self.model)
        require_memory(belief, self.memory)
        if self.mixing is not None and not belief.can_mix:
            raise ModelError(f"{belief.name} cannot be mixed over ancestors; use mixing=None, or Grid().")
        num_ancestors = 0 if self.mixing is None else self.mixing.num_ancestors
        proposal = self.proposal.bind(self.model)
        loop = self.resampling, num_ancestors, self.outliers, self.memory
        return Parts(self.model, self.num_particles, belief, proposal, *loop)

    @cached_property
    def fingerprint(self) -> str:
        """What tells this filter from another."""
        sizes = {"belief": self.parts.belief.name, "particles": self.num_particles, "memory": self.memory}
        parts = settings_of(
            mixing=self.mixing, proposal=self.proposal, resampling=self.resampling, outliers=self.outliers
        )
        return json.dumps(model_fingerprint(self.model, {**sizes, **parts}))

    def init(self, key: KeyArray, inputs: Inputs = None) -> ParticleState:
        """Draw particles from the prior and the initial distribution; no data are seen.

        Args:
            key: A typed key, `jax.random.key(seed)`; the state carries it on.
            inputs: Covariates passed to the model's `initial`; None if it has none.
        """
        require_key(key, "filter.init(key)")
        return self.compiled(_init)(key, self.as_inputs(inputs))

    def step(self, state: ParticleState, y: Observation, inputs: Inputs = None) -> tuple[ParticleState, StepInfo]:
        """Take in one observation: pure, compiled once, and itself usable under jit, vmap and scan.

        Args:
            state: The state so far.
            y: The observation; NaN where missing.
            inputs: Covariates for this step, passed to `transition` and `observation`; None if there are none.
        """
        self.require_own(state)
        y, inputs = self.as_observation(y), self.as_inputs(inputs)
        if is_traced((state, y, inputs)):
            return self.compiled(_step)(state, y, inputs)
        rows = jax.tree.map(lambda leaf: leaf[None], (y, inputs))
        state, _, info = self.compiled(_advance)(state, *window_of(rows), np.int32(1))
        return state, info

    def posterior(self, state: ParticleState) -> Posterior:
        """Return the posterior of theta: the weighted mixture of the particles' beliefs."""
        self.require_own(state)
        return Posterior(self, state)

    def advance(
        self, state: ParticleState, ys: Observation, inputs: Inputs, num_steps: int
    ) -> tuple[ParticleState, History]:
        """Take in the first rows of a window; return the state and a history with `num_steps` rows filled."""
        state, records, _ = self.compiled(_advance)(state, ys, inputs, np.int32(num_steps))
        return state, records

    def summary(self, state: ParticleState, info: StepInfo) -> History:
        """Return one row of the history."""
        return self.compiled(_summarize)(state, info)

    def moments(self, state: ParticleState) -> Moments:
        """Return mean and variance of each parameter; inside a trace."""
        return mixture_moments(self.parts.belief, state)

    def forecast_moments(
        self, state: ParticleState, y: Observation, inputs: Inputs
    ) -> tuple[Float[Array, " obs"], Float[Array, " obs"]]:
        """Return mean and sd of the next observation over the draws by which its PIT is found; inside a trace."""
        draws = jax.vmap(ravel)(forecasts_of(self.parts, state, inputs).y).astype(jnp.result_type(float))
        return jnp.mean(draws, axis=0), jnp.std(draws, axis=0)

    def state_moments(self, state: ParticleState) -> tuple[PyTree, PyTree]:
        """Return mean and variance of x_t over the weighted particles; inside a trace."""
        x = jax.tree.map(lambda leaf: leaf.astype(float), state.x)
        return mixture_mean_and_variance(state.log_weights, x, jax.tree.map(jnp.zeros_like, x))

    def draw_joint(
        self, state: ParticleState, key_choose: KeyArray, keys_draw: Key[Array, " draw"]
    ) -> tuple[PyTree, Float[Array, "draw param"]]:
        """Draw (x_t, theta) together, one pair for each key; inside a trace."""
        return draw_joint(self.parts.belief, state, key_choose, keys_draw)

    def particles(
        self, state: ParticleState
    ) -> tuple[PyTree, Float[Array, "particle param"], Float[Array, " particle"]]:
        """Return state, theta's coordinates and log weight of each particle."""
        return state.x, state.z, state.log_weights


def require_memory(belief: BoundBelief, memory: Any) -> None:
    """Refuse a memory that is too short, or a belief that cannot forget."""
    if memory is None:
        return
    if not memory > 1:
        raise ModelError(f"memory must be longer than one observation, got {memory!r}; leave it out to forget nothing.")
    if not belief.can_forget:
        raise ModelError(
            f"{belief.name} cannot forget, because it does not add up its data. Use Conjugate() or Grid() instead."
        )


def _init(filter: ParticleFilter, key: KeyArray, inputs: Inputs) -> ParticleState:
    return first_state(filter.parts, key, inputs, filter.fingerprint)


def _step(filter: ParticleFilter, state: ParticleState, y: Observation, inputs: Inputs):
    return next_state(filter.parts, state, y, inputs)


def _advance(
    filter: ParticleFilter, state: ParticleState, ys: Observation, inputs: Inputs, num_steps: Int[Array, ""]
) -> tuple[ParticleState, History, StepInfo]:
    """Take `num_steps` steps over the first rows of a window.

    Returns:
        The new state; a history of `WINDOW` rows, of which the first `num_steps` are filled; the info of the last step.
    """

    @jax.jit  # so that it is traced once, and not for its shapes and the loop
    def record_step(state, index):
        y, inputs_now = jax.tree.map(lambda leaf: leaf[index], (ys, inputs))
        state, info = filter.compiled(_step)(state, y, inputs_now)
        return state, _summarize(filter, state, info)

    shapes = jax.eval_shape(record_step, state, num_steps)[1]
    records = jax.tree.map(lambda leaf: jnp.zeros((WINDOW, *leaf.shape), leaf.dtype), shapes)

    def turn(index, carry):
        state, records = carry
        state, record = record_step(state, index)
        return state, jax.tree.map(lambda rows, row: rows.at[index].set(row), records, record)

    state, records = jax.lax.fori_loop(0, num_steps, turn, (state, records))
    return state, records, jax.tree.map(lambda rows: rows[num_steps - 1], records.info)


def _summarize(filter: ParticleFilter, state: ParticleState, info: StepInfo) -> History:
    """Return one row of the history."""
    moments, weights = filter.moments(state), jnp.exp(state.log_weights)
    mean, variance = filter.state_moments(state)
    # The values of theta that moved the particles follow the posterior too, and have its shape.
    parameters = filter.model.parameters
    of_theta = as_theta(parameters, weighted_quantiles(weights, as_points(parameters, state.z)))
    rows = ravel_rows(jax.tree.map(lambda leaf: leaf.astype(float), state.x))
    of_state = unravel_rows(mean, weighted_quantiles(weights, rows))
    return History(
        theta=Summary(moments.mean, jax.tree.map(jnp.sqrt, moments.variance), of_theta),
        x=Summary(mean, jax.tree.map(jnp.sqrt, variance), of_state),
        info=info,
        maker=Maker(filter),
    )

"""The particle filter: parts in, states and posteriors out. What a step does is in `loop`."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Key, PyTree

from paramfilter.arguments import require_kind, whole_number
from paramfilter.distributions import ravel
from paramfilter.errors import ModelError
from paramfilter.filters import Engine, Filter, History, Moments, OutlierGate, Records, Summary
from paramfilter.filters.fingerprint import model_fingerprint, settings_of
from paramfilter.filters.quantiles import as_points, as_theta, ravel_rows, unravel_rows
from paramfilter.filters.window import WINDOW
from paramfilter.inspect.probe import require_densities
from paramfilter.model import StateSpaceModel
from paramfilter.numerics.quantiles import weighted_quantiles
from paramfilter.numerics.weights import mixture_mean_and_variance
from paramfilter.particles.belief import Belief, BoundBelief
from paramfilter.particles.loop import first_state, forecasts_of, next_state
from paramfilter.particles.mixing import AncestorMixing
from paramfilter.particles.parts import Parts
from paramfilter.particles.posterior import ParticlePosterior, draw_joint, mixture_moments
from paramfilter.particles.state import ParticleInfo, ParticleState
from paramfilter.proposals import Bootstrap, Proposal
from paramfilter.resampling import Resampling, Systematic
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.waiting import waiting

ORDER = "The model comes first, then the number of particles, for example 1000."


@dataclass(frozen=True, eq=False, kw_only=True)
class ParticleEngine(Engine):
    """The parts of a particle filter; `ParticleFilter` documents them."""

    state_kind: ClassVar[type] = ParticleState
    unit: ClassVar[str] = "particles"

    num_particles: int
    belief: Belief
    proposal: Proposal
    resampling: Resampling
    mixing: AncestorMixing | None

    def __post_init__(self):
        super().__post_init__()
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
        sizes = {"belief": self.parts.belief.name, "particles": self.num_particles, "memory": self.memory}
        parts = settings_of(
            mixing=self.mixing, proposal=self.proposal, resampling=self.resampling, outliers=self.outliers
        )
        return json.dumps(model_fingerprint(self.model, {**sizes, **parts}))

    def init(self, key: KeyArray, inputs: Inputs, prior: Any = None) -> ParticleState:
        return self.compiled(_init)(key, inputs)

    def step(self, state: ParticleState, y: Observation, inputs: Inputs) -> tuple[ParticleState, ParticleInfo]:
        return next_state(self.parts, state, y, inputs)

    def posterior(self, state: ParticleState) -> ParticlePosterior:
        return ParticlePosterior(self, state)

    def advance(
        self, state: ParticleState, ys: Observation, inputs: Inputs, num_steps: int, records: Records = "all"
    ) -> tuple[ParticleState, History | None]:
        if records == "none":
            return self.compiled(_take_in)(state, ys, inputs, np.int32(num_steps)), None
        state, history = self.compiled(_advance)(state, ys, inputs, np.int32(num_steps))
        return state, jax.tree.map(np.asarray, history)

    def summary(self, state: ParticleState, info: ParticleInfo) -> History:
        return self.compiled(_summarize)(state, info)

    def moments(self, state: ParticleState) -> Moments:
        return mixture_moments(self.parts.belief, state)

    def forecast_moments(
        self, state: ParticleState, y: Observation, inputs: Inputs
    ) -> tuple[Float[Array, " obs"], Float[Array, " obs"]]:
        draws = jax.vmap(ravel)(forecasts_of(self.parts, state, inputs).y).astype(jnp.result_type(float))
        return jnp.mean(draws, axis=0), jnp.std(draws, axis=0)

    def state_moments(self, state: ParticleState) -> tuple[PyTree, PyTree]:
        x = jax.tree.map(lambda leaf: leaf.astype(float), state.x)
        return mixture_mean_and_variance(state.log_weights, x, jax.tree.map(jnp.zeros_like, x))

    def draw_joint(
        self, state: ParticleState, key_choose: KeyArray, keys_draw: Key[Array, " draw"]
    ) -> tuple[PyTree, Float[Array, "draw param"]]:
        return draw_joint(self.parts.belief, state, key_choose, keys_draw)

    def particles(
        self, state: ParticleState
    ) -> tuple[PyTree, Float[Array, "particle param"], Float[Array, " particle"]]:
        return state.x, state.z, state.log_weights


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

    engine: ParticleEngine

    def __init__(
        self,
        model: StateSpaceModel,
        num_particles: int,
        belief: Belief,
        proposal: Proposal = Bootstrap(),
        resampling: Resampling = Systematic(),
        mixing: AncestorMixing | None = None,
        outliers: OutlierGate | None = None,
        memory: float | None = None,
    ):
        parts = {"belief": belief, "proposal": proposal, "resampling": resampling, "mixing": mixing}
        engine = ParticleEngine(model=model, num_particles=num_particles, outliers=outliers, memory=memory, **parts)
        super().__init__(engine)


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


def _init(engine: ParticleEngine, key: KeyArray, inputs: Inputs) -> ParticleState:
    return first_state(engine.parts, key, inputs, engine.fingerprint)


def _take_in(
    engine: ParticleEngine, state: ParticleState, ys: Observation, inputs: Inputs, num_steps: Int[Array, ""]
) -> ParticleState:
    """Take `num_steps` steps over the first rows of a window."""
    take_one = lambda now, state: engine.step(state, *jax.tree.map(lambda leaf: leaf[now], (ys, inputs)))[0]
    return jax.lax.fori_loop(0, num_steps, take_one, state)


def _advance(
    engine: ParticleEngine, state: ParticleState, ys: Observation, inputs: Inputs, num_steps: Int[Array, ""]
) -> tuple[ParticleState, History]:
    """Take `num_steps` steps over the first rows of a window, and fill as many of the `WINDOW` rows of a history."""

    @jax.jit  # so that it is traced once, and not for its shapes and the loop
    def record_step(state, index):
        y, inputs_now = jax.tree.map(lambda leaf: leaf[index], (ys, inputs))
        state, info = engine.compiled(ParticleEngine.step)(state, y, inputs_now)
        return state, _summarize(engine, state, info)

    shapes = jax.eval_shape(record_step, state, num_steps)[1]
    records = jax.tree.map(lambda leaf: jnp.zeros((WINDOW, *leaf.shape), leaf.dtype), shapes)

    def turn(index, carry):
        state, records = carry
        state, record = record_step(state, index)
        return state, jax.tree.map(lambda rows, row: rows.at[index].set(row), records, record)

    return jax.lax.fori_loop(0, num_steps, turn, (state, records))


def _summarize(engine: ParticleEngine, state: ParticleState, info: ParticleInfo) -> History:
    """Return one row of the history."""
    moments, weights = engine.moments(state), jnp.exp(state.log_weights)
    mean, variance = engine.state_moments(state)
    # The values of theta that moved the particles follow the posterior too, and have its shape.
    parameters = engine.model.parameters
    of_theta = as_theta(parameters, weighted_quantiles(weights, as_points(parameters, state.z)))
    rows = ravel_rows(jax.tree.map(lambda leaf: leaf.astype(float), state.x))
    of_state = unravel_rows(mean, weighted_quantiles(weights, rows))
    return History(
        theta=Summary(moments.mean, jax.tree.map(jnp.sqrt, moments.variance), of_theta),
        x=Summary(mean, jax.tree.map(jnp.sqrt, variance), of_state),
        info=info,
    )

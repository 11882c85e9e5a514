"""The filter as its user sees it: parts in, states and posteriors out. What a step does is in `loop`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from paramfilter.arguments import require_key, require_kind, whole_number
from paramfilter.beliefs import Belief, BoundBelief, Moments
from paramfilter.beliefs.base import Discountable
from paramfilter.distributions import ravel
from paramfilter.errors import ModelError
from paramfilter.filters.advance import History, advance, state_mean_and_variance, summarise, window_of
from paramfilter.filters.base import Filter
from paramfilter.filters.fingerprint import fingerprint, settings_of
from paramfilter.filters.loop import first_state, forecasts_of, next_state
from paramfilter.filters.mixing import Mixing, NoMixing, mixing_for
from paramfilter.filters.outliers import OutlierGate, require_outliers
from paramfilter.filters.posterior import Posterior, draw_joint, mixture_moments
from paramfilter.filters.state import FilterState, StepInfo
from paramfilter.inspect.probe import require_densities
from paramfilter.model import StateSpaceModel
from paramfilter.proposals import Bootstrap, BoundProposal, Proposal
from paramfilter.resampling import Resampling, Systematic
from paramfilter.tracing import is_traced
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.waiting import waiting

PARTS = (
    ("belief", Belief, "Grid()"),
    ("proposal", Proposal, "Bootstrap()"),
    ("resampling", Resampling, "Systematic()"),
)
"""The parts a filter is made of, by the names of its arguments, with an example of each."""


@dataclass(frozen=True, eq=False)
class ParticleFilter(Filter):
    """A particle filter whose particles fix a state and hold a belief about theta.

    Args:
        model: The model.
        num_particles: N.
        belief: How each particle represents what it knows about theta.
        proposal: How particles move.
        resampling: When and how particles are resampled.
        num_islands: Groups of particles that are never mixed; a divisor of N.
        outliers: What to do with observations far outside the forecasts; None uses them like any other.
        mixing: How beliefs are updated: `NoMixing()` along the particle's path, as in the paper; `PairwiseMixing()` or
            `AncestorMixing(4)` given its present state, mixed over ancestors; None for the best that the belief allows.
        memory: After how many observations a datum counts 1/e of a new one, for parameters that drift; None forgets
            nothing. Compare `state.log_evidence` of filters with several memories.
        health: Whether each step also forecasts its observation and reports R-hat, surviving ancestors and PIT. False
            makes a step smaller and quicker, and leaves those figures out.
    """

    state_kind: ClassVar[type] = FilterState

    num_particles: int
    belief: Belief
    proposal: Proposal = Bootstrap()
    resampling: Resampling = Systematic()
    num_islands: int = 1
    outliers: OutlierGate | None = None
    mixing: Mixing | None = NoMixing()
    memory: float | None = None
    health: bool = True

    def __post_init__(self):
        object.__setattr__(self, "num_particles", require_model_and_size(self.model, self.num_particles))
        for name, kind, example in PARTS:
            require_kind(getattr(self, name), kind, name, f"Pass a part, such as {name}={example}, brackets and all.")
        require_outliers(self.outliers)
        if not isinstance(self.num_islands, int) or not 1 <= self.num_islands <= self.num_particles // 2:
            raise ModelError(
                f"num_islands must be a whole number that leaves at least two particles to each island, got "
                f"{self.num_islands!r} for {self.num_particles} particles. Use 1, or 4 with hundreds of particles."
            )
        if self.num_particles % self.num_islands:
            raise ModelError(
                f"{self.num_particles} particles cannot be shared out among {self.num_islands} islands; use "
                f"{self.num_particles - self.num_particles % self.num_islands} particles."
            )
        _ = self.shapes
        require_densities(self.model, "a filter of particles")
        if self.memory is not None:
            object.__setattr__(self, "memory", require_memory(self.bound_belief, self.memory))
        if self.mixing is not None:
            require_kind(self.mixing, Mixing, "mixing", "Pass a part, such as mixing=PairwiseMixing(), or None.")
        # Touch what can fail, so that a wrong model is refused here and not at the first observation.
        with waiting("inspecting the model"):
            _ = (self.shapes, self.bound_belief, self.bound_proposal, self.bound_mixing, self.fingerprint)

    def __repr__(self) -> str:
        parts = f"{self.num_particles} particles, {self.belief}, {self.proposal}"
        return f"ParticleFilter({self.model.name}, {parts})"

    @property
    def size(self) -> int:
        """The number of particles."""
        return self.num_particles

    @property
    def num_chains(self) -> int:
        """The number of islands."""
        return self.num_islands

    @cached_property
    def bound_belief(self) -> BoundBelief:
        """The belief, fitted to the model."""
        return self.belief.bind(self.model)

    @cached_property
    def bound_proposal(self) -> BoundProposal:
        """The proposal, fitted to the model."""
        return self.proposal.bind(self.model)

    @cached_property
    def bound_mixing(self) -> Mixing:
        """How beliefs are updated, chosen for the belief if it was left open."""
        return mixing_for(self.bound_belief, self.mixing)

    @cached_property
    def fingerprint(self) -> str:
        """What tells this filter from another; `health` is left out, since no later step depends on it."""
        sizes = {"particles": self.num_particles, "islands": self.num_islands, "memory": self.memory}
        parts = settings_of(
            mixing=self.bound_mixing, proposal=self.proposal, resampling=self.resampling, outliers=self.outliers
        )
        return fingerprint(self.bound_belief, {**sizes, **parts})

    def init(self, key: KeyArray, inputs: Inputs = None) -> FilterState:
        """Draw particles from the prior and the initial distribution; no data are seen.

        Args:
            key: A typed key, `jax.random.key(seed)`; the state carries it on.
            inputs: Covariates passed to the model's `initial`; None if it has none.
        """
        require_key(key, "filter.init(key)")
        return self.compiled(first_state)(key, self.as_inputs(inputs))

    def step(self, state: FilterState, y: Observation, inputs: Inputs = None) -> tuple[FilterState, StepInfo]:
        """Take in one observation: pure, compiled once, and itself usable under jit, vmap and scan.

        Args:
            state: The state so far.
            y: The observation; NaN where missing.
            inputs: Covariates for this step, passed to `transition` and `observation`; None if there are none.
        """
        self.require_own(state)
        y, inputs = self.as_observation(y), self.as_inputs(inputs)
        if is_traced((state, y, inputs)):
            return self.compiled(next_state)(state, y, inputs)
        rows = jax.tree.map(lambda leaf: leaf[None], (y, inputs))
        state, _, info = self.compiled(advance)(state, *window_of(rows), np.int32(1))
        return state, info

    def posterior(self, state: FilterState) -> Posterior:
        """Return the posterior of theta: the weighted mixture of the particles' beliefs."""
        self.require_own(state)
        return Posterior(self, state)

    def notes(self, state: FilterState) -> dict[str, Any]:
        """Return when beliefs were last mixed, and whether outliers are skipped."""
        return {"last_mixed": int(state.last_mixed), "skips_outliers": int(self.outliers is not None)}

    def advance(
        self, state: FilterState, ys: Observation, inputs: Inputs, num_steps: int
    ) -> tuple[FilterState, History]:
        """Take in the first rows of a window; return the state and a history with `num_steps` rows filled."""
        state, records, _ = self.compiled(advance)(state, ys, inputs, np.int32(num_steps))
        return state, records

    def summary(self, state: FilterState, info: StepInfo) -> History:
        """Return one row of the history."""
        return self.compiled(summarise)(state, info)

    def moments(self, state: FilterState) -> Moments:
        """Return mean and variance of each parameter; inside a trace."""
        return mixture_moments(self, state)

    def forecast_moments(
        self, state: FilterState, y: Observation, inputs: Inputs
    ) -> tuple[Float[Array, " obs"], Float[Array, " obs"]]:
        """Return mean and sd of each component of the next observation, over the step's own forecasts."""
        draws = jax.vmap(ravel)(forecasts_of(self, state, inputs).y).astype(jnp.result_type(float))
        return jnp.mean(draws, axis=0), jnp.std(draws, axis=0)

    def state_moments(self, state: FilterState) -> tuple[PyTree, PyTree]:
        """Return mean and variance of x_t over the weighted particles; inside a trace."""
        return state_mean_and_variance(self, state)

    def draw_joint(
        self, state: FilterState, key_choose: KeyArray, keys_draw: Key[Array, " draw"]
    ) -> tuple[PyTree, Float[Array, "draw param"]]:
        """Draw (x_t, theta) together, one pair for each key; inside a trace."""
        return draw_joint(self, state, key_choose, keys_draw)

    def particles(self, state: FilterState) -> tuple[PyTree, Float[Array, "particle param"], Float[Array, " particle"]]:
        """Return state, theta's coordinates and log weight of each particle."""
        return state.x, state.z, state.log_weights


def require_model_and_size(model: StateSpaceModel, num_particles: int) -> int:
    """Return the number of particles, or refuse it, or what is not a model."""
    order = "The model comes first, then the number of particles, for example 1000."
    require_kind(model, StateSpaceModel, "model", order)
    return whole_number(num_particles, "num_particles", 2, order, ModelError)


def require_memory(belief: BoundBelief, memory: float) -> float:
    """Return the memory, or refuse one that is too short, or a belief that cannot forget."""
    if not memory > 1:
        raise ModelError(f"memory must be longer than one observation, got {memory!r}; leave it out to forget nothing.")
    if not isinstance(belief, Discountable):
        raise ModelError(
            f"{belief.name} cannot forget, because it does not add up its data. Use Conjugate(), Grid(), "
            "CrossInterpolation() instead."
        )
    return float(memory)

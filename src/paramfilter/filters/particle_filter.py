"""The filter as its user sees it: parts in, states and posteriors out. What a step does is in `loop`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import jax
import numpy as np
from jaxtyping import Array, Float, Key, PyTree

from paramfilter.arguments import require_key, require_kind, whole_number
from paramfilter.beliefs import Belief, BoundBelief, Moments
from paramfilter.errors import ModelError
from paramfilter.filters.advance import History, advance, state_mean_and_variance, summarise, window_of
from paramfilter.filters.base import Filter
from paramfilter.filters.fingerprint import fingerprint
from paramfilter.filters.loop import first_state, next_state
from paramfilter.filters.outliers import SkipOutliers, require_outliers
from paramfilter.filters.posterior import Posterior, draw_joint, mixture_moments
from paramfilter.filters.state import FilterState, StepInfo
from paramfilter.inspect.probe import require_densities
from paramfilter.model import StateSpaceModel, as_inputs
from paramfilter.proposals import Bootstrap, BoundProposal, Proposal
from paramfilter.resampling import Resampling, Systematic
from paramfilter.tracing import is_traced
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.waiting import waiting

PARTS = (
    ("belief", Belief, "Chebyshev()"),
    ("proposal", Proposal, "Bootstrap()"),
    ("resampling", Resampling, "Systematic()"),
)
"""The parts a filter is made of, by the names of its arguments, with an example of each."""


@dataclass(frozen=True, eq=False)
class ParticleFilter(Filter):
    """A particle filter whose particles believe something about theta.

    Args:
        model: The model.
        num_particles: N.
        belief: What each particle believes about theta.
        proposal: How particles move.
        resampling: When and how particles are resampled.
        num_islands: Groups of particles that are never mixed; a divisor of N.
        outliers: What to do with observations far outside the forecasts; None takes them at their word.
        num_ancestors: 1 for beliefs that follow a particle's path, as in the paper; 2 for beliefs given its present
            state, mixed from two ancestors now and then; more, for beliefs that can hold any mixture, from so many at
            each step; None for 2 where the belief allows it.
    """

    state_kind: ClassVar[type] = FilterState

    num_particles: int
    belief: Belief
    proposal: Proposal = Bootstrap()
    resampling: Resampling = Systematic()
    num_islands: int = 1
    outliers: SkipOutliers | None = None
    num_ancestors: int | None = 1

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
        object.__setattr__(self, "num_ancestors", ancestors_for(self.bound_belief, self.num_ancestors))
        # Touch what can fail, so that a wrong model is refused here and not at the first observation.
        with waiting("inspecting the model"):
            _ = (self.shapes, self.bound_belief, self.bound_proposal, self.fingerprint)

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
    def fingerprint(self) -> str:
        """What tells this filter from another."""
        return fingerprint(self.bound_belief, self.num_particles, self.num_islands, self.num_ancestors)

    def init(self, key: KeyArray, inputs: Inputs = None) -> FilterState:
        """Draw particles from the prior and the initial law; no data are seen.

        Args:
            key: A typed key, `jax.random.key(seed)`; the state carries it on.
            inputs: What the model's `initial` is told.
        """
        require_key(key, "filter.init(key)")
        return self.compiled(first_state)(key, as_inputs(inputs))

    def step(self, state: FilterState, y: Observation, inputs: Inputs = None) -> tuple[FilterState, StepInfo]:
        """Take in one observation: pure, compiled once, and itself usable under jit, vmap and scan.

        Args:
            state: The state so far.
            y: The observation; NaN where missing.
            inputs: What the model is told at this step.
        """
        self.require_own(state)
        y, inputs = self.as_observation(y), as_inputs(inputs)
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
        return {"mixed_at": int(state.mixed_at), "skips_outliers": int(self.outliers is not None)}

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


def ancestors_for(belief: BoundBelief, wanted: int | None) -> int:
    """Return the number of ancestors that beliefs are mixed from, or refuse what is wanted."""
    if wanted is None:
        return 2 if belief.can_mix else 1
    wanted = whole_number(wanted, "num_ancestors", 1, "Leave it out, and the belief decides.", ModelError)
    most = wanted if belief.holds_mixtures else 2 if belief.can_mix else 1
    if wanted > most:
        raise ModelError(
            f"{belief.name} cannot be mixed from {wanted} ancestors; use num_ancestors={most}, or a belief that "
            "can be: CrossInterpolation() from two, Chebyshev() from any number."
        )
    return wanted

"""The filter as its user sees it: parts in, states and posteriors out. What a step does is in `loop`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import jax
import numpy as np

from paramfilter.arguments import require_key, require_kind, whole_number
from paramfilter.beliefs import Belief, BoundBelief
from paramfilter.errors import DataError, ModelError
from paramfilter.filters.advance import advance, window_of
from paramfilter.filters.fingerprint import fingerprint, first_difference
from paramfilter.filters.incoming import as_floats, shape_advice
from paramfilter.filters.loop import first_state, next_state
from paramfilter.filters.outliers import SkipOutliers
from paramfilter.filters.posterior import Posterior
from paramfilter.filters.state import FilterState, StepInfo
from paramfilter.laws import describe
from paramfilter.model import StateSpaceModel, as_inputs
from paramfilter.probe import ModelShapes, probe
from paramfilter.proposals import Bootstrap, BoundProposal, Proposal
from paramfilter.resampling import Resampling, Systematic
from paramfilter.tracing import is_traced
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.waiting import announced, waiting

PARTS = (
    ("belief", Belief, "Chebyshev()"),
    ("proposal", Proposal, "Bootstrap()"),
    ("resampling", Resampling, "Systematic()"),
)
"""The parts a filter is made of, by the names of its arguments, with an example of each."""


@dataclass(frozen=True, eq=False)
class ParticleFilter:
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

    model: StateSpaceModel
    num_particles: int
    belief: Belief
    proposal: Proposal = Bootstrap()
    resampling: Resampling = Systematic()
    num_islands: int = 1
    outliers: SkipOutliers | None = None
    num_ancestors: int | None = 1
    _compiled: dict[Callable, Callable] = field(default_factory=dict, init=False, repr=False)

    def __post_init__(self):
        object.__setattr__(self, "num_particles", require_model_and_size(self.model, self.num_particles))
        for name, kind, example in PARTS:
            require_kind(getattr(self, name), kind, name, f"Pass a part, such as {name}={example}, brackets and all.")
        if self.outliers is not None:
            require_kind(self.outliers, SkipOutliers, "outliers", "Pass outliers=SkipOutliers(), or None.")
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
        object.__setattr__(self, "num_ancestors", ancestors_for(self.bound_belief, self.num_ancestors))
        if self.bound_belief.needs_fresh_copies and self.bound_proposal.looks_ahead:
            raise ModelError(
                f"{self.bound_belief.name} moves values that have just been resampled, but {self.proposal} has theta "
                "drawn before particles are resampled. Use a proposal without LookAhead, such as Guided()."
            )
        # Touch what can fail, so that a wrong model is refused here and not at the first observation.
        with waiting("inspecting the model"):
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
        return fingerprint(self.bound_belief, self.num_particles, self.num_islands, self.num_ancestors)

    def require_own(self, state: FilterState) -> None:
        """Refuse what is not a state, and a state that another filter made."""
        require_kind(
            state,
            FilterState,
            "state",
            "Begin with state = filter.init(jax.random.key(0)); step and run return a pair, the new state and what "
            "happened. The calls are filter.step(state, y) and run(filter, state, ys).",
        )
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

    def compiled(self, function: Callable, **options: Any) -> Callable:
        """Return `jax.jit` of `function(filter, ...)` with some options, made once for this filter."""
        if function not in self._compiled:
            self._compiled[function] = announced(functools.partial(function, self), "compiling", **options)
        return self._compiled[function]

    def as_observation(self, y: Observation, leading: tuple[str, ...] = ()) -> Observation:
        """Turn y into float arrays and check its shape; `leading` names axes in front of one observation's."""
        expected = self.shapes.y
        is_one_array = jax.tree_util.treedef_is_leaf(jax.tree.structure(expected))
        y = as_floats(y) if is_one_array and isinstance(y, list | tuple) else jax.tree.map(as_floats, y)
        if jax.tree.structure(y) != jax.tree.structure(expected):
            raise DataError(
                f"an observation must have the structure of the model's own, {describe(expected)}; got {describe(y)}. "
                "Give arrays in that structure; NaN, not None, stands for a missing value."
            )
        for got, wanted in zip(jax.tree.leaves(y), jax.tree.leaves(expected), strict=True):
            if got.shape[len(leading) :] != wanted.shape or got.ndim < len(leading):
                axes = ", ".join([*leading, *map(str, wanted.shape)])
                raise DataError(
                    f"the model's observation has shape {wanted.shape}, so y must have shape ({axes}); got {got.shape}"
                    f". {shape_advice(got.shape, wanted.shape, len(leading))}"
                )
        self._refuse_partly_missing(y, leading)
        return y

    def _refuse_partly_missing(self, y: Observation, leading: tuple[str, ...]) -> None:
        """Refuse what no particle could be weighed by; inside a trace the step flags it instead."""
        for leaf, family in zip(jax.tree.leaves(y), self.shapes.whole, strict=True):
            if family is None or is_traced(leaf):
                continue
            missing = np.isnan(leaf).reshape(*leaf.shape[: len(leading)], -1)
            rows = np.flatnonzero(np.any(missing, axis=-1) & ~np.all(missing, axis=-1))
            if len(rows):
                where = f"the observation at index {rows[0]}" if leading else "the observation"
                raise DataError(
                    f"{where} is missing in part, but a {family} scores its components only together. Set all of "
                    "them to NaN, or observe them through a distribution that factorises, such as "
                    "dist.Normal(mean, sd).to_event(1), or a MultivariateNormal, which is marginalised exactly."
                )


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

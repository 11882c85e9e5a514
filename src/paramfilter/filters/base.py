"""What `run`, `predict`, `save`, `Fleet`, results and diagnostics know of a filter: all that the families share.

A filter holds no data: its state does. `init` makes a state, `step` takes in one observation and is pure, `posterior`
reads what is known of theta.
"""

from __future__ import annotations

import functools
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from paramfilter.arguments import require_kind
from paramfilter.data import as_inputs, as_observation, common_length, require_same_names
from paramfilter.errors import DataError
from paramfilter.filters.estimates import Moments
from paramfilter.filters.fingerprint import first_difference
from paramfilter.filters.window import WINDOW, window_of
from paramfilter.inspect.probe import ModelShapes, probe
from paramfilter.model import StateSpaceModel
from paramfilter.tracing import RUN_ONCE, is_traced
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.waiting import announced

BEGIN = (
    "Begin with state = filter.init(jax.random.key(0)); step and run return a pair, the new state and what "
    "happened. The calls are filter.step(state, y) and run(filter, state, ys)."
)


@dataclass(frozen=True, eq=False)
class Filter(ABC):
    """A model, and how to learn its parameters while filtering."""

    model: StateSpaceModel
    choice: str = field(default="", init=False, repr=False)
    """Which filter a preset has chosen for the model, and why."""
    _compiled: dict[tuple[Callable, str], Callable] = field(default_factory=dict, init=False, repr=False)

    state_kind: ClassVar[type]
    """The class of its states."""

    unit: ClassVar[str]
    """What it has many of: "nodes" or "particles"."""

    def note_choice(self, choice: str) -> None:
        """Note why this filter was made, here and in the log."""
        object.__setattr__(self, "choice", choice)
        logging.getLogger("paramfilter").info("%s: %s", self.model.name, choice)

    @cached_property
    @abstractmethod
    def fingerprint(self) -> str:
        """What tells this filter from another."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of particles: of states, or of values of theta."""

    @abstractmethod
    def init(self, key: KeyArray, inputs: Inputs = None) -> Any:
        """Return the state before any data."""

    @abstractmethod
    def step(self, state: Any, y: Observation, inputs: Inputs = None) -> tuple[Any, Any]:
        """Take in one observation."""

    def step_if(self, state: Any, y: Observation, inputs: Inputs, has_one: Bool[Array, ""]) -> tuple[Any, Any]:
        """Take in one observation if there is one; if not, what is said of the step means nothing. Inside a trace."""
        nothing = jax.tree.map(
            lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(self.step, state, y, inputs)[1]
        )
        return jax.lax.fori_loop(
            0, has_one.astype(int), lambda _, carry: self.step(carry[0], y, inputs), (state, nothing)
        )

    def take_in(self, state: Any, ys: Observation, inputs: Inputs, length: Int[Array, ""]) -> Any:
        """Take in the first rows of a window; inside a trace."""
        take_one = lambda now, state: self.step(state, *jax.tree.map(lambda leaf: leaf[now], (ys, inputs)))[0]
        return jax.lax.fori_loop(0, length, take_one, state)

    def catch_up(self, state: Any, ys: Observation, inputs: Inputs = None) -> Any:
        """Process a sequence of observations without a history: faster than `run`, and equal to it up to rounding.

        Args:
            state: Current state, from `init`, `step` or `run`.
            ys: Observations with a leading time axis; NaN where missing.
            inputs: Covariates with the same leading axis; None if the model uses none.

        Returns:
            The state after the last observation.

        Example:
            >>> import jax, paramfilter as pf
            >>> filter = pf.sir_filter(pf.models.linear_gaussian(), 100)
            >>> state = filter.catch_up(filter.init(jax.random.key(0)), [0.1, float("nan"), 0.3])
            >>> int(state.time)
            3
        """
        self.require_own(state)
        ys = self.as_observation(ys, leading=("time",))
        length = common_length(ys)
        inputs = self.as_inputs(inputs, "ys", length)
        for start in range(0, length, WINDOW):
            ys_now, inputs_now = window_of((ys, inputs), start)
            state = self.pass_over(state, ys_now, inputs_now, min(WINDOW, length - start))
        return state

    def pass_over(self, state: Any, ys: Observation, inputs: Inputs, num_steps: int) -> Any:
        """Process the first rows of a window and keep no history."""
        return self.compiled(_take_in)(state, ys, inputs, np.int32(num_steps))

    @abstractmethod
    def posterior(self, state: Any) -> Any:
        """Return the posterior of theta."""

    @abstractmethod
    def advance(self, state: Any, ys: Observation, inputs: Inputs, num_steps: int) -> tuple[Any, Any]:
        """Take in the first rows of a window; return the state and a history with `num_steps` rows filled."""

    @abstractmethod
    def summary(self, state: Any, info: Any) -> Any:
        """Return one row of the history."""

    @abstractmethod
    def moments(self, state: Any) -> Moments:
        """Return mean and variance of each parameter, at little cost; inside a trace."""

    def read_moments(self, state: Any) -> Moments:
        """Return the same as exactly as can be; inside a trace."""
        return self.moments(state)

    @abstractmethod
    def forecast_moments(
        self, state: Any, y: Observation, inputs: Inputs
    ) -> tuple[Float[Array, " obs"], Float[Array, " obs"]]:
        """Return mean and sd of each component of the next observation, of which `y` has the form; inside a trace.

        A step makes the same forecast before it takes `y` in, so XLA computes both once.
        """

    @abstractmethod
    def state_moments(self, state: Any) -> tuple[PyTree, PyTree]:
        """Return mean and variance of x_t given all observations so far; inside a trace."""

    def state_mean(self, state: Any) -> PyTree:
        """Return the filtered mean of the state, E[x_t | y_1..y_t], in the form of the model's own state.

        Args:
            state: Of the filter, from `init`, `step` or `run`.
        """
        return self._state_mean_and_sd(state)[0]

    def state_sd(self, state: Any) -> PyTree:
        """Return the filtered standard deviation of each component of the state, in the form of the model's own state.

        Args:
            state: Of the filter, from `init`, `step` or `run`.
        """
        return self._state_mean_and_sd(state)[1]

    def _state_mean_and_sd(self, state: Any) -> tuple[PyTree, PyTree]:
        self.require_own(state)
        found = self.compiled(_state_mean_and_sd, compiler_options=RUN_ONCE)(state)
        return found if is_traced(found) else jax.tree.map(np.asarray, found)

    @abstractmethod
    def draw_joint(
        self, state: Any, key_choose: KeyArray, keys_draw: Key[Array, " draw"]
    ) -> tuple[PyTree, Float[Array, "draw param"]]:
        """Draw (x_t, theta) together, one pair for each key; inside a trace."""

    @abstractmethod
    def particles(self, state: Any) -> tuple[PyTree, Float[Array, "particle param"], Float[Array, " particle"]]:
        """Return state, theta's coordinates and log weight of each particle."""

    @cached_property
    def shapes(self) -> ModelShapes:
        """What one state and one observation look like."""
        return probe(self.model)

    def require_own(self, state: Any) -> None:
        """Refuse what is not a state, and a state that another filter made."""
        require_kind(state, self.state_kind, "state", BEGIN)
        difference = first_difference(state.fingerprint, self.fingerprint)
        if difference is not None:
            raise DataError(
                f"this state belongs to another filter; {difference}. Use filter.init, or the filter it came from."
            )

    def compiled(self, function: Callable, **options: Any) -> Callable:
        """Return `jax.jit` of `function(filter, ...)`, made once for this filter and each set of options."""
        key = function, repr(sorted(options.items()))
        if key not in self._compiled:
            self._compiled[key] = announced(functools.partial(function, self), "compiling", **options)
        return self._compiled[key]

    def as_observation(self, y: Observation, leading: tuple[str, ...] = ()) -> Observation:
        """Turn y into float arrays and check them; `leading` names axes in front of one observation's."""
        return as_observation(y, self.shapes.y, self.shapes.whole, self.shapes.supports, leading)

    def as_inputs(self, inputs: Inputs, ruler: str = "", length: int | None = None) -> Inputs:
        """Turn inputs into arrays and check that they are those of the model; see `data.as_inputs`."""
        require_same_names(inputs, self.model.example_inputs, self.model.name)
        return as_inputs(inputs, ruler, length)


def _take_in(filter: Filter, state: Any, ys: Observation, inputs: Inputs, length: Int[Array, ""]) -> Any:
    return filter.take_in(state, ys, inputs, length)


def _state_mean_and_sd(filter: Filter, state: Any) -> tuple[PyTree, PyTree]:
    mean, variance = filter.state_moments(state)
    return mean, jax.tree.map(jnp.sqrt, variance)

"""What stands behind a filter: all that `run`, `predict`, `save`, `Fleet`, results and diagnostics ask of it.

Each family has an engine. It holds no data: states do. Its functions take checked data; `Filter` is the door in front.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Literal

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from paramfilter.arguments import require_kind
from paramfilter.data import as_inputs, as_observation, require_same_names
from paramfilter.errors import DataError
from paramfilter.filters.estimates import Moments
from paramfilter.filters.fingerprint import first_difference
from paramfilter.filters.outliers import OutlierGate, require_outliers
from paramfilter.inspect.probe import ModelShapes, probe
from paramfilter.model import StateSpaceModel
from paramfilter.types import Inputs, KeyArray, Observation
from paramfilter.waiting import announced

Records = Literal["all", "info", "none"]

BEGIN = (
    "Begin with state = filter.init(jax.random.key(0)); step and run return a pair, the new state and what "
    "happened. The calls are filter.step(state, y) and run(filter, state, ys)."
)


@dataclass(frozen=True, eq=False, kw_only=True)
class Engine(ABC):
    """A model, and how to learn its parameters while filtering.

    Args:
        model: The model.
        outliers: What to do with observations far outside the forecasts; None uses them like any other.
        memory: Number of observations after which a datum counts 1/e of a new one; None forgets nothing.
    """

    model: StateSpaceModel
    outliers: OutlierGate | None
    memory: float | None
    _compiled: dict[tuple[Callable, str], Callable] = field(default_factory=dict, init=False, repr=False)

    state_kind: ClassVar[type]
    """The class of its states."""

    unit: ClassVar[str]
    """What it has many of: "nodes" or "particles"."""

    renews: ClassVar[bool] = False
    """Whether a state may be due after a step, and is then to be renewed."""

    def __post_init__(self):
        require_outliers(self.outliers)

    @cached_property
    @abstractmethod
    def fingerprint(self) -> str:
        """What tells this filter from another."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of particles: of states, or of values of theta."""

    @abstractmethod
    def init(self, key: KeyArray, inputs: Inputs, prior: Any = None) -> Any:
        """Return the state before any data; of nodes, under another prior if one is given."""

    @abstractmethod
    def step(self, state: Any, y: Observation, inputs: Inputs) -> tuple[Any, Any]:
        """Process one observation, and renew the state if it is due; inside a trace."""

    def step_if(self, state: Any, y: Observation, inputs: Inputs, has_one: Bool[Array, ""]) -> tuple[Any, Any]:
        """Process one observation if there is one, without renewing; if not, the info means nothing. Inside a trace."""
        nothing = jax.tree.map(
            lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), jax.eval_shape(self.step, state, y, inputs)[1]
        )
        return jax.lax.fori_loop(
            0, has_one.astype(int), lambda _, carry: self.step(carry[0], y, inputs), (state, nothing)
        )

    def is_due(self, state: Any) -> Bool[Array, ""]:
        """Tell whether a state is to be renewed before its next observation; inside a trace."""
        return jnp.bool_(False)

    def renew(self, state: Any) -> tuple[Any, Int[Array, ""]]:
        """Renew a state that is due, and return the flags that this raised; inside a trace."""
        raise NotImplementedError

    @abstractmethod
    def advance(
        self, state: Any, ys: Observation, inputs: Inputs, num_steps: int, records: Records = "all"
    ) -> tuple[Any, Any]:
        """Process the first rows of a window; return the state and a history with `num_steps` rows filled.

        Records are "all", or the "info" of each step and nothing that means anything besides, or "none" and no history.
        """

    @abstractmethod
    def posterior(self, state: Any) -> Any:
        """Return the posterior of theta."""

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
        """Return `jax.jit` of `function(engine, ...)`, made once for this engine and each set of options."""
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

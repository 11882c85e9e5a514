"""The filter as its user sees it, and the posterior that it gives.

A filter holds no data: its state does. `init` makes a state, `step` processes one observation and is pure, `posterior`
reads what is known of theta. Everything else is behind `engine`.
"""

from __future__ import annotations

import json
import logging
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from paramfilter.arguments import require_key, whole_number
from paramfilter.filters.engine import Engine
from paramfilter.filters.estimates import ErrorEstimate, Values, levels_of
from paramfilter.filters.step_info import in_brief
from paramfilter.filters.window import window_of
from paramfilter.labels import prior_in_brief
from paramfilter.model import StateSpaceModel
from paramfilter.tracing import RUN_ONCE, is_traced
from paramfilter.types import Inputs, KeyArray, Observation, Theta


@dataclass(frozen=True, eq=False)
class Filter:
    """A model, and how to learn its parameters while filtering.

    Attributes:
        engine: What `run`, `predict`, `save` and `Fleet` need of the filter; no user does.
        choice: Which filter a preset has chosen for the model, and why.
    """

    engine: Engine
    choice: str = ""

    def __repr__(self) -> str:
        return repr(self.engine)

    def __eq__(self, other: object) -> bool:
        """Tell whether another filter has the same fingerprint, so that records of both can be joined."""
        return isinstance(other, Filter) and other.fingerprint == self.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    @property
    def model(self) -> StateSpaceModel:
        """The model."""
        return self.engine.model

    @property
    def fingerprint(self) -> str:
        """What tells this filter from another."""
        return self.engine.fingerprint

    @property
    def size(self) -> int:
        """The number of nodes or particles."""
        return self.engine.size

    def init(self, key: KeyArray, inputs: Inputs = None) -> Any:
        """Return the state before any data: draws from the prior.

        Args:
            key: A typed key, `jax.random.key(seed)`; the state carries it on.
            inputs: Covariates passed to the model's `initial`; None if it uses none.
        """
        require_key(key, "filter.init(key)")
        return self.engine.init(key, self.engine.as_inputs(inputs))

    def step(self, state: Any, y: Observation, inputs: Inputs = None) -> tuple[Any, Any]:
        """Process one observation: pure, compiled once, and itself usable under jit, vmap and scan.

        Args:
            state: Current state, from `init`, `step` or `run`.
            y: The observation; NaN where missing.
            inputs: Covariates of this step, passed to `transition` and `observation`; None if the model uses none.

        Returns:
            The new state, and a `StepInfo` that says what happened.
        """
        engine = self.engine
        engine.require_own(state)
        y, inputs = engine.as_observation(y), engine.as_inputs(inputs)
        if is_traced((state, y, inputs)):
            return engine.compiled(type(engine).step)(state, y, inputs)
        rows = jax.tree.map(lambda leaf: leaf[None], (y, inputs))
        ys, inputs = window_of(rows)
        state, records = engine.advance(state, ys, inputs, 1, "info")
        return state, jax.tree.map(lambda leaf: leaf[0], records.info)

    def posterior(self, state: Any) -> Posterior:
        """Return the posterior of theta.

        Args:
            state: Of the filter, from `init`, `step` or `run`.
        """
        self.engine.require_own(state)
        return self.engine.posterior(state)


def note_choice(filter: Filter, choice: str) -> None:
    """Note why a filter was made, in the filter and in the log."""
    object.__setattr__(filter, "choice", choice)
    logging.getLogger("paramfilter").info("%s: %s", filter.model.name, choice)


@dataclass(frozen=True, eq=False)
class Posterior(ABC):
    """Posterior of the parameters. Every method returns a dict keyed by parameter name, in the original units."""

    engine: Engine
    state: Any

    def __repr__(self) -> str:
        names = prior_in_brief(self.engine.model.prior)
        return f"{type(self).__name__}({names}; {in_brief(self.state, self.engine.unit)})"

    def mean(self) -> dict[str, Values]:
        """Return the posterior mean of each parameter."""
        return self._in_order(self._means_and_sds()[0])

    def sd(self) -> dict[str, Values]:
        """Return the posterior standard deviation of each parameter."""
        return self._in_order(self._means_and_sds()[1])

    def quantile(self, q: float | Sequence[float]) -> dict[str, Values]:
        """Return quantiles of each parameter.

        Args:
            q: One level between 0 and 1, or a sequence of levels, which adds a leading axis.

        Returns:
            A dict such as `{"phi": array([0.70, 0.88])}` for `quantile([0.05, 0.95])`.
        """
        return self._in_order(self._quantiles(levels_of(q)))

    def sample(self, key: KeyArray, num_draws: int) -> dict[str, Values]:
        """Draw parameters from the posterior.

        Args:
            key: Random key, `jax.random.key(seed)`.
            num_draws: Number of draws. A new number does not compile again.

        Returns:
            A dict with a leading axis of draws.
        """
        require_key(key, "posterior.sample(key, num_draws)")
        call = "The call is posterior.sample(key, num_draws)."
        return self._in_order(self._draws(key, whole_number(num_draws, "num_draws", 1, call)))

    @abstractmethod
    def log_prob(self, theta: Theta) -> Float[Values, ""]:
        """Return the posterior log density at theta, in the original units.

        Args:
            theta: A value for each named parameter.
        """

    @abstractmethod
    def error(self) -> ErrorEstimate:
        """Return the estimated error of each posterior mean, in posterior standard deviations.

        Where a part was not measured, the values are NaN, and `error().not_measured` gives the reason.
        """

    @abstractmethod
    def error_so_far(self) -> ErrorEstimate:
        """Return what is known of the error without further work."""

    def state_mean(self) -> PyTree:
        """Return the filtered mean of the state, E[x_t | y_1..y_t], in the form of the model's own state."""
        return self._state_mean_and_sd()[0]

    def state_sd(self) -> PyTree:
        """Return the filtered standard deviation of each component of the state, in the form of the model's own."""
        return self._state_mean_and_sd()[1]

    def _state_mean_and_sd(self) -> tuple[PyTree, PyTree]:
        found = self.engine.compiled(_state_mean_and_sd, compiler_options=RUN_ONCE)(self.state)
        return found if is_traced(found) else jax.tree.map(np.asarray, found)

    @abstractmethod
    def _means_and_sds(self) -> tuple[Mapping[str, Values], Mapping[str, Values]]:
        """Return mean and standard deviation of each parameter."""

    @abstractmethod
    def _quantiles(self, levels: Float[np.ndarray, "..."]) -> Mapping[str, Values]:
        """Return quantiles of each parameter."""

    @abstractmethod
    def _draws(self, key: KeyArray, num_draws: int) -> Mapping[str, Values]:
        """Draw parameters."""

    def _in_order(self, values: Mapping[str, Values]) -> dict[str, Values]:
        """Put names in the order of the prior: what JAX returns is in that of the alphabet."""
        return {name: values[name] for name in self.engine.model.parameters.names}


def _state_mean_and_sd(engine: Engine, state: Any) -> tuple[PyTree, PyTree]:
    mean, variance = engine.state_moments(state)
    return mean, jax.tree.map(jnp.sqrt, variance)


def figures_of(filter: Filter, state: Any, error: Any) -> dict[str, Any]:
    """Return the figures of a whole run, which a saved result holds as well.

    `error` is that of the posterior means in posterior sds: the parts that were measured, and which were not.
    """
    engine, fingerprint = filter.engine, json.loads(state.fingerprint)
    return {
        "model": fingerprint["model"],
        "belief": fingerprint["belief"],
        "num_particles": fingerprint["particles"],
        "num_distinct": len(np.unique(np.asarray(engine.particles(state)[1]), axis=0)),
        "unit": engine.unit,
        "num_observations": int(state.time),
        "log_evidence": float(state.log_evidence),
        "outcome": int(state.outcome),
        "skips_outliers": int(engine.outliers is not None),
        "error": error.largest,
        "error_not_measured": error.not_measured,
        "fingerprint": state.fingerprint,
    }

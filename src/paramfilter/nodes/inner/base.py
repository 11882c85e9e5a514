"""What the loop asks of an inner filter: the filter for the state, given theta, that each node has.

An inner filter works on all nodes at once, and nodes are the last axis of every array: arithmetic over nodes is then
one long row after the other, which is what a processor likes best.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import jax
from jaxtyping import Array, Float, PyTree

from paramfilter.model import StateSpaceModel
from paramfilter.nodes.inner.forecast import Forecast
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta

InnerState = PyTree
"""What an inner filter knows of the state: arrays whose last axis is the nodes."""

Constants = PyTree
"""What an inner filter needs of theta: arrays whose last axis is the nodes."""


@dataclass(frozen=True, eq=False)
class InnerFilter(ABC):
    """The filter for x given theta, for all nodes at once."""

    model: StateSpaceModel

    @classmethod
    @abstractmethod
    def bind(cls, model: StateSpaceModel) -> InnerFilter:
        """Fit a model, or raise `ModelError` saying why it does not suit."""

    is_exact: ClassVar[bool] = False
    """Whether its log likelihood has no error but rounding."""

    @property
    def name(self) -> str:
        """What messages and checkpoints call it."""
        return type(self).__name__

    def prepare(self, theta: Theta) -> Constants:
        """Compute what depends on theta alone; nodes are the last axis of theta's leaves, too."""
        return theta

    def init(self, theta: Theta, inputs: Inputs) -> InnerState:
        """Return the distribution of x_0 at each node."""
        return nodes_last(lambda one: self.start(one, inputs))(theta)

    @abstractmethod
    def start(self, theta: Theta, inputs: Inputs) -> InnerState:
        """Return the distribution of x_0 at one node; its leaves are without the axis of nodes."""

    @abstractmethod
    def step(
        self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs
    ) -> tuple[InnerState, Float[Array, " node"]]:
        """Take in one observation; return the new distribution and log p(y_t | y_1..y_{t-1}, theta) at each node."""

    @abstractmethod
    def forecast(self, constants: Constants, x: InnerState, y: Observation, inputs: Inputs) -> Forecast:
        """Return the forecast of y at each node, before it is taken in: axes (obs, node)."""

    def loosened(self, x: InnerState) -> InnerState:
        """Turn what is known of the state into numbers that can be interpolated between nodes."""
        return x

    def tightened(self, x: InnerState) -> InnerState:
        """Turn such numbers back."""
        return x

    @abstractmethod
    def moments(self, x: InnerState) -> tuple[State, State]:
        """Return mean and variance of each component of the state, with a leading axis of nodes."""

    @abstractmethod
    def sample(self, key: KeyArray, x: InnerState) -> State:
        """Draw a state at one node; leaves of x are without the axis of nodes."""


def nodes_last(function: Any) -> Any:
    """Turn a function of one node into one of all."""
    return jax.vmap(function, in_axes=-1, out_axes=-1)

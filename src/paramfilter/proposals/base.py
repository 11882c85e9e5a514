"""What the loop asks of a proposal."""

from __future__ import annotations

import abc
from dataclasses import dataclass

import jax
from jaxtyping import Array, Float

from paramfilter.model import StateSpaceModel
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Move:
    """A proposed state and its log weight, log p(x | x_prev, theta) p(y | x, theta) / q(x | x_prev, y, theta)."""

    x: State
    log_weight: Float[Array, ""]


class BoundProposal(abc.ABC):
    """A proposal for one model; it speaks of one particle."""

    @abc.abstractmethod
    def propose(self, key: KeyArray, theta: Theta, x_prev: State, y: Observation, inputs: Inputs) -> Move:
        """Draw the next state, having seen y or not."""


@dataclass(frozen=True)
class Proposal(abc.ABC):
    """A kind of proposal, to be bound to a model."""

    @abc.abstractmethod
    def bind(self, model: StateSpaceModel) -> BoundProposal:
        """Fit the proposal to a model."""

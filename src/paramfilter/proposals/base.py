"""What the loop asks of a proposal.

A move has two parts, so that a filter may look ahead: first a *plan* (where this particle would go, and how well that
would explain y), which is resampled with the particle; then the move itself.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, PyTree

from paramfilter.model import StateSpaceModel
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta

Plan = PyTree


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Move:
    """A proposed state and its log weight, log p(x | x_prev, theta) p(y | x, theta) / q(x | x_prev, y, theta)."""

    x: State
    log_weight: Float[Array, ""]


class BoundProposal(abc.ABC):
    """A proposal for one model; it speaks of one particle.

    Attributes:
        looks_ahead: Whether the loop is to resample by `ahead` before the particles move.
    """

    looks_ahead: bool = False

    def plan(self, theta: Theta, x_prev: State, y: Observation, inputs: Inputs) -> Plan:
        """Return what is known of the move before it is made."""
        return None

    def ahead(self, plan: Plan) -> Float[Array, ""]:
        """Return an estimate of log p(y | x_prev, theta): how promising the particle is."""
        return jnp.zeros(())

    @abc.abstractmethod
    def propose(self, key: KeyArray, plan: Plan, theta: Theta, x_prev: State, y: Observation, inputs: Inputs) -> Move:
        """Draw the next state, having seen y or not."""


@dataclass(frozen=True)
class Proposal(abc.ABC):
    """A kind of proposal, to be bound to a model."""

    @abc.abstractmethod
    def bind(self, model: StateSpaceModel) -> BoundProposal:
        """Fit the proposal to a model, or raise `ProposalError` with the proposal to use instead."""

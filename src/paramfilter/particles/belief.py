"""What a particle knows about theta, and what the loop asks of it.

A belief is written in two steps. `Belief` is a value that a user configures, such as `TaylorOfMean(order=7)`. Bound
to a model it becomes a `BoundBelief`, whose methods are pure functions of arrays:

- a **statistic** is what one particle remembers; it is resampled with the particle;
- **shared** is what all particles have in common: their spread, or None.

Five methods are required: `init`, `update`, `sample`, `log_prob` and `moments`. They speak of one particle; the loop
vmaps them with `shared` held fixed. The others have defaults for beliefs that share nothing and are exact.
"""

from __future__ import annotations

import abc
from dataclasses import dataclass, replace
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int, PyTree

from paramfilter.errors import BeliefError
from paramfilter.filters import Moments
from paramfilter.model import StateSpaceModel, Transition
from paramfilter.outcome import Outcome
from paramfilter.types import Inputs, KeyArray, State

Statistic = PyTree
Shared = PyTree
Points = Float[Array, "particle param"]
"""One theta for each particle, in unconstrained coordinates."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Draw:
    """A theta drawn from a belief, in unconstrained coordinates, and the flags that came up."""

    z: Float[Array, " param"]
    outcome: Int[Array, ""]

    @classmethod
    def without_trouble(cls, z: Float[Array, " param"]) -> Draw:
        """Return a draw that raised no flag."""
        return cls(z, jnp.int32(Outcome.OK))


@dataclass(frozen=True)
class Belief(abc.ABC):
    """A kind of belief, to be bound to a model."""

    @abc.abstractmethod
    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit the belief to a model, or raise `BeliefError` with the belief to use instead."""


class BoundBelief(abc.ABC):
    """A belief about the parameters of one model, under the name that checkpoints and messages use.

    Attributes:
        has_density: Whether `log_prob` works; beliefs that are sure of one theta have none.
        can_forget: Whether `discount` works.
        can_mix: Whether `update_from_ancestors` works.
    """

    model: StateSpaceModel
    name: str
    has_density: ClassVar[bool] = True
    can_forget: ClassVar[bool] = False
    can_mix: ClassVar[bool] = False

    @abc.abstractmethod
    def init(self) -> Statistic:
        """Return the statistic that stands for the prior."""

    def update_initial(self, shared: Shared, statistic: Statistic, x: State, inputs: Inputs) -> Statistic:
        """Learn from x_0; the default is for models whose initial distribution does not depend on theta."""
        return statistic

    @abc.abstractmethod
    def update(self, shared: Shared, statistic: Statistic, datum: Transition) -> Statistic:
        """Learn from one step (x_prev, x, y)."""

    @abc.abstractmethod
    def sample(self, key: KeyArray, shared: Shared, statistic: Statistic, previous: Float[Array, " param"]) -> Draw:
        """Draw theta; samplers that are Markov chains start from `previous`."""

    @abc.abstractmethod
    def moments(self, shared: Shared, statistic: Statistic, z: Float[Array, " param"]) -> Moments:
        """Return mean and variance of the belief; beliefs without a density use the particle's own `z`."""

    @abc.abstractmethod
    def log_prob(self, shared: Shared, statistic: Statistic, z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return the normalised log density of the belief in unconstrained coordinates."""

    def init_shared(self, z: Points) -> Shared:
        """Return what particles drawn from the prior have in common."""
        return None

    def adapt(
        self, shared: Shared, statistics: Statistic, z: Points, log_weights: Float[Array, " particle"]
    ) -> tuple[Shared, Statistic]:
        """Renew what particles share, after resampling and before theta is drawn."""
        return shared, statistics

    def update_all(self, shared: Shared, statistics: Statistic, data: Transition) -> Statistic:
        """Learn from one step of all particles: x_prev and x have a leading axis, y and inputs are the same for all."""
        one = lambda statistic, x_prev, x: self.update(shared, statistic, replace(data, x_prev=x_prev, x=x))
        return jax.vmap(one)(statistics, data.x_prev, data.x)

    def update_from_ancestors(
        self, shared: Shared, statistics: Statistic, data: Transition, ancestors: Int[Array, "particle ancestor"]
    ) -> Statistic:
        """Learn from one step of all particles, each of which may have come from any of several ancestors.

        Args:
            shared: What particles share.
            statistics: Of the particles before the move.
            data: The step; x_prev are the states before the move, in the order of `statistics`, x the new ones.
            ancestors: Indices, for each new particle, into `statistics` and `data.x_prev`.
        """
        raise BeliefError(f"{self.name} cannot hold a mixture over ancestors.")

    def discount(self, statistic: Statistic, factor: Float[Array, ""]) -> Statistic:
        """Return the statistic with all data so far counted by `factor`: q becomes prior^(1 - factor) q^factor.

        The default is for statistics that are sums over the data.
        """
        return jax.tree.map(lambda leaf: (factor * leaf).astype(leaf.dtype), statistic)

    def error(self, shared: Shared, statistic: Statistic) -> Float[Array, ""]:
        """Return by how many nats (rms over its own bulk) the belief misses the exact one."""
        return jnp.zeros(())


def rms_error(
    belief: BoundBelief, shared: Shared, statistics: Statistic, log_weights: Float[Array, " particle"]
) -> Float[Array, ""]:
    """Return the rms error of the particles' beliefs in nats; 0 for exact beliefs."""
    # vmap needs one mapped argument; the weights provide it when there is no statistic.
    errors = jax.vmap(lambda statistic, _: belief.error(shared, statistic))(statistics, log_weights)
    weights = jnp.exp(log_weights)
    return jnp.sqrt(jnp.sum(jnp.where(weights > 0, weights * errors**2, 0.0))).astype(log_weights.dtype)

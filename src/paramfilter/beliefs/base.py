"""What a particle knows about theta, and what the loop may ask of it.

A belief is written in two steps. `Belief` is a value that a user configures, such as `TaylorOfMean(order=7)`. Bound
to a model it becomes a `BoundBelief`, whose methods are pure functions of arrays:

- a **statistic** is what one particle remembers; it is resampled with the particle;
- **shared** is what all particles have in common: their spread, pivots, or None.

Five methods are required: `init`, `update`, `sample`, `log_prob` and `moments`. They speak of one particle; the loop
vmaps them with `shared` held fixed. What only some beliefs can do is a small protocol each, found by `isinstance`:
`Adaptive`, `Observing`, `Together`, `Mixable`, `MixesAncestors`, `Discountable`, `Approximate`, `LinearInTheta`. The
functions at the end of this file ask for these, and do the obvious where a belief lacks them.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from paramfilter.inspect.dependence import ThetaFactors
from paramfilter.model import StateSpaceModel, Transition
from paramfilter.numerics.weights import weighted_mean_and_variance
from paramfilter.outcome import Outcome
from paramfilter.parameters import Parameters
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


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Moments:
    """Mean and variance of each named parameter on its natural scale."""

    mean: dict[str, Array]
    variance: dict[str, Array]

    @classmethod
    def of_points(
        cls, parameters: Parameters, z: Float[Array, "point param"], log_weights: Float[Array, " point"]
    ) -> Moments:
        """Return the moments of weighted points, given in unconstrained coordinates."""
        thetas = jax.vmap(parameters.constrain)(z)
        pairs = {name: weighted_mean_and_variance(log_weights, values) for name, values in thetas.items()}
        return cls(*({name: pair[part] for name, pair in pairs.items()} for part in (0, 1)))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class MarginalTransition:
    """A transition with its coefficients integrated out: N(m, Q) at `z` becomes N(m, Q + loading loading^T)."""

    z: Float[Array, " param"]
    loading: Float[Array, "state param"]


@dataclass(frozen=True)
class Belief(abc.ABC):
    """A kind of belief, to be bound to a model."""

    @abc.abstractmethod
    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit the belief to a model, or raise `BeliefError` with the belief to use instead."""


class BoundBelief(abc.ABC):
    """A belief about the parameters of one model, under the name that checkpoints and messages use."""

    model: StateSpaceModel
    name: str
    has_density: ClassVar[bool] = True
    """Whether `log_prob` works; beliefs that are sure of one theta have none."""

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


@runtime_checkable
class Adaptive(Protocol):
    """Particles share something that follows them."""

    def init_shared(self, z: Points) -> Shared:
        """Return what particles drawn from the prior have in common."""
        ...

    def adapt(
        self, shared: Shared, statistics: Statistic, z: Points, log_weights: Float[Array, " particle"]
    ) -> tuple[Shared, Statistic]:
        """Renew what particles share, after resampling and before theta is drawn."""
        ...


@runtime_checkable
class Observing(Protocol):
    """What particles share learns from their transitions."""

    def observe(
        self,
        key: KeyArray,
        shared: Shared,
        data: Transition,
        z: Points,
        log_weights: Float[Array, " particle"],
        time: Int[Array, ""],
    ) -> Shared:
        """Look at the transitions of all particles, and at the thetas they moved with."""
        ...


@runtime_checkable
class Together(Protocol):
    """All particles are updated at once."""

    def update_all(self, shared: Shared, statistics: Statistic, data: Transition) -> Statistic:
        """Learn from one step of all particles: x_prev and x have a leading axis, y and inputs are the same for all."""
        ...


@runtime_checkable
class Mixable(Protocol):
    """Two beliefs can be replaced by one that is near their mixture."""

    def mix(self, shared: Shared, first: Statistic, second: Statistic) -> Statistic:
        """Return the belief that is nearest to the even mixture of two."""
        ...

    def can_mix_now(self, shared: Shared) -> Bool[Array, ""]:
        """Tell whether the population is such that mixtures of its beliefs come out right."""
        ...


@runtime_checkable
class MixesAncestors(Protocol):
    """Any mixture of beliefs can be held, so each particle may have come from several ancestors."""

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
        ...


@runtime_checkable
class Discountable(Protocol):
    """Old data can be discounted."""

    def discount(self, statistic: Statistic, factor: Float[Array, ""]) -> Statistic:
        """Return the statistic with all data so far counted by `factor`: q becomes prior^(1 - factor) q^factor."""
        ...


@runtime_checkable
class Approximate(Protocol):
    """The belief estimates its own error."""

    def error(self, shared: Shared, statistic: Statistic) -> Float[Array, ""]:
        """Return by how many nats (rms over its own bulk) the belief misses the exact one."""
        ...


@runtime_checkable
class LinearInTheta(Protocol):
    """Coefficients can be integrated out of a Gaussian transition."""

    def marginal_transition(
        self, shared: Shared, statistic: Statistic, z: Float[Array, " param"], x_prev: State, inputs: Inputs
    ) -> MarginalTransition | None:
        """Return the transition with its coefficients integrated out, or None if the model does not allow it."""
        ...


class LikelihoodBelief(BoundBelief):
    """A belief that learns from a datum's log likelihood as a function of z, wherever that comes from."""

    factors: ThetaFactors

    @abc.abstractmethod
    def learn(self, statistic: Statistic, log_likelihood: Callable[[Float[Array, " param"]], Array]) -> Statistic:
        """Take a log likelihood in."""

    def update_initial(self, shared, statistic, x, inputs):
        if not self.factors.depends.initial:
            return statistic
        return self.learn(statistic, lambda z: self.factors.initial(z, x, inputs))

    def update(self, shared, statistic, datum):
        return self.learn(statistic, lambda z: self.factors.step(datum, z))


def init_shared(belief: BoundBelief, z: Points) -> Shared:
    """Return what particles drawn from the prior have in common."""
    return belief.init_shared(z) if isinstance(belief, Adaptive) else None


def adapt(
    belief: BoundBelief, shared: Shared, statistics: Statistic, z: Points, log_weights: Float[Array, " particle"]
) -> tuple[Shared, Statistic]:
    """Renew what particles share."""
    if isinstance(belief, Adaptive):
        return belief.adapt(shared, statistics, z, log_weights)
    return shared, statistics


def update_all(belief: BoundBelief, shared: Shared, statistics: Statistic, data: Transition) -> Statistic:
    """Learn from one step of all particles, at once or one by one."""
    if isinstance(belief, Together):
        return belief.update_all(shared, statistics, data)
    one = lambda statistic, x_prev, x: belief.update(shared, statistic, replace(data, x_prev=x_prev, x=x))
    return jax.vmap(one)(statistics, data.x_prev, data.x)


def update_alone(belief: Together, shared: Shared, statistic: Statistic, datum: Transition) -> Statistic:
    """Learn from one particle's step by `update_all`."""
    statistics, x_prev, x = jax.tree.map(lambda leaf: leaf[None], (statistic, datum.x_prev, datum.x))
    updated = belief.update_all(shared, statistics, replace(datum, x_prev=x_prev, x=x))
    return jax.tree.map(lambda leaf: leaf[0], updated)


def rms_error(
    belief: BoundBelief, shared: Shared, statistics: Statistic, log_weights: Float[Array, " particle"]
) -> Float[Array, ""]:
    """Return the rms error of the particles' beliefs in nats; 0 for exact beliefs."""
    if not isinstance(belief, Approximate):
        return jnp.zeros((), log_weights.dtype)
    errors = jax.vmap(belief.error, in_axes=(None, 0))(shared, statistics)
    weights = jnp.exp(log_weights)
    return jnp.sqrt(jnp.sum(jnp.where(weights > 0, weights * errors**2, 0.0)))


def scaled(tree: PyTree, factor: Float[Array, ""]) -> PyTree:
    """Multiply all numbers of a tree: how a statistic is discounted that is a sum over the data."""
    return jax.tree.map(lambda leaf: (factor * leaf).astype(leaf.dtype), tree)


def no_outcome() -> Int[Array, ""]:
    """Return the flags of a draw without trouble."""
    return jnp.int32(Outcome.OK)

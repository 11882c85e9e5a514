"""What a particle believes about theta, and what the loop may ask of it.

A belief is written in two steps. `Belief` is a value that a user configures, such as `TaylorOfMean(order=7)`. Bound
to a model it becomes a `BoundBelief`, whose methods are pure functions of arrays:

- a **statistic** is what one particle remembers; it is resampled with the particle;
- **shared** is what all particles of the filter have in common: their spread, a window that moves, or None.

Methods speak of one particle, and the loop vmaps them with `shared` held fixed. Only `regroup` and `witness` look at
all particles at once: the first between resampling and drawing, the second after a datum was absorbed; and
`absorb_all`, where a belief has a faster way for many. A belief can be absorbed into, drawn from, evaluated and
summarised; and an approximate one says by how much it misses the exact one.
"""

from __future__ import annotations

import abc
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from paramfilter.inspect.dependence import ThetaFactors
from paramfilter.model import Datum, StateSpaceModel
from paramfilter.numerics.weights import weighted_mean_and_variance
from paramfilter.outcome import Outcome
from paramfilter.parameters import Parameters
from paramfilter.types import Inputs, KeyArray, State

Statistic = PyTree
Shared = PyTree


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
class Blur:
    """A transition with its coefficients integrated out: N(m, Q) at `z` becomes N(m, Q + columns columns^T)."""

    z: Float[Array, " param"]
    columns: Float[Array, "state param"]


@dataclass(frozen=True)
class Belief(abc.ABC):
    """A kind of belief, to be bound to a model."""

    @abc.abstractmethod
    def bind(self, model: StateSpaceModel) -> BoundBelief:
        """Fit the belief to a model, or raise `BeliefError` with the belief to use instead."""


class BoundBelief(abc.ABC):
    """A belief about the parameters of one model, under the name that checkpoints and messages use.

    Methods without `particle` axes speak of one particle.
    """

    model: StateSpaceModel
    name: str
    has_density: ClassVar[bool] = True
    """Whether `log_prob` works; beliefs that are sure of one theta have none."""

    @abc.abstractmethod
    def start(self) -> Statistic:
        """Return the statistic that stands for the prior."""

    def absorb_initial(self, shared: Shared, statistic: Statistic, x: State, inputs: Inputs) -> Statistic:
        """Learn from x_0; the default is for models whose initial law does not depend on theta."""
        return statistic

    @abc.abstractmethod
    def absorb(self, shared: Shared, statistic: Statistic, datum: Datum) -> Statistic:
        """Learn from one step."""

    def absorb_all(self, shared: Shared, statistics: Statistic, data: Datum) -> Statistic:
        """Learn from one step of all particles: x_prev and x have a leading axis, y and inputs are the same for all."""
        absorb = lambda statistic, x_prev, x: self.absorb(shared, statistic, Datum(x_prev, x, data.y, data.inputs))
        return jax.vmap(absorb)(statistics, data.x_prev, data.x)

    def faded(self, statistic: Statistic, share: Float[Array, ""]) -> Statistic:
        """Return the statistic with what the data have said so far counted by `share`, between 0 and 1.

        The belief q becomes prior^(1 - share) q^share: it goes back towards the prior.
        """
        raise NotImplementedError

    @property
    def can_fade(self) -> bool:
        """Whether it has `faded`."""
        return type(self).faded is not BoundBelief.faded

    @property
    def can_mix(self) -> bool:
        """Whether two beliefs can be put together by `mixed`."""
        return type(self).mixed is not BoundBelief.mixed

    def mixed(self, shared: Shared, first: Statistic, second: Statistic) -> Statistic:
        """Return the belief that is nearest to the even mixture of two."""
        raise NotImplementedError

    @property
    def holds_mixtures(self) -> bool:
        """Whether any mixture of beliefs can be held, so that they may be mixed at any time and from many ancestors."""
        return type(self).absorb_from_many is not BoundBelief.absorb_from_many

    def absorb_from_many(
        self, shared: Shared, statistics: Statistic, data: Datum, ancestors: Int[Array, "particle ancestor"]
    ) -> Statistic:
        """Learn from one step of all particles, each of which may have come from any of several ancestors.

        Args:
            shared: What particles share.
            statistics: Of the particles before the move.
            data: The step; x_prev are the states before the move, in the order of `statistics`, x the new ones.
            ancestors: Places, for each new particle, in `statistics` and `data.x_prev`.
        """
        raise NotImplementedError

    def can_mix_now(self, shared: Shared) -> Bool[Array, ""]:
        """Tell whether the population is such that mixtures of its beliefs come out right."""
        return jnp.bool_(True)

    @abc.abstractmethod
    def draw(self, key: KeyArray, shared: Shared, statistic: Statistic, previous: Float[Array, " param"]) -> Draw:
        """Draw theta; samplers that are Markov chains start from `previous`."""

    @abc.abstractmethod
    def moments(self, shared: Shared, statistic: Statistic, z: Float[Array, " param"]) -> Moments:
        """Return mean and variance of the belief; beliefs without a density use the particle's own `z`."""

    @abc.abstractmethod
    def log_prob(self, shared: Shared, statistic: Statistic, z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return the normalised log density of the belief in unconstrained coordinates."""

    def transition_blur(
        self, shared: Shared, statistic: Statistic, z: Float[Array, " param"], x_prev: State, inputs: Inputs
    ) -> Blur | None:
        """Return how the belief blurs a Gaussian transition whose mean is linear in theta, or None if it can't say."""
        return None

    def approximation_error(self, shared: Shared, statistic: Statistic) -> Float[Array, ""]:
        """Return by how many nats (rms over its own bulk) the belief misses the exact one; 0 for exact beliefs."""
        return jnp.zeros(())

    def regroup(
        self,
        shared: Shared,
        statistics: Statistic,
        z: Float[Array, "particle param"],
        log_weights: Float[Array, " particle"],
    ) -> tuple[Shared, Statistic]:
        """Look at all particles at once and renew what they share."""
        return shared, statistics

    def witness(
        self,
        key: KeyArray,
        shared: Shared,
        data: Datum,
        z: Float[Array, "particle param"],
        log_weights: Float[Array, " particle"],
        time: Int[Array, ""],
    ) -> Shared:
        """Look at what all particles have just absorbed (x_prev and x have a leading axis of particles), and at the
        thetas they moved with."""
        return shared

    def start_shared(self, z: Float[Array, "particle param"]) -> Shared:
        """Return what particles drawn from the prior have in common."""
        return None


def absorb_alone(belief: BoundBelief, shared: Shared, statistic: Statistic, datum: Datum) -> Statistic:
    """Absorb one particle's datum by `absorb_all`: for beliefs whose way for many is the only one."""
    statistics, x_prev, x = jax.tree.map(lambda leaf: leaf[None], (statistic, datum.x_prev, datum.x))
    absorbed = belief.absorb_all(shared, statistics, Datum(x_prev, x, datum.y, datum.inputs))
    return jax.tree.map(lambda leaf: leaf[0], absorbed)


class LikelihoodBelief(BoundBelief):
    """A belief that learns from a datum's log likelihood as a function of z, wherever that comes from."""

    factors: ThetaFactors

    @abc.abstractmethod
    def learn(self, statistic: Statistic, log_likelihood: Callable[[Float[Array, " param"]], Array]) -> Statistic:
        """Take a log likelihood in."""

    def absorb_initial(self, shared, statistic, x, inputs):
        if not self.factors.depends.initial:
            return statistic
        return self.learn(statistic, lambda z: self.factors.initial(z, x, inputs))

    def absorb(self, shared, statistic, datum):
        return self.learn(statistic, lambda z: self.factors.step(datum, z))


def scaled(tree: PyTree, share: Float[Array, ""]) -> PyTree:
    """Multiply all numbers of a tree: how a statistic fades that is a sum over the data."""
    return jax.tree.map(lambda leaf: (share * leaf).astype(leaf.dtype), tree)


def no_outcome() -> Int[Array, ""]:
    """Return the flags of a draw without trouble."""
    return jnp.int32(Outcome.OK)

"""A crowd of states in place of one: each particle runs a small bootstrap filter of its own for its theta.

`crowd_of(model, size)` makes a model whose state is `size` states of the given one, and `CrowdMove` moves them all,
weighs the particle by the mean of their likelihoods, and resamples within the crowd. With a `Jitter` of theta this is
the nested particle filter of Crisan and Miguez (2018), at the price of N x M states. Members that move by the
transition need draws and the observation's density alone; the transition's density is looked at once, when the filter
is built.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.errors import ModelError, ProposalError
from paramfilter.model import StateSpaceModel
from paramfilter.numerics.weights import choose_by_weight, normalise
from paramfilter.proposals.base import BoundProposal, Move, Proposal
from paramfilter.proposals.bootstrap import Bootstrap
from paramfilter.tracing import strongly_typed
from paramfilter.types import Inputs, KeyArray, Observation, State, Theta


@dataclass(frozen=True)
class _Law:
    """Anything that can be drawn and scored counts as a distribution."""

    sample: Callable[[KeyArray], Any]
    log_prob: Callable[[Any], Array]


@dataclass(frozen=True, eq=False, repr=False)
class CrowdModel(StateSpaceModel):
    """A model whose state is a crowd of states of another, with a leading axis of members."""

    member: StateSpaceModel | None = None

    @property
    def original(self) -> StateSpaceModel:
        """The model of one member."""
        if self.member is None:
            raise ModelError("a CrowdModel is made by proposals.crowd_of.")
        return self.member

    def state_moments(self, x: State) -> tuple[State, State]:
        """Return mean and variance over the members."""
        floats = jax.tree.map(lambda leaf: jnp.asarray(leaf, float), x)
        return tuple(jax.tree.map(lambda leaf, of=of: of(leaf, axis=0), floats) for of in (jnp.mean, jnp.var))

    def sample_state(self, key: KeyArray, x: State) -> State:
        """Draw a member."""
        return _one_of(key, x)

    def sample_next(
        self, key_move: KeyArray, key_observe: KeyArray, theta: Theta, x: State, inputs: Inputs
    ) -> Observation:
        """Draw a member, and what is observed after it: the others need not move for that."""
        key_choose, key_move = jax.random.split(key_move)
        return self.original.sample_next(key_move, key_observe, theta, _one_of(key_choose, x), inputs)


def crowd_of(model: StateSpaceModel, size: int) -> CrowdModel:
    """Make the model of a crowd: its members move independently, and one of them, at random, is observed."""
    if not isinstance(size, int) or size < 2:
        raise ModelError(f"a crowd needs at least 2 states, got {size!r}.")

    def each(one: Callable, *crowds: State) -> Any:
        return jax.vmap(one)(*crowds)

    def keys(key: KeyArray) -> Array:
        return jax.random.split(key, size)

    def initial(theta: Theta, inputs: Inputs) -> _Law:
        return _Law(
            lambda key: each(lambda one: strongly_typed(model.sample_initial(one, theta, inputs)), keys(key)),
            lambda xs: jnp.sum(each(lambda x: model.initial_log_prob(theta, x, inputs), xs)),
        )

    def transition(theta: Theta, xs: State, inputs: Inputs) -> _Law:
        move = lambda one, x: strongly_typed(model.sample_transition(one, theta, x, inputs))
        score = lambda x_prev, x: model.transition_log_prob(theta, x_prev, x, inputs)
        return _Law(lambda key: each(move, keys(key), xs), lambda new: jnp.sum(each(score, xs, new)))

    def observation(theta: Theta, xs: State, inputs: Inputs) -> _Law:
        def draw(key):
            key_choose, key_observe = jax.random.split(key)
            y = model.sample_observation(key_observe, theta, _one_of(key_choose, xs), inputs)
            if len(jax.tree.leaves(y)) != 1:
                raise ModelError("a crowd can be observed through one array only, not through a tree of them.")
            return y

        return _Law(draw, lambda y: _log_mean(each(lambda x: model.observation_log_prob(theta, x, y, inputs), xs)))

    return CrowdModel(
        prior=model.prior,
        initial=initial,
        transition=transition,
        observation=observation,
        name=f"{model.name}, {size} states a particle",
        example_inputs=model.example_inputs,
        typical_inputs=model.typical_inputs,
        member=model,
    )


def _one_of(key: KeyArray, xs: State) -> State:
    chosen = jax.random.randint(key, (), 0, len(jax.tree.leaves(xs)[0]))
    return jax.tree.map(lambda leaf: leaf[chosen], xs)


def _log_mean(values: Float[Array, " member"]) -> Float[Array, ""]:
    return normalise(values)[1] - jnp.log(jnp.asarray(len(values), values.dtype))


@dataclass(frozen=True)
class CrowdMove(Proposal):
    """Move all members, weigh the crowd by the mean of their weights, resample among them.

    Args:
        member: How a member moves.
    """

    member: Proposal = Bootstrap()

    def bind(self, model: StateSpaceModel) -> BoundProposal:
        """Fit a model made by `crowd_of`."""
        if not isinstance(model, CrowdModel) or model.member is None:
            raise ProposalError("CrowdMove moves crowds: make the model with proposals.crowd_of(model, size).")
        member = self.member.bind(model.member)
        if member.looks_ahead:
            raise ProposalError("members of a crowd cannot look ahead: write CrowdMove(Guided()) without LookAhead.")
        return _BoundCrowdMove(member)


@dataclass(frozen=True, eq=False)
class _BoundCrowdMove(BoundProposal):
    member: BoundProposal

    def propose(self, key: KeyArray, plan: Any, theta: Theta, x_prev: State, y: Observation, inputs: Inputs) -> Move:
        key_move, key_choose = jax.random.split(key)

        def move(one_key, x):
            return self.member.propose(one_key, self.member.plan(theta, x, y, inputs), theta, x, y, inputs)

        size = len(jax.tree.leaves(x_prev)[0])
        moves = jax.vmap(move)(jax.random.split(key_move, size), x_prev)
        weights, _ = normalise(moves.log_weight)
        chosen = choose_by_weight(key_choose, weights, size)
        return Move(jax.tree.map(lambda leaf: leaf[chosen], moves.x), _log_mean(moves.log_weight))

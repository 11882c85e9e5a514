"""How a belief is updated: along the particle's own path, or as a mixture over ancestors.

A particle at x' that remembers one path rides on that path's ancestry, and paths are lost at each resampling. What it
should believe is a mixture over all ways to x',

    p(theta | x', y_1..y_t)  ~  sum_j w_j q_j(theta) p(x' | x_j, theta) p(y_t | x', theta),

over the particles j before the move.

- `NoMixing` follows the path, as in the paper.
- `PairwiseMixing` mixes in a second ancestor now and then. Two are enough to keep the error from growing (Olsson and
  Westerborn 2017, Bernoulli 23, for sums along paths: PaRIS). The particle's own ancestor is one of them. The other
  comes from a few Metropolis moves on the index, with the weights w as the proposal, which cost the same for any N (Dau
  and Chopin, On the complexity of backward smoothing algorithms, arXiv:2207.00976).
- `AncestorMixing` mixes several at each step, for beliefs that can hold any mixture: the particle's own ancestor and
  others drawn by w, each of which counts by what its belief says about the move, theta integrated out. The own ancestor
  is a draw from the distribution of ancestors given x', and one right draw among proposals makes the average right,
  whatever their number (Tjelmeland 2004, Using all Metropolis-Hastings proposals to estimate mean values, NTNU
  Statistics 4). What it improves and what it costs: docs/decisions/0028-many-ancestors.md.
"""

from __future__ import annotations

import abc
import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from paramfilter.arguments import whole_number
from paramfilter.beliefs.base import BoundBelief, Mixable, MixesAncestors, update_all
from paramfilter.errors import ModelError
from paramfilter.filters.islands import among_all, split
from paramfilter.filters.proposing import Parents, ThetaDraws
from paramfilter.gaussian import known_gaussian
from paramfilter.model import Transition
from paramfilter.numerics.sparse import sparse_cond
from paramfilter.types import Inputs, KeyArray, Observation

if TYPE_CHECKING:
    from paramfilter.filters.particle_filter import ParticleFilter

NUM_MOVES = 4
"""Metropolis moves that lead from a particle's own ancestor to another."""

FIRST = 0.5
EVERY = 0.025
"""When two beliefs are mixed, in multiples of N. Paths are lost over that many steps; before, a path is the better
memory, and mixing more often costs more and is no better (docs/decisions/0014-beliefs-given-the-present.md)."""


@dataclass(frozen=True)
class Mixing(abc.ABC):
    """A way to update beliefs."""

    @abc.abstractmethod
    def fits(self, belief: BoundBelief) -> bool:
        """Tell whether a belief can be updated this way."""

    @abc.abstractmethod
    def update(
        self, filter: ParticleFilter, key: KeyArray, parents: Parents, data: Transition, time: Int[Array, ""]
    ) -> tuple[PyTree, Bool[Array, ""]]:
        """Return the statistics after the data, and whether they were mixed over ancestors."""


@dataclass(frozen=True)
class NoMixing(Mixing):
    """Follow the particle's own path, as in the paper."""

    def fits(self, belief: BoundBelief) -> bool:
        """Fit any belief."""
        return True

    def update(self, filter, key, parents, data, time):
        statistics = parents.particles.statistics
        return update_all(filter.bound_belief, parents.shared, statistics, data), jnp.bool_(False)


@dataclass(frozen=True)
class PairwiseMixing(Mixing):
    """Mix in what a second ancestor would believe, every N/40 steps."""

    def fits(self, belief: BoundBelief) -> bool:
        """Fit beliefs that can be mixed by two."""
        return isinstance(belief, Mixable)

    def update(self, filter, key, parents, data, time):
        belief: Any = filter.bound_belief
        updated = update_all(belief, parents.shared, parents.particles.statistics, data)
        is_due = is_time_to_mix(time, filter.num_particles) & belief.can_mix_now(parents.shared)
        pair = _Pair(key, parents, updated, data)
        return sparse_cond(is_due, functools.partial(_with_others, filter), pair, updated), is_due


@dataclass(frozen=True)
class AncestorMixing(Mixing):
    """Mix over several ancestors at each step.

    Args:
        num_ancestors: How many, the particle's own included. Four do for smooth models; heavy tails need eight.
    """

    num_ancestors: int = 4

    def __post_init__(self):
        advice = "Use AncestorMixing(4), or NoMixing() for paths."
        object.__setattr__(
            self, "num_ancestors", whole_number(self.num_ancestors, "num_ancestors", 2, advice, ModelError)
        )

    def fits(self, belief: BoundBelief) -> bool:
        """Fit beliefs that hold any mixture."""
        return isinstance(belief, MixesAncestors)

    def update(self, filter, key, parents, data, time):
        pool, size = parents.pool, self.num_ancestors
        several = several_ancestors(key, size, filter.num_islands, pool.log_weights, parents.ancestors)
        from_all = replace(data, x_prev=pool.x)
        belief: Any = filter.bound_belief
        return belief.update_from_ancestors(parents.shared, pool.statistics, from_all, several), jnp.bool_(True)


def mixing_for(belief: BoundBelief, wanted: Mixing | None) -> Mixing:
    """Return the way to update a belief, or refuse what is wanted."""
    fitting = [mixing for mixing in (AncestorMixing(), PairwiseMixing(), NoMixing()) if mixing.fits(belief)]
    if wanted is None:
        return fitting[0]
    if not wanted.fits(belief):
        raise ModelError(f"{belief.name} cannot be updated by {wanted!r}; use mixing={fitting[0]!r}.")
    return wanted


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Pair:
    """What it takes to mix two beliefs: the parents, what each particle has learned so far, and its data."""

    key: KeyArray
    parents: Parents
    updated: PyTree
    data: Transition


def _with_others(filter: ParticleFilter, given: _Pair) -> PyTree:
    """Mix into each belief what it would be if the particle had come from another ancestor."""
    belief: Any = filter.bound_belief
    parents, data, pool = given.parents, given.data, given.parents.pool

    def log_score(chosen):
        x_from, draws = jax.tree.map(lambda leaf: leaf[chosen], (pool.x, parents.pool_draws))
        return _score_moves(filter, x_from, draws, data.x, data.y, data.inputs)

    others = other_ancestors(given.key, filter.num_islands, pool.log_weights, parents.ancestors, log_score)
    other_x, other_statistics = jax.tree.map(lambda leaf: leaf[others], (pool.x, pool.statistics))
    from_other = update_all(belief, parents.shared, other_statistics, replace(data, x_prev=other_x))
    return jax.vmap(belief.mix, in_axes=(None, 0, 0))(parents.shared, given.updated, from_other)


def _score_moves(
    filter: ParticleFilter, x_prev: PyTree, draws: ThetaDraws, x: PyTree, y: Observation, inputs: Inputs
) -> Float[Array, " particle"]:
    """Return log p(x | x_prev, theta) p(y | x, theta) for one origin (x_prev, theta) of each particle."""
    model = filter.model

    def score(x_from, draw, x_new):
        theta = model.parameters.constrain(draw.z)
        seen = model.observation_log_prob(theta, x_new, y, inputs)
        if draw.marginal is None:
            return model.transition_log_prob(theta, x_from, x_new, inputs) + seen
        center = model.parameters.constrain(draw.marginal.z)
        moved = known_gaussian(model.transition(center, x_from, inputs)).blurred(draw.marginal.loading)
        return moved.log_prob(x_new) + seen

    return jax.vmap(score)(x_prev, draws, x)


def is_time_to_mix(time: Int[Array, ""], num_particles: int) -> Bool[Array, ""]:
    """Tell whether beliefs are to be mixed at this time."""
    first, every = max(int(FIRST * num_particles), 1), max(int(EVERY * num_particles), 1)
    return (time >= first) & (time % every == 0)


def several_ancestors(
    key: KeyArray,
    num_ancestors: int,
    num_islands: int,
    log_weights: Float[Array, " particle"],
    own: Int[Array, " particle"],
) -> Int[Array, "particle ancestor"]:
    """Return each particle's own ancestor and others drawn by weight, on its own island."""
    keys = jax.random.split(key, num_ancestors - 1)
    others = jax.vmap(lambda one: _draw_within(one, num_islands, log_weights))(keys)
    return jnp.concatenate([own[None], others]).T


def other_ancestors(
    key: KeyArray,
    num_islands: int,
    log_weights: Float[Array, " particle"],
    own: Int[Array, " particle"],
    log_score: Callable[[Int[Array, " particle"]], Float[Array, " particle"]],
) -> Int[Array, " particle"]:
    """Draw a second ancestor for each particle, on its own island.

    Args:
        key: A typed key.
        num_islands: Groups of particles that are never mixed.
        log_weights: Of the particles before the move.
        own: The ancestor of each particle.
        log_score: Gives log p(x' | x_j, theta_j) p(y | x', theta_j) for one ancestor j of each particle.
    """

    def move(carry, move_key):
        chosen, score = carry
        key_propose, key_accept = jax.random.split(move_key)
        proposed = _draw_within(key_propose, num_islands, log_weights)
        new_score = log_score(proposed)
        accepted = jnp.log(jax.random.uniform(key_accept, score.shape, score.dtype)) < new_score - score
        return (jnp.where(accepted, proposed, chosen), jnp.where(accepted, new_score, score)), None

    (chosen, _), _ = jax.lax.scan(move, (own, log_score(own)), jax.random.split(key, NUM_MOVES))
    return chosen


def _draw_within(key: KeyArray, num_islands: int, log_weights: Float[Array, " particle"]) -> Int[Array, " particle"]:
    """Draw as many particles as there are, independently by weight, each from its own island."""
    rows = split(num_islands, log_weights)
    cumulative = jnp.cumsum(jax.nn.softmax(rows, axis=1), axis=1)
    points = jax.random.uniform(key, rows.shape, rows.dtype) * cumulative[:, -1:]
    found = jax.vmap(lambda steps, at: jnp.searchsorted(steps, at, side="right"))(cumulative, points)
    return among_all(jnp.clip(found, 0, rows.shape[1] - 1).astype(jnp.int32))

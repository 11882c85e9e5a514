"""After the move: each belief absorbs what its particle has seen, along one path or mixed over several ancestors."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, PyTree

from paramfilter.filters.backward import few_survive, is_time_to_mix, other_ancestors, several_ancestors
from paramfilter.filters.proposing import Parents, ThetaDraws
from paramfilter.gaussian import known_gaussian
from paramfilter.model import Datum
from paramfilter.numerics.sparse import rarely
from paramfilter.types import Inputs, KeyArray, Observation

if TYPE_CHECKING:
    from paramfilter.filters.particle_filter import ParticleFilter


def absorb(
    filter: ParticleFilter, key: KeyArray, parents: Parents, data: Datum, time: Int[Array, ""]
) -> tuple[PyTree, Bool[Array, ""]]:
    """Return the statistics after the data, and whether they were mixed over ancestors."""
    belief, num_islands, pool = filter.bound_belief, filter.num_islands, parents.pool
    num_ancestors = filter.num_ancestors or 1  # a filter that is made has a number
    if num_ancestors > 2:
        several = several_ancestors(key, num_ancestors, num_islands, pool.log_weights, parents.ancestors)
        from_all = replace(data, x_prev=pool.x)
        return belief.absorb_from_many(parents.shared, pool.statistics, from_all, several), jnp.bool_(True)
    absorbed = belief.absorb_all(parents.shared, parents.particles.statistics, data)
    if num_ancestors == 1:
        return absorbed, jnp.bool_(False)
    is_due = is_time_to_mix(time, filter.num_particles)
    if belief.holds_mixtures:
        is_due |= few_survive(parents.resampled.ancestors)
    is_mixed = is_due & belief.can_mix_now(parents.shared)
    mixing = _Mixing(key, parents, absorbed, data)
    return rarely(is_mixed, functools.partial(_with_others, filter), mixing, absorbed), is_mixed


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Mixing:
    """What it takes to mix beliefs: the parents, what each particle has absorbed so far, and its data."""

    key: KeyArray
    parents: Parents
    absorbed: PyTree
    data: Datum


def _with_others(filter: ParticleFilter, given: _Mixing) -> PyTree:
    """Mix into each belief what it would be if the particle had come from another ancestor."""
    belief, parents, data = filter.bound_belief, given.parents, given.data
    pool = parents.pool

    def log_score(chosen):
        x_from, draws = jax.tree.map(lambda leaf: leaf[chosen], (pool.x, parents.pool_draws))
        return _score_moves(filter, x_from, draws, data.x, data.y, data.inputs)

    others = other_ancestors(given.key, filter.num_islands, pool.log_weights, parents.ancestors, log_score)
    other_x, other_statistics = jax.tree.map(lambda leaf: leaf[others], (pool.x, pool.statistics))
    from_other = belief.absorb_all(parents.shared, other_statistics, replace(data, x_prev=other_x))
    return jax.vmap(belief.mixed, in_axes=(None, 0, 0))(parents.shared, given.absorbed, from_other)


def _score_moves(
    filter: ParticleFilter, x_prev: PyTree, draws: ThetaDraws, x: PyTree, y: Observation, inputs: Inputs
) -> Float[Array, " particle"]:
    """Return log p(x | x_prev, theta) p(y | x, theta) for one origin (x_prev, theta) of each particle."""
    model = filter.model

    def score(x_from, draw, x_new):
        theta = model.parameters.constrain(draw.z)
        seen = model.observation_log_prob(theta, x_new, y, inputs)
        if draw.blur is None:
            return model.transition_log_prob(theta, x_from, x_new, inputs) + seen
        center = model.parameters.constrain(draw.blur.z)
        moved = known_gaussian(model.transition(center, x_from, inputs)).blurred(draw.blur.columns)
        return moved.log_prob(x_new) + seen

    return jax.vmap(score)(x_prev, draws, x)

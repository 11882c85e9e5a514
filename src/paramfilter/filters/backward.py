"""Other ancestors: beliefs given the present state instead of the path that led to it.

A particle at x' that remembers one path rides on that path's ancestry, and paths are lost at each resampling. What it
should believe is a mixture over all ways to x',

    p(theta | x', y_1..y_t)  ~  sum_j w_j q_j(theta) p(x' | x_j, theta) p(y_t | x', theta),

over the particles j before the move.

**Two now and then.** Two ancestors drawn by those weights are enough to keep the error from growing (Olsson and
Westerborn 2017, Bernoulli 23, for sums along paths: PaRIS). The particle's own ancestor is one of them. The other comes
from a few Metropolis moves on the index, with the weights w as the proposal, which cost the same for any N (Dau and
Chopin, On the complexity of backward smoothing algorithms, arXiv:2207.00976).

**More at each step**, for beliefs that can hold any mixture, where a path says far more about theta than the data do:
the particle's own ancestor and others drawn by w, each of which counts by what its belief says about the move, theta
integrated out. The own ancestor is a draw from the law of ancestors given x', and one right draw among proposals makes
the average right, whatever their number (Tjelmeland 2004, Using all Metropolis-Hastings proposals to estimate mean
values, NTNU Statistics 4). What it mends and what it costs: docs/decisions/0028-many-ancestors.md.
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from paramfilter.filters.health import num_distinct
from paramfilter.filters.islands import among_all, split
from paramfilter.types import KeyArray

NUM_MOVES = 4
"""Metropolis moves that lead from a particle's own ancestor to another."""

FIRST = 0.5
EVERY = 0.025
"""When two beliefs are mixed, in multiples of N. Paths are lost over that many steps; before, a path is the better
memory, and mixing more often costs more and is no better (docs/decisions/0014-beliefs-given-the-present.md)."""

FEW = 0.5
"""Share of particles with descendants below which beliefs that hold mixtures are mixed at once."""


def is_time_to_mix(time: Int[Array, ""], num_particles: int) -> Bool[Array, ""]:
    """Tell whether beliefs are to be mixed at this time."""
    first, every = max(int(FIRST * num_particles), 1), max(int(EVERY * num_particles), 1)
    return (time >= first) & (time % every == 0)


def few_survive(ancestors: Int[Array, " particle"]) -> Bool[Array, ""]:
    """Tell whether so few particles have descendants that paths are lost in this one step."""
    return num_distinct(ancestors) < FEW * len(ancestors)


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

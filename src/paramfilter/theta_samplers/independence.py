"""Metropolis moves with proposals that do not depend on where the particle is: draws from a Student t that was fitted
to the belief, each accepted or refused so that the belief stays invariant.

After a while every belief looks like a Gaussian, nearly all proposals are accepted, and a move is as good as an exact
draw. Before that the chain of refusals is carried on by the particle. The tails of the t are heavier than a Gaussian's,
so that no part of the belief is out of reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter import student
from paramfilter.theta_samplers.base import LogDensity, Region, ThetaDraw, ThetaSampler
from paramfilter.types import KeyArray


@dataclass(frozen=True)
class Independence(ThetaSampler):
    """Independence Metropolis moves, with a Student t of the region's mean and spread.

    Args:
        num_moves: Moves per draw.
    """

    num_moves: int = 2

    def draw(
        self, key: KeyArray, log_density: LogDensity, previous: Float[Array, " param"], region: Region
    ) -> ThetaDraw:
        """Move `previous` by `num_moves` proposals from the fitted t."""
        dimension = previous.shape[0]

        def move(current, move_key):
            point, log_ratio = current
            key_proposal, key_accept = jax.random.split(move_key)
            standard = student.draw(key_proposal, dimension, previous.dtype)
            proposal = region.mean + region.spread @ standard
            proposed = log_density(proposal) - student.log_density(standard)
            wins = jnp.log(jax.random.uniform(key_accept, dtype=previous.dtype)) < proposed - log_ratio
            wins = jnp.where(jnp.isfinite(log_ratio), wins, proposed > -jnp.inf)
            return (jnp.where(wins, proposal, point), jnp.where(wins, proposed, log_ratio)), None

        standard = region.whitener @ (previous - region.mean)
        start = (previous, log_density(previous) - student.log_density(standard))
        (point, _), _ = jax.lax.scan(move, start, jax.random.split(key, self.num_moves))
        return ThetaDraw(point, at_edge=jnp.zeros((), bool))

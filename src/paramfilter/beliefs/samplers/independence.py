"""Metropolis moves with proposals that do not depend on where the particle is: draws from a Student t that was fitted
to the belief, each accepted or refused so that the belief stays invariant.

After a while every belief looks like a Gaussian, nearly all proposals are accepted, and a move is as good as an exact
draw. Before that the chain of refusals is carried on by the particle. The tails of the t are heavier than a Gaussian's,
so that no part of the belief is out of reach.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax

from paramfilter.beliefs.samplers.base import Here, LogDensity, MarkovSampler, Region, metropolis
from paramfilter.numerics import student_t
from paramfilter.types import KeyArray


@dataclass(frozen=True)
class Independence(MarkovSampler):
    """Independence Metropolis moves, with a Student t of the region's mean and spread.

    Args:
        num_moves: Moves per draw.
    """

    num_moves: int = 2

    def move(self, key: KeyArray, log_density: LogDensity, here: Here, region: Region) -> Here:
        """Move by `num_moves` proposals from the fitted t."""

        def one(here, move_key):
            key_proposal, key_accept = jax.random.split(move_key)
            standard = student_t.draw(key_proposal, len(here.z), here.z.dtype)
            z = region.mean + region.spread @ standard
            way_back = student_t.log_density(region.whitener @ (here.z - region.mean))
            favour = way_back - student_t.log_density(standard)
            return metropolis(key_accept, here, Here(z, log_density(z)), favour), None

        return jax.lax.scan(one, here, jax.random.split(key, self.num_moves))[0]

"""Random-walk Metropolis: the paper's recipe for two parameters (its STAR example).

Each particle carries its previous theta and makes a few steps from there, with no burn-in. The proposal is a Gaussian
with the shape of the particles' present spread, scaled by 2.38/sqrt(p) (Roberts, Gelman and Gilks 1997). One step
leaves the belief invariant but is *not* a draw from it: the chain lags behind a belief that moves. More steps cost
time and cure it.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp

from paramfilter.beliefs.samplers.base import Here, LogDensity, MarkovSampler, Region, metropolis
from paramfilter.types import KeyArray

OPTIMAL_SCALE = 2.38
"""Times 1/sqrt(p): the step in units of the target's spread that mixes fastest for Gaussian targets."""


@dataclass(frozen=True)
class RandomWalk(MarkovSampler):
    """Metropolis steps from the particle's previous theta.

    Args:
        num_moves: Steps per draw; the paper takes 1.
    """

    num_moves: int = 1

    def move(self, key: KeyArray, log_density: LogDensity, here: Here, region: Region) -> Here:
        """Move by `num_moves` Metropolis steps."""
        step_factor = OPTIMAL_SCALE / jnp.sqrt(len(here.z)) * region.spread

        def one(here, move_key):
            key_step, key_accept = jax.random.split(move_key)
            z = here.z + step_factor @ jax.random.normal(key_step, here.z.shape, here.z.dtype)
            return metropolis(key_accept, here, Here(z, log_density(z))), None

        return jax.lax.scan(one, here, jax.random.split(key, self.num_moves))[0]

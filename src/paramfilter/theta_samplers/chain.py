"""Several samplers, one after another: each leaves the belief invariant, so all of them together do."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.theta_samplers.base import LogDensity, Region, ThetaDraw, ThetaSampler
from paramfilter.types import KeyArray


@dataclass(frozen=True)
class Chain(ThetaSampler):
    """Draws by several samplers in turn: `Chain((Independence(1), RandomWalk(1)))` jumps, and then explores.

    Args:
        samplers: The samplers; each starts from where the one before has ended.
    """

    samplers: tuple[ThetaSampler, ...]

    def draw(
        self, key: KeyArray, log_density: LogDensity, previous: Float[Array, " param"], region: Region
    ) -> ThetaDraw:
        """Move `previous` by each sampler."""
        drawn = ThetaDraw(previous, jnp.zeros((), bool))
        for index, sampler in enumerate(self.samplers):
            moved = sampler.draw(jax.random.fold_in(key, index), log_density, drawn.z, region)
            drawn = ThetaDraw(moved.z, drawn.at_edge | moved.at_edge)
        return drawn

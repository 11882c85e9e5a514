"""Several samplers, one after another: each leaves the belief invariant, so all of them together do."""

from __future__ import annotations

from dataclasses import dataclass

import jax

from paramfilter.beliefs.samplers.base import Here, LogDensity, MarkovSampler, Region
from paramfilter.types import KeyArray


@dataclass(frozen=True)
class Chain(MarkovSampler):
    """Moves by several samplers in turn: `Chain((Independence(1), RandomWalk(1)))` jumps, and then explores.

    Args:
        samplers: The samplers; each starts from where the one before has ended.
    """

    samplers: tuple[MarkovSampler, ...]

    def move(self, key: KeyArray, log_density: LogDensity, here: Here, region: Region) -> Here:
        """Move by each sampler."""
        for index, sampler in enumerate(self.samplers):
            here = sampler.move(jax.random.fold_in(key, index), log_density, here, region)
        return here

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
from jaxtyping import Array, Float

from paramfilter.theta_samplers.base import LogDensity, Region, ThetaDraw, ThetaSampler
from paramfilter.types import KeyArray

OPTIMAL_SCALE = 2.38
"""Times 1/sqrt(p): the step in units of the target's spread that mixes fastest for Gaussian targets."""


@dataclass(frozen=True)
class RandomWalk(ThetaSampler):
    """Metropolis steps from the particle's previous theta.

    Args:
        num_moves: Steps per draw; the paper takes 1.
    """

    num_moves: int = 1

    def draw(
        self, key: KeyArray, log_density: LogDensity, previous: Float[Array, " param"], region: Region
    ) -> ThetaDraw:
        """Move `previous` by `num_moves` Metropolis steps."""
        step_factor = OPTIMAL_SCALE / jnp.sqrt(previous.shape[0]) * region.spread

        def move(current, move_key):
            point, value = current
            key_step, key_accept = jax.random.split(move_key)
            proposal = point + step_factor @ jax.random.normal(key_step, point.shape, point.dtype)
            proposed = log_density(proposal)
            # A start of density zero accepts any proposal of positive density; NaN never wins.
            wins = jnp.log(jax.random.uniform(key_accept, dtype=point.dtype)) < proposed - value
            wins = jnp.where(jnp.isfinite(value), wins, proposed > -jnp.inf)
            return (jnp.where(wins, proposal, point), jnp.where(wins, proposed, value)), None

        start = (previous, log_density(previous))
        (point, _), _ = jax.lax.scan(move, start, jax.random.split(key, self.num_moves))
        return ThetaDraw(point, at_edge=jnp.zeros((), bool))

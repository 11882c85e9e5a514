"""Slice sampling along random directions (Neal 2003), with a fixed amount of work so that it compiles and vmaps.

One move: draw a level under the density at the present point; draw a direction from the particles' spread; step out an
interval along it (Neal's limit of m steps, split at random); shrink it until a point above the level is found. If
`max_shrinks` tries fail the point stays: each successful path of tries is as likely forwards as backwards, so the
kernel with a limit still leaves the density invariant.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.beliefs.samplers.base import Here, LogDensity, MarkovSampler, Region
from paramfilter.types import KeyArray

WIDTH = 3.0
"""First interval, in standard deviations of the particles' spread along the direction."""


@dataclass(frozen=True)
class Slice(MarkovSampler):
    """Slice-sampling moves from the particle's previous theta.

    Args:
        num_moves: Moves per draw, each along a fresh direction.
        max_steps_out: Neal's m: the interval grows to at most this many first widths.
        max_shrinks: Tries per move before the point stays where it is.
    """

    num_moves: int = 2
    max_steps_out: int = 4
    max_shrinks: int = 12

    def move(self, key: KeyArray, log_density: LogDensity, here: Here, region: Region) -> Here:
        """Move by `num_moves` slice-sampling moves."""

        def one(here, move_key):
            return self._move(move_key, log_density, here, region.spread), None

        return jax.lax.scan(one, here, jax.random.split(key, self.num_moves))[0]

    def _move(self, key, log_density, here, spread) -> Here:
        key_level, key_direction, key_interval, key_split, key_shrink = jax.random.split(key, 5)
        dtype = here.z.dtype
        level = here.log_density + jnp.log(jax.random.uniform(key_level, dtype=dtype))
        level = jnp.where(jnp.isnan(level), -jnp.inf, level)
        standard = jax.random.normal(key_direction, here.z.shape, dtype)
        direction = spread @ (standard / jnp.linalg.norm(standard))
        height = lambda offset: log_density(here.z + offset * direction)
        left, right = self._step_out(key_interval, key_split, lambda offset: height(offset) > level, dtype)

        def shrink(index, carry):
            left, right, offset, found, is_found = carry
            u = jax.random.uniform(jax.random.fold_in(key_shrink, index), dtype=dtype)
            trial = left + u * (right - left)
            value = height(trial)
            hit = (value > level) & ~is_found
            offset, found = jnp.where(hit, trial, offset), jnp.where(hit, value, found)
            is_found = is_found | hit
            left = jnp.where(~is_found & (trial < 0), trial, left)
            right = jnp.where(~is_found & (trial >= 0), trial, right)
            return left, right, offset, found, is_found

        start = (left, right, jnp.zeros((), dtype), here.log_density, jnp.zeros((), bool))
        _, _, offset, found, _ = jax.lax.fori_loop(0, self.max_shrinks, shrink, start)
        return Here(here.z + offset * direction, found)

    def _step_out(self, key_interval, key_split, is_inside, dtype) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Return an interval around 0 that reaches outside the slice where the limit allows."""
        left = -WIDTH * jax.random.uniform(key_interval, dtype=dtype)
        right = left + WIDTH
        budget_left = jax.random.randint(key_split, (), 0, self.max_steps_out)
        budget_right = self.max_steps_out - 1 - budget_left
        steps = jnp.arange(self.max_steps_out - 1)

        def num_steps(end, sign, budget):
            ends_inside = jax.vmap(is_inside)(end + sign * WIDTH * steps)
            return jnp.sum(jnp.cumprod(ends_inside & (steps < budget)))

        return left - WIDTH * num_steps(left, -1.0, budget_left), right + WIDTH * num_steps(right, 1.0, budget_right)

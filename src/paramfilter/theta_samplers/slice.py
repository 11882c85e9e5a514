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

from paramfilter.theta_samplers.base import LogDensity, Region, ThetaDraw, ThetaSampler
from paramfilter.types import KeyArray

WIDTH = 3.0
"""First interval, in standard deviations of the particles' spread along the direction."""


@dataclass(frozen=True)
class Slice(ThetaSampler):
    """Slice-sampling moves from the particle's previous theta.

    Args:
        num_moves: Moves per draw, each along a fresh direction.
        max_steps_out: Neal's m: the interval grows to at most this many first widths.
        max_shrinks: Tries per move before the point stays where it is.
    """

    num_moves: int = 2
    max_steps_out: int = 4
    max_shrinks: int = 12

    def draw(
        self, key: KeyArray, log_density: LogDensity, previous: Float[Array, " param"], region: Region
    ) -> ThetaDraw:
        """Move `previous` by `num_moves` slice-sampling moves."""

        def move(point, move_key):
            return self._move(move_key, log_density, point, region.spread), None

        point, _ = jax.lax.scan(move, previous, jax.random.split(key, self.num_moves))
        return ThetaDraw(point, at_edge=jnp.zeros((), bool))

    def _move(self, key, log_density, point, spread):
        key_level, key_direction, key_interval, key_split, key_shrink = jax.random.split(key, 5)
        level = log_density(point) + jnp.log(jax.random.uniform(key_level, dtype=point.dtype))
        level = jnp.where(jnp.isnan(level), -jnp.inf, level)
        standard = jax.random.normal(key_direction, point.shape, point.dtype)
        direction = spread @ (standard / jnp.linalg.norm(standard))

        def is_inside(offset):
            return log_density(point + offset * direction) > level

        left, right = self._step_out(key_interval, key_split, is_inside, point.dtype)

        def shrink(index, carry):
            left, right, offset, is_found = carry
            u = jax.random.uniform(jax.random.fold_in(key_shrink, index), dtype=point.dtype)
            trial = left + u * (right - left)
            hit = is_inside(trial) & ~is_found
            offset = jnp.where(hit, trial, offset)
            is_found = is_found | hit
            left = jnp.where(~is_found & (trial < 0), trial, left)
            right = jnp.where(~is_found & (trial >= 0), trial, right)
            return left, right, offset, is_found

        start = (left, right, jnp.zeros((), point.dtype), jnp.zeros((), bool))
        _, _, offset, _ = jax.lax.fori_loop(0, self.max_shrinks, shrink, start)
        return point + offset * direction

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

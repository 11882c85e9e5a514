"""Residual resampling: what is certain first, then draw the rest.

Particle `i` gets `floor(N w_i)` copies without any randomness, and the `R = N - sum_i floor(N w_i)` slots
left are filled by independent draws with probabilities proportional to what was cut off, `N w_i - floor(N
w_i)` (Liu and Chen, 1998, "Sequential Monte Carlo methods for dynamic systems"). On the axis of slots, the
cut-off ends of the pieces are laid one after the other; they fill [0, R) exactly, and R independent points
are thrown on it.

Its variance is never larger than that of `Multinomial`, which it becomes when all `N w_i` are below one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.resampling.base import Resampled, Resampling
from paramfilter.resampling.multinomial import independent_points_before
from paramfilter.resampling.slots import Slots, cumulative, ends_of_pieces, pieces_between, resampled
from paramfilter.types import KeyArray


@final
@dataclass(frozen=True)
class Residual(Resampling):
    """Resample with `floor(N w_i)` certain copies and independent draws for the rest.

    >>> import jax, jax.numpy as jnp
    >>> resample = jax.jit(Residual().resample)
    >>> new = resample(jax.random.key(0), jnp.log(jnp.array([0.25, 0.5, 0.25, 0.0])))
    >>> new.ancestors.tolist()
    [0, 1, 1, 2]
    """

    def resample(self, key: KeyArray, log_weights: Float[Array, " particle"]) -> Resampled:
        pieces = pieces_between(ends_of_pieces(log_weights))
        leftover_ends = cumulative(Slots(jnp.zeros_like(pieces.whole), pieces.part))
        num_leftover = leftover_ends.whole[-1]
        certain = jnp.cumsum(pieces.whole, dtype=jnp.int32)
        return resampled(log_weights, certain + independent_points_before(key, leftover_ends, num_leftover))

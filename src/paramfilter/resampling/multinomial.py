"""Multinomial resampling: N independent draws from the weights.

The points are N independent uniforms on [0, N), as in the first particle filter (Gordon, Salmond and Smith,
1993, "Novel approach to nonlinear/non-Gaussian Bayesian state estimation"). It has the most variance of the
schemes here. Use it to compare with theory, which mostly assumes it, or where ancestors must be independent
of each other.

To count the points before each end takes no sorting of the points:

1. draw for each point the slot it falls in, and count the points of each slot;
2. points in the slots before the end's own: a running sum of those counts;
3. points in the end's own slot: compare each with the end's `part`. A slot holds one point on average and
   the fullest of a million slots about ten, so this is a short loop over "the r-th point of its slot" for
   all ends at once.

As ancestors come in increasing order, *which* new particle copies whom is not independent; the counts are
multinomial.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int

from paramfilter.resampling.base import Resampled, Resampling
from paramfilter.resampling.slots import Slots, ends_of_pieces, resampled
from paramfilter.types import KeyArray


@final
@dataclass(frozen=True)
class Multinomial(Resampling):
    """Resample by independent draws: the numbers of copies are multinomial.

    >>> import jax, jax.numpy as jnp
    >>> resample = jax.jit(Multinomial().resample)
    >>> new = resample(jax.random.key(0), jnp.log(jnp.array([0.0, 1.0, 0.0, 0.0])))
    >>> new.ancestors.tolist()
    [1, 1, 1, 1]
    """

    def resample(self, key: KeyArray, log_weights: Float[Array, " particle"]) -> Resampled:
        return resampled(log_weights, independent_points_before(key, ends_of_pieces(log_weights)))


def independent_points_before(key: KeyArray, ends: Slots) -> Int[Array, " particle"]:
    """Throw as many independent uniform points on the axis as there are slots; count those before each end.

    Args:
        key: consumed.
        ends: increasing positions, the last at the number of slots.
    """
    key_slot, key_position = jax.random.split(key)
    num_slots = ends.whole.shape[0]

    slot = jax.random.randint(key_slot, (num_slots,), 0, num_slots, jnp.int32)
    occupancy = jnp.zeros(num_slots, jnp.int32).at[slot].add(1)
    points_before_slot = jnp.concatenate([jnp.zeros(1, jnp.int32), jnp.cumsum(occupancy, dtype=jnp.int32)])

    # Points of one slot are exchangeable, so their places in it can be drawn afresh, slot after slot.
    position = jax.random.bits(key_position, (num_slots,), jnp.uint32)
    first = points_before_slot[ends.whole]
    beyond = points_before_slot.at[ends.whole + 1].get(mode="clip")

    def count_next_of_slot(r: Array, count: Array) -> Array:
        candidate = first + r
        is_before = position.at[candidate].get(mode="clip") < ends.part
        return count + ((candidate < beyond) & is_before).astype(jnp.int32)

    return lax.fori_loop(0, jnp.max(occupancy), count_next_of_slot, first)

"""Stratified resampling: one independent random number in each slot.

The points are

    j + U_j,   j = 0, ..., N - 1,

with independent uniforms `U_j` (Kitagawa, 1996, "Monte Carlo filter and smoother for non-Gaussian nonlinear
state space models"). Particle `i` gets a number of copies that differs from `N w_i` by less than two. Its
variance is never larger than that of `Multinomial`, for any order of the particles (Douc, Cappe and
Moulines, 2005), which can't be said of `Systematic`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.resampling.base import Resampled, Resampling
from paramfilter.resampling.slots import ends_of_pieces, resampled
from paramfilter.types import KeyArray


@final
@dataclass(frozen=True)
class Stratified(Resampling):
    """Resample by one point in each slot: copies differ from `N w_i` by less than two.

    >>> import jax, jax.numpy as jnp
    >>> resample = jax.jit(Stratified().resample)
    >>> new = resample(jax.random.key(0), jnp.log(jnp.array([0.0, 0.5, 0.0, 0.5])))
    >>> new.ancestors.tolist()
    [1, 1, 3, 3]
    """

    def resample(self, key: KeyArray, log_weights: Float[Array, " particle"]) -> Resampled:
        ends = ends_of_pieces(log_weights)
        points = jax.random.bits(key, log_weights.shape, jnp.uint32)
        # An end at N has no slot after it, but its part is zero: whichever point is read, it isn't smaller.
        point_in_last_slot = points.at[ends.whole].get(mode="clip")
        return resampled(log_weights, ends.whole + (point_in_last_slot < ends.part).astype(jnp.int32))

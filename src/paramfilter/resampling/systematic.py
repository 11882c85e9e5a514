"""Systematic resampling: one random number for the whole population.

The points are a comb with teeth one slot apart, shifted by a single uniform `U` (Kitagawa, 1996, "Monte
Carlo filter and smoother for non-Gaussian nonlinear state space models"):

    j + U,   j = 0, ..., N - 1.

Particle `i` gets `floor(N w_i)` or `ceil(N w_i)` copies, never anything else. It is the cheapest scheme and
usually has the least variance. Its answer depends on the order of the particles, and for an unlucky order
the variance is not small.
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
class Systematic(Resampling):
    """Resample by a randomly shifted comb: copies differ from `N w_i` by less than one.

    >>> import jax, jax.numpy as jnp
    >>> resample = jax.jit(Systematic().resample)
    >>> new = resample(jax.random.key(0), jnp.log(jnp.array([0.0, 0.5, 0.0, 0.5])))
    >>> new.ancestors.tolist()
    [1, 1, 3, 3]
    """

    def resample(self, key: KeyArray, log_weights: Float[Array, " particle"]) -> Resampled:
        ends = ends_of_pieces(log_weights)
        shift = jax.random.bits(key, dtype=jnp.uint32)
        # Teeth before the end `whole + part`: one in each whole slot, and one more if it comes before `part`.
        return resampled(log_weights, ends.whole + (shift < ends.part).astype(jnp.int32))

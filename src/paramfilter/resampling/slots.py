"""The axis on which all schemes resample, in exact arithmetic.

Picture the interval [0, N) as N *slots* of length one, and lay the particles along it: particle `i` owns a
piece of length `N w_i`, and the pieces fill the interval. A scheme throws N points on it, and each point
picks the owner of the piece it falls in. The schemes differ only in how they throw (Douc, Cappe and
Moulines, 2005, "Comparison of resampling schemes for particle filtering"). Two steps are common to all:

1. `ends_of_pieces`: where each piece ends, `N (w_1 + ... + w_i)`;
2. `resampled`: from "how many points fell before the end of piece i" to ancestors, by counting instead of
   searching.

**Why not floats.** A running sum of float32 weights is wrong by a good part of a slot at N = 1e6 and its
last entry isn't N, so somebody must get the slots left over or give some up, and that somebody may have
weight zero. Here lengths and ends are 64-bit fixed-point numbers kept in two 32-bit integers: `whole`
slots, and a `part` in units of 2^-32 slot. Integers add without rounding, in any order, so

- the ends never decrease, a weight of zero has a piece of length zero, and the last end is N, all exactly;
- a random `part` is 32 random bits, where a float32 uniform has only 23 and is zero once in 2^23 draws;
- the answer has the same quality with float32 and float64 weights, for N below 2^31.

What rounding is left comes from the weights themselves: each length is right to a few parts in 2^24 in
float32, and the sum of these errors (at N = 1e6 usually 0.01 slots, never seen above 0.3) is given to the
heaviest particle. A weight below 2^-32 / N is treated as zero.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jax import lax
from jaxtyping import Array, Float, Int, Int32, UInt32

from paramfilter.numerics.weights import relative_weights
from paramfilter.resampling.base import Resampled

_PARTS_PER_SLOT = 2.0**32
# Up to here the sum of float32 lengths misses N by well under a slot, which the heaviest particle, that has
# one or more, can spare. Beyond, the error is first spread over all.
_MANY_PARTICLES = 2**20


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Slots:
    """Lengths or positions, in slots: `whole + part / 2**32`."""

    whole: Int32[Array, "..."]
    part: UInt32[Array, "..."]


def ends_of_pieces(log_weights: Float[Array, " particle"]) -> Slots:
    """Return where each particle's piece, of length `N w_i`, ends; the last ends at N exactly.

    A dead population (no positive weight) gets equal pieces.

    >>> import jax.numpy as jnp
    >>> ends = ends_of_pieces(jnp.log(jnp.array([1.0, 0.0, 3.0, 4.0])))
    >>> ends.whole.tolist(), (ends.part / 2.0**32).tolist()
    ([0, 0, 2, 4], [0.5, 0.5, 0.0, 0.0])
    """
    # Ancestors are integers: no gradient passes through the choice of them.
    log_weights = lax.stop_gradient(log_weights)
    num_particles = log_weights.shape[0]
    precise = jnp.promote_types(log_weights.dtype, jnp.float32)
    weights = relative_weights(log_weights.astype(precise))
    weights = jnp.where(jnp.max(weights) == 0.0, 1.0, weights)

    # Multiply before dividing: lengths that are integers (equal weights, say) come out as integers.
    lengths = weights * num_particles / jnp.sum(weights)
    pieces = _from_float(lengths)
    ends = cumulative(pieces)

    everything = Slots(jnp.int32(num_particles), jnp.uint32(0))
    if num_particles > _MANY_PARTICLES:
        lacking = _to_float(_subtract(everything, _last(ends)), precise) / num_particles
        correction = _from_float(lengths * jnp.abs(lacking))
        ends = cumulative(_where(lacking < 0.0, _subtract(pieces, correction), _add(pieces, correction)))

    rest = _subtract(everything, _last(ends))
    index = jnp.arange(num_particles)
    # Relative to the largest, the largest weight is one. This takes a tenth of the time of argmax on a CPU.
    heaviest = jnp.max(jnp.where(weights == 1.0, index, 0))
    return _where(index >= heaviest, _add(ends, rest), ends)


def cumulative(pieces: Slots) -> Slots:
    """Return where each piece ends, when they are laid one after the other from 0."""
    part = jnp.cumsum(pieces.part, dtype=jnp.uint32)
    # The sum of parts wraps around at one slot. A sum smaller than its last term has just wrapped.
    carry = (part < pieces.part).astype(jnp.int32)
    return Slots(jnp.cumsum(pieces.whole + carry, dtype=jnp.int32), part)


def resampled(log_weights: Float[Array, " particle"], points_before_end: Int[Array, " particle"]) -> Resampled:
    """Turn "how many of the N points lie before the end of piece i" into a population of equal weights.

    New particle `j` copies the piece that holds point `j`, whose number is the number of pieces that end at
    or before that point. Adding up a histogram of `points_before_end` gives that for all `j` in O(N); on a
    CPU this is several times faster than N binary searches.

    >>> import jax.numpy as jnp
    >>> resampled(jnp.zeros(4), jnp.array([0, 1, 1, 4])).ancestors.tolist()
    [1, 3, 3, 3]
    """
    num_particles = log_weights.shape[0]
    # An end with all N points before it is index N: out of range and dropped, on purpose.
    pieces_ending = jnp.zeros(num_particles, jnp.int32).at[points_before_end]
    ancestors = jnp.cumsum(pieces_ending.add(1, mode="drop", indices_are_sorted=True), dtype=jnp.int32)
    is_alive = jnp.any(log_weights > -jnp.inf)  # a NaN is not greater than anything
    equal = -jnp.log(jnp.asarray(num_particles, log_weights.dtype))
    return Resampled(
        ancestors=jnp.where(is_alive, ancestors, jnp.arange(num_particles, dtype=jnp.int32)),
        log_weights=jnp.full_like(log_weights, equal),
        happened=is_alive,
    )


def _from_float(lengths: Float[Array, "..."]) -> Slots:
    whole = jnp.floor(lengths)
    return Slots(whole.astype(jnp.int32), ((lengths - whole) * _PARTS_PER_SLOT).astype(jnp.uint32))


def _to_float(slots: Slots, dtype: jnp.dtype) -> Float[Array, "..."]:
    return slots.whole.astype(dtype) + slots.part.astype(dtype) / _PARTS_PER_SLOT


def _add(a: Slots, b: Slots) -> Slots:
    part = a.part + b.part
    carry = (part < b.part).astype(jnp.int32)
    return Slots(a.whole + b.whole + carry, part)


def _subtract(a: Slots, b: Slots) -> Slots:
    """Return `a - b`; a negative result has a negative `whole` and, as always, a `part` of zero or more."""
    borrow = (a.part < b.part).astype(jnp.int32)
    return Slots(a.whole - b.whole - borrow, a.part - b.part)


def _last(slots: Slots) -> Slots:
    return Slots(slots.whole[-1], slots.part[-1])


def _where(condition: Array, a: Slots, b: Slots) -> Slots:
    return jax.tree.map(lambda x, y: jnp.where(condition, x, y), a, b)

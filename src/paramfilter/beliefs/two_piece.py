"""A law with a long and a short side, and the map that makes both equally long.

A kernel that moves values as if their law were normal makes a skewed law a little more normal each time it is used.
Here one side of the median is stretched and the other one shrunk, coordinate by coordinate, until both are equally
long; there the kernel does its work, and the way back brings the sides to their own lengths again.

When it lies: what else is not normal (heavy tails, several peaks, bent ridges) stays so.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from scipy.special import ndtr

SIDE = 1.5
"""Standard deviations of a normal law from the median to where a side is measured: near one value in fifteen."""

MOST_UNEVEN = 5.0
"""How much longer than their geometric mean a side is taken to be at most."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class TwoPiece:
    """The median of each coordinate, and the length of its upper side relative to the geometric mean of both."""

    centre: Float[Array, " param"]
    above: Float[Array, " param"]

    @property
    def below(self) -> Float[Array, " param"]:
        """The length of the lower side."""
        return 1 / self.above

    @classmethod
    def even(cls, like: Float[Array, " param"]) -> TwoPiece:
        """Return the shape whose map changes nothing."""
        return cls(jnp.zeros_like(like), jnp.ones_like(like))

    def evened(self, z: Float[Array, "*other param"]) -> Float[Array, "*other param"]:
        """Map values to where both sides are equally long."""
        return self.centre + (z - self.centre) / self._side(z)

    def uneven(self, z: Float[Array, "*other param"]) -> Float[Array, "*other param"]:
        """Map values back."""
        return self.centre + (z - self.centre) * self._side(z)

    def _side(self, z: Float[Array, "*other param"]) -> Float[Array, "*other param"]:
        return jnp.where(z < self.centre, self.below, self.above)


def two_piece_of(z: Float[Array, "particle param"], log_weights: Float[Array, " particle"]) -> TwoPiece:
    """Return the shape of weighted values.

    >>> draws = jnp.exp(jax.random.normal(jax.random.key(0), (10_000, 1)))
    >>> shape = two_piece_of(draws, jnp.zeros(10_000))
    >>> [round(float(side[0]), 1) for side in (shape.centre, shape.below, shape.above)]
    [1.0, 0.5, 2.1]
    """
    weights = jax.nn.softmax(log_weights)

    def quantiles(column):
        order = jnp.argsort(column)
        ordered = weights[order]
        return jnp.interp(
            jnp.asarray(ndtr([-SIDE, 0.0, SIDE]), z.dtype), jnp.cumsum(ordered) - ordered / 2, column[order]
        )

    low, centre, high = jax.vmap(quantiles, in_axes=1, out_axes=1)(z)
    tiny = jnp.finfo(z.dtype).tiny
    ratio = jnp.sqrt(jnp.maximum(high - centre, tiny) / jnp.maximum(centre - low, tiny))
    return TwoPiece(centre, jnp.clip(ratio, 1 / MOST_UNEVEN, MOST_UNEVEN))

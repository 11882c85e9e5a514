"""Local polynomials through values on a uniform grid, straight lines beyond its ends.

Between two points the value is that of the polynomial of degree five through the six nearest ones: its error falls with
the sixth power of the spacing, and what happens elsewhere on the grid does not matter.

>>> import jax.numpy as jnp
>>> [round(float(value), 3) for value in interpolated(jnp.arange(12.0) ** 2, jnp.array([3.5, -1.0]))]
[12.25, -1.0]
"""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

NUM_TAPS = 6
"""Values that a local polynomial goes through."""

FEWEST_POINTS = 11
"""Points that `misses_between` needs."""


def interpolated(
    values: Float[Array, "point *other"], cells: Float[Array, " place"], overshoot: float = np.inf
) -> Float[Array, "place *other"]:
    """Interpolate along the first axis.

    Args:
        values: At the points of the grid.
        cells: Where, in units of the spacing from the first point.
        overshoot: How far a polynomial may rise above the values it goes through: more is a ripple at a jump.
    """
    last, middle = len(values) - 1, (NUM_TAPS - 1) / 2
    inside = jnp.clip(cells, 0, last)
    first = jnp.clip(jnp.floor(inside - middle + 0.5).astype(jnp.int32), 0, last + 1 - NUM_TAPS)
    steps = np.arange(NUM_TAPS)
    powers = (inside - first - middle)[:, None] ** steps
    weights = powers @ jnp.asarray(np.linalg.inv(np.vander(steps - middle, increasing=True)), powers.dtype)
    taps = values[first[:, None] + steps]
    smooth = jnp.minimum(jnp.einsum("pt,pt...->p...", weights, taps), jnp.max(taps, axis=1) + overshoot)
    beyond = (cells - inside).reshape(-1, *[1] * (values.ndim - 1))
    return smooth + beyond * jnp.where(beyond < 0, values[1] - values[0], values[-1] - values[-2])


def misses_between(values: Float[Array, "point *other"]) -> Float[Array, "inner *other"]:
    """Estimate what interpolation along the first axis misses between the points, at all but five at each end.

    Each value is compared with the polynomial through every second of its neighbors. At twice the spacing the error is
    64 times as large.
    """
    near, next_ones, far = (values[5 - d : -5 - d] + values[5 + d : len(values) - 5 + d] for d in (1, 3, 5))
    return ((150 * near - 25 * next_ones + 3 * far) / 256 - values[5:-5]) / 64

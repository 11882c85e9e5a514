"""Points that fill the unit cube evenly: a rank-1 lattice, moved by a random shift.

    u_i = frac(i g / N + shift),    i = 0..N-1

A lattice has no gaps and no clusters, so an average over its points misses an integral of a smooth function by far less
than one over as many random points; the shift makes each point uniform, and so the average unbiased. The generating
vector g is that of R. Cools, F. Kuo and D. Nuyens, Constructing embedded lattice rules for multivariate integration,
SIAM J. Sci. Comput. 28 (2006), for any N that is a power of two; other N take it as well, a little less evenly.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from paramfilter.errors import ModelError
from paramfilter.types import KeyArray, Numbers

# fmt: off
GENERATOR = (
    1, 182667, 469891, 498753, 110745, 446247, 250185, 118627, 245333, 283199, 408519, 391023, 246327, 126539, 399185,
    461527, 300343, 69681, 516695, 436179, 106383, 238523, 413283, 70841, 47719, 300129, 113029, 123925, 410745, 211325,
)
# fmt: on
"""One number for each dimension."""

EDGE = 2.0**-22
"""Points stay so far from the faces of the cube: the normal quantile of a face is infinite."""


def lattice(num_points: int, dimension: int) -> Float[np.ndarray, "point dimension"]:
    """Return the points without a shift.

    >>> lattice(4, 2).tolist()
    [[0.0, 0.0], [0.25, 0.75], [0.5, 0.5], [0.75, 0.25]]
    """
    if dimension > len(GENERATOR):
        raise ModelError(f"a node filter takes at most {len(GENERATOR)} dimensions, got {dimension}.")
    numbers = np.outer(np.arange(num_points, dtype=np.int64), np.array(GENERATOR[:dimension], np.int64))
    return (numbers % num_points) / num_points


def shifted(key: KeyArray, points: Float[np.ndarray, "point dimension"]) -> Float[Array, "point dimension"]:
    """Move a lattice by a random shift, around the cube."""
    shift = jax.random.uniform(key, points.shape[1:])
    moved = jnp.asarray(points, shift.dtype) + shift
    return jnp.clip(moved - jnp.floor(moved), EDGE, 1.0 - EDGE)


def scattered(
    key: KeyArray, time: Int[Numbers, ""], number: Int[Numbers, ""] | int, points: Float[np.ndarray, "point dimension"]
) -> tuple[Float[Array, "point param"], Float[Array, "point 2"]]:
    """Shift a lattice: standard normal values for theta's coordinates, and two uniform ones to choose by."""
    u = shifted(jax.random.fold_in(jax.random.fold_in(key, time), number), points)
    return normal_quantile(u[:, :-2]), u[:, -2:]


def normal_quantile(u: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the quantile function of N(0, 1)."""
    return math.sqrt(2.0) * jax.lax.erf_inv(2.0 * u - 1.0)

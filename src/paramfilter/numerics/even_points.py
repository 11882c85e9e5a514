"""Points that fill a cube evenly, however many there are: multiples of the inverse powers of one number, modulo 1.

    u_i = frac(i / g^k),    k = 1..d,    i = 1..N

g is the root of g^(d+1) = g + 1: the golden ratio if d = 1, the plastic number if d = 2. Unlike the points of a lattice
(`nodes.lattice`), they need not be as many as there are slots, and their order says nothing of their place.
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Float
from scipy.special import ndtri


def even_points(num_points: int, dimension: int) -> Float[np.ndarray, "point dimension"]:
    """Return points of the unit cube.

    >>> even_points(4, 1)[:, 0].round(2).tolist()
    [0.62, 0.24, 0.85, 0.47]
    """
    root = max(np.roots([1.0, *[0.0] * (dimension - 1), -1.0, -1.0]).real)
    steps = root ** -np.arange(1.0, dimension + 1)
    return np.arange(1, num_points + 1)[:, None] * steps % 1.0


def normal_points(num_points: int, dimension: int) -> Float[np.ndarray, "point dimension"]:
    """Return points that are spread as N(0, I) is."""
    return ndtri((even_points(num_points, dimension) + 0.5) % 1.0)

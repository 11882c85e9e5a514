"""Points and weights that integrate against a standard normal distribution."""

from __future__ import annotations

import itertools

import numpy as np
from jaxtyping import Float

POINTS_PER_AXIS = {1: 9, 2: 5, 3: 4}
"""Of a product rule, by the number of dimensions; with more of them cubature takes over."""

Rule = tuple[Float[np.ndarray, "point state"], Float[np.ndarray, " point"]]


def normal_rule(dimension: int, points_per_axis: int | None = None) -> Rule:
    """Return points and weights for N(0, I): Gauss-Hermite in up to three dimensions, and cubature beyond.

    The cubature rule has the center and two points on each axis, and is exact for polynomials of degree 3 (J. Uhlmann
    and S. Julier's sigma points with kappa = 1).

    >>> points, weights = normal_rule(2)
    >>> len(points), round(float(weights @ (points[:, 0] ** 4)), 6)
    (25, 3.0)
    """
    per_axis = points_per_axis or POINTS_PER_AXIS.get(dimension)
    if per_axis is None:
        reach = np.sqrt(dimension + 1.0)
        points = np.concatenate([np.zeros((1, dimension)), reach * np.eye(dimension), -reach * np.eye(dimension)])
        return points, np.array([1.0] + 2 * dimension * [0.5]) / (dimension + 1.0)
    ticks, shares = np.polynomial.hermite_e.hermegauss(per_axis)
    points = np.array(list(itertools.product(ticks, repeat=dimension)))
    weights = np.prod(np.array(list(itertools.product(shares / shares.sum(), repeat=dimension))), axis=1)
    return points, weights


FINE_POINTS_PER_AXIS = {1: 65, 2: 17}


def fine_rule(dimension: int) -> Rule:
    """Return many points and weights for N(0, I), evenly spaced, for functions that rise in a small space."""
    per_axis = FINE_POINTS_PER_AXIS.get(dimension)
    if per_axis is None:
        return normal_rule(dimension)
    points = np.array(list(itertools.product(np.linspace(-4.0, 4.0, per_axis), repeat=dimension)))
    weights = np.exp(-0.5 * np.sum(points**2, axis=1))
    return points, weights / np.sum(weights)

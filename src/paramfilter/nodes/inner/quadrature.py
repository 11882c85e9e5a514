"""Points and weights that integrate against a standard normal distribution."""

from __future__ import annotations

import itertools

import numpy as np
from jaxtyping import Float

from paramfilter.numerics.even_points import even_points

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
FEWEST_PER_AXIS = 9
"""Points at which sums over a normal density are exact to 1e-6, whatever their shift."""
REACH = 4.0


def shifted_rules(
    dimension: int, num_nodes: int
) -> tuple[Float[np.ndarray, "state point node"], Float[np.ndarray, "point node"]]:
    """Return evenly spaced points and weights for N(0, I), for functions that rise in a small space.

    Each node has its own shift of the points. A mean over nodes is then as fine as one over many points, at the price
    of few.

    >>> points, weights = shifted_rules(1, 16)
    >>> points.shape, [round(float(np.mean(np.sum(weights * (points[0] > rise), axis=0))), 2) for rise in (0.0, 1.0)]
    ((1, 9, 16), [0.5, 0.16])
    """
    fine = FINE_POINTS_PER_AXIS.get(dimension)
    if fine is None:
        points, weights = normal_rule(dimension)
        return np.repeat(points.T[:, :, None], num_nodes, axis=2), np.repeat(weights[:, None], num_nodes, axis=1)
    per_axis = max(FEWEST_PER_AXIS, round(fine / num_nodes ** (1 / dimension)))
    ticks = np.linspace(-REACH, REACH, per_axis)
    grid = np.array(list(itertools.product(ticks, repeat=dimension))).T[:, :, None]
    shifts = even_points(num_nodes, dimension).T - 0.5
    points = grid + (ticks[1] - ticks[0]) * shifts[:, None]
    weights = np.exp(-0.5 * np.sum(points**2, axis=0))
    return points, weights / np.sum(weights, axis=0)

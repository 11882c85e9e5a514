"""A log density on a tensor grid, read between its nodes: quantiles and draws.

Between the nodes the *logarithm* is interpolated by a spline, which is exact for a Gaussian and right in the tails.
Quantiles and draws use a finer grid filled by that spline, on which the density itself can be integrated by a second
one.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import jax
import numpy as np
from jaxtyping import Float
from scipy.interpolate import CubicSpline, RectBivariateSpline, make_interp_spline
from scipy.optimize import brentq

from paramfilter.references.theta_grid import Frame, mesh
from paramfilter.types import KeyArray

REFINEMENT = {1: 32, 2: 8}
"""How much finer the filled grid is, by the number of coordinates. A draw is uniform within a fine cell: with 65 nodes
on 18 posterior sds its variance is 1e-5 (one coordinate) or 1e-4 (two) too large, as a share."""
SPLINE_DEGREE = 5
ROOT_TOLERANCE = 1e-14
LOG_SMALLEST = -700.0
"""Density zero, for a spline: e^-700 is the edge of float64."""


@dataclass(frozen=True, eq=False)
class Surface:
    """A normalised log density in the box coordinates u of a frame, at its nodes."""

    frame: Frame
    log_density: Float[np.ndarray, " node"]

    def quantile(self, coordinate: int, share: float) -> float:
        """Return the quantile of one grid coordinate v."""
        corners = self.frame.to_v(mesh([np.array(ends) for ends in zip(self.frame.low, self.frame.high, strict=True)]))
        low, high = corners[:, coordinate].min(), corners[:, coordinate].max()
        total = self._cumulative(coordinate, high)
        root: Any = brentq(lambda v: self._cumulative(coordinate, v) / total - share, low, high, xtol=ROOT_TOLERANCE)
        return float(root)

    def sample(self, key: KeyArray, num_draws: int) -> Float[np.ndarray, "draw param"]:
        """Draw grid coordinates v."""
        key_cell, key_within = jax.random.split(key)
        ticks, density = self._fine
        cumulative = np.cumsum(density.ravel())
        uniform = np.asarray(jax.random.uniform(key_cell, (num_draws,)))
        cell = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
        within = np.asarray(jax.random.uniform(key_within, (num_draws, len(ticks)))) - 0.5
        spacing = np.array([axis[1] - axis[0] for axis in ticks])
        return self.frame.to_v(mesh(ticks)[np.minimum(cell, density.size - 1)] + within * spacing)

    @cached_property
    def _spline(self) -> Any:
        values = np.maximum(self.log_density, LOG_SMALLEST)
        if len(self.frame.ticks) == 1:
            return make_interp_spline(self.frame.ticks[0], values, k=SPLINE_DEGREE)
        first, second = self.frame.ticks
        table = values.reshape(len(first), len(second))
        return RectBivariateSpline(first, second, table, kx=SPLINE_DEGREE, ky=SPLINE_DEGREE)

    @cached_property
    def _fine(self) -> tuple[list[np.ndarray], np.ndarray]:
        dimension = len(self.frame.ticks)
        num_points = REFINEMENT[dimension] * (self.frame.num_nodes - 1) + 1
        ticks = [np.linspace(axis[0], axis[-1], num_points) for axis in self.frame.ticks]
        return ticks, np.exp(self._spline(*ticks))

    def _cumulative(self, coordinate: int, v: float) -> float:
        """Return the unnormalised distribution function of one grid coordinate.

        With triangular axes the first coordinate of v depends on u_1 only. For the second, v_2 <= v is u_2 <= t(u_1) in
        each column of the grid, and the columns are summed by the trapezoid rule.
        """
        ticks, _ = self._fine
        origin, axes = self.frame.origin, self.frame.axes
        if coordinate == 0:
            u = np.clip((v - origin[0]) / axes[0, 0], ticks[0][0], ticks[0][-1])
            return float(self._integrals[0](u))
        u = np.clip((v - origin[1] - axes[1, 0] * ticks[0]) / axes[1, 1], ticks[1][0], ticks[1][-1])
        return float(np.sum(np.diagonal(self._integrals[1](u))))

    @cached_property
    def _integrals(self) -> list:
        """Antiderivatives: of the first coordinate's marginal, and of each column along the second."""
        ticks, density = self._fine
        if len(ticks) == 1:
            return [CubicSpline(ticks[0], density).antiderivative()]
        return [
            CubicSpline(ticks[0], density.sum(axis=1)).antiderivative(),
            CubicSpline(ticks[1], density.T).antiderivative(),
        ]

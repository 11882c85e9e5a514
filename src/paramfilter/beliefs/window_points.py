"""The points of a window that values are held at, looked at and checked at, and the polynomial through the first.

- nodes: Chebyshev points, where a belief holds its values;
- grid: a fine uniform grid, for looking at a belief: its bulk, its integral, its distribution function;
- checks: a few points between the nodes, where the polynomial is held against the truth.

They are the same for all particles in window coordinates, so each kind is read off by one product with a fixed matrix.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.beliefs.accuracy import CheckPoints
from paramfilter.beliefs.window import Places, Window
from paramfilter.polynomials import (
    along_axes,
    chebyshev_points,
    interpolation_matrix,
    interpolation_row,
    midpoints,
    series_at,
    series_matrix,
)

GRID_POINTS = {1: 65, 2: 33}
"""Points of the grid a coordinate, by the number of coordinates."""

CHECK_PLACES = {1: (-0.62, -0.4, -0.18, 0.03, 0.22, 0.42, 0.6), 2: (-0.4, 0.03, 0.37)}
"""Where the approximation is checked; moved to a point halfway between nodes if one is near."""

NEAR = 0.12

INNER = 0.9
"""Beyond a window the polynomial goes on as the straight line through its end and this place."""


@dataclass(frozen=True, eq=False)
class WindowPoints:
    """All points of a window.

    Args:
        num_nodes: Nodes a coordinate.
    """

    num_nodes: tuple[int, ...]

    @property
    def dimension(self) -> int:
        """How many coordinates a window has."""
        return len(self.num_nodes)

    @cached_property
    def nodes(self) -> tuple[Places, ...]:
        """The nodes on each axis."""
        return tuple(Places(chebyshev_points(size)) for size in self.num_nodes)

    @cached_property
    def grid(self) -> Places:
        """The grid on each axis."""
        return Places(np.linspace(-1, 1, GRID_POINTS[self.dimension]))

    @cached_property
    def checks(self) -> CheckPoints:
        """The check points: all combinations of the wanted places."""
        wanted = CHECK_PLACES[self.dimension]
        axes = [[_nearest(midpoints(size), place) for place in wanted] for size in self.num_nodes]
        return CheckPoints(np.stack([np.ravel(axis) for axis in np.meshgrid(*axes, indexing="ij")], axis=1))

    def at_nodes(self, window: Window) -> Float[Array, "node param"]:
        """Return where the nodes lie."""
        return _product([window.at(axis, nodes) for axis, nodes in enumerate(self.nodes)])

    def at_grid(self, window: Window) -> Float[Array, "point param"]:
        """Return where the points of the grid lie."""
        return _product([window.at(axis, self.grid) for axis in range(self.dimension)])

    def at_checks(self, window: Window) -> Float[Array, "check param"]:
        """Return where the check points lie."""
        return jnp.stack([window.at(axis, places) for axis, places in enumerate(self._check_places)], axis=1)

    def interpolate(self, values: Float[Array, "..."], u: Float[Array, " param"]) -> Float[Array, ""]:
        """Return the polynomial through values at the nodes at one point."""
        for axis, size in enumerate(self.num_nodes):
            values = jnp.tensordot(interpolation_row(size, u[axis]), values, axes=(0, 0))
        return values

    def as_series(self, values: Float[Array, "..."]) -> Float[Array, "..."]:
        """Return the coefficients of the polynomial through values at the nodes, for `series_at`."""
        return along_axes(tuple(jnp.asarray(series_matrix(size), values.dtype) for size in self.num_nodes), values)

    def series_at(self, window: Window, series: Float[Array, "..."], z: Float[Array, " param"]) -> Float[Array, ""]:
        """Return a polynomial at one z; straight lines beyond the window."""
        for axis in range(self.dimension):
            series = _series_at(series, window.axis(axis), z[axis][None])
        return series

    def interpolate_at_checks(self, values: Float[Array, "..."]) -> Float[Array, " check"]:
        """Return the polynomial through values at the nodes at the check points."""
        return jnp.asarray(self._check_rows, values.dtype) @ jnp.ravel(values)

    def to_grid(self, dtype) -> tuple[Float[Array, "point node"], ...]:
        """Return matrices from values at the nodes to the polynomial on the grid, one for each axis."""
        return tuple(jnp.asarray(interpolation_matrix(size, self.grid.u), dtype) for size in self.num_nodes)

    def lines_to_grid(self, dtype) -> tuple[Float[Array, "point node"], ...]:
        """Return matrices for looking where a belief lies: straight lines between the nodes.

        The polynomial through a peak that the nodes do not resolve ripples; the values at the nodes tell the truth.
        """
        lines = lambda nodes: np.stack([np.interp(self.grid.u, nodes.u, unit) for unit in np.eye(len(nodes.u))], 1)
        return tuple(jnp.asarray(lines(nodes), dtype) for nodes in self.nodes)

    def transfers(self, old: Window, new: Window) -> tuple[Float[Array, "node node"], ...]:
        """Return matrices from values at the nodes of one window to those of another, one for each axis."""
        return tuple(_transfer(size, old.axis(axis), new.axis(axis)) for axis, size in enumerate(self.num_nodes))

    @cached_property
    def _check_rows(self) -> np.ndarray:
        """The weights of all nodes in the interpolant at each check point."""
        places, rows = self.checks.places, np.ones((self.checks.size, 1))
        for axis, size in enumerate(self.num_nodes):
            own = interpolation_matrix(size, places[:, axis])
            rows = (rows[:, :, None] * own[:, None, :]).reshape(len(places), -1)
        return rows

    @cached_property
    def _check_places(self) -> tuple[Places, ...]:
        return tuple(Places(column) for column in self.checks.places.T)


def _nearest(points: np.ndarray, place: float) -> float:
    distances = np.abs(points - place)
    return float(points[np.argmin(distances)]) if np.min(distances) < NEAR else place


def _product(axes: list[Float[Array, " _"]]) -> Float[Array, "point param"]:
    """Return all points whose coordinates come from the axes, the last one running fastest."""
    return jnp.stack([jnp.ravel(axis) for axis in jnp.meshgrid(*axes, indexing="ij")], axis=1)


def _transfer(size: int, old: Window, new: Window) -> Float[Array, "node node"]:
    """Return the matrix from values on one axis' window to values on another's; straight lines beyond the old one."""

    def row(u):
        beyond, inside, end = _place(old, new.to_z(u[None]))
        at_end, before = interpolation_row(size, inside), interpolation_row(size, INNER * end)
        return at_end + beyond * (at_end - before)

    return jax.vmap(row)(jnp.asarray(chebyshev_points(size), old.center.dtype))


def _series_at(series: Float[Array, "order *other"], window: Window, z: Float[Array, " 1"]) -> Float[Array, "*other"]:
    """Return a series along the first axis at z; a straight line beyond the window."""
    beyond, inside, end = _place(window, z)
    # These do not depend on z, so that they are found once for many.
    lower, upper = (series_at(series, jnp.asarray(place, series.dtype)) for place in (-INNER, INNER))
    at_end = series_at(series, inside)
    return at_end + beyond * (at_end - jnp.where(end > 0, upper, lower))


def _place(window: Window, z: Float[Array, " 1"]):
    """Return how far z lies beyond the window (0 inside), the nearest place inside, and the end that is nearer."""
    place, end = window.to_u(z)[0], jnp.sign(z - window.center)[0]
    half_width, inner = window.half_width[0], (window.to_z(jnp.asarray([INNER], z.dtype)) - window.center)[0]
    outside = jnp.abs(z - window.center)[0] - half_width
    return jnp.maximum(outside, 0.0) / (half_width - inner), jnp.clip(place, -1.0, 1.0), end

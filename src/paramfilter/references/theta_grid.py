"""Where to put the nodes of theta: a window that is found by zooming, in one or two coordinates.

The trapezoid rule converges faster than any power of the spacing for a smooth density that has died away at both ends
of its window. So all the work is in the window:

1. *Coordinates.* z = center + scale sinh(v), with the median and half the interquartile range of the prior. A density
   as heavy as Cauchy's decays exponentially in v; near the center the map is linear.
2. *A frame.* v = origin + axes u with a triangular matrix `axes`, so that a correlated posterior is round in u. The
   nodes are a uniform tensor grid in u.
3. *Zoom.* Start with twelve robust prior sds on each side. While so few nodes carry the posterior that its moments
   cannot be trusted, flatten it, density^beta with beta < 1, until enough do; center and scale the next frame by the
   moments of the flattened density. As soon as beta = 1 serves, the window is the box around all nodes within 40 nats
   of the maximum; it grows where such a node lies on its border. Stop when the next window would be hardly smaller.

L. N. Trefethen and J. A. C. Weideman, The exponentially convergent trapezoidal rule, SIAM Review 56 (2014).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Real
from scipy.special import logsumexp

from paramfilter.errors import ModelError
from paramfilter.parameters import Parameters

NATS = 40.0
"""Depth of the window: what lies outside carries about e^-40 of the mass."""
PRIOR_DEVIATIONS = 12.0
NORMAL_QUARTILE = 0.6744897501960817
EFFECTIVE_NODES = 2.5
"""Per coordinate: with fewer nodes in the bulk the moments of the posterior are an artefact of the grid."""
FLATTENED_DEVIATIONS = 5.0
MIN_NODES = 11
"""A flattened window is 8 cells of the one before wide: with fewer nodes it would not shrink."""
FINAL_NODES = 6.0
"""The same in the end, where nodes may be added: a Gaussian in a window of 40 nats needs 33 nodes for it."""
GROWTH = 0.4
WORTHWHILE_SHRINKAGE = 0.7
"""A window is not made tighter for less: one that has just grown at a side would shrink by a factor of 1 / 1.4."""
MAX_PASSES = 60


@dataclass(frozen=True, eq=False)
class Coordinates:
    """The map from grid coordinates v to unconstrained coordinates z, fixed by the prior."""

    center: Float[np.ndarray, " param"]
    scale: Float[np.ndarray, " param"]

    def to_z(self, v: Float[np.ndarray, "... param"]) -> Float[np.ndarray, "... param"]:
        """Map grid coordinates to unconstrained coordinates."""
        return self.center + self.scale * np.sinh(v)

    def log_jacobian(self, v: Float[np.ndarray, "... param"]) -> Float[np.ndarray, "..."]:
        """Return log |dz/dv|."""
        log_cosh = np.logaddexp(v, -v) - np.log(2.0)
        return np.sum(np.log(self.scale) + log_cosh, axis=-1)


@dataclass(frozen=True, eq=False)
class Frame:
    """A box in u with v = origin + axes u, and a uniform tensor grid in it."""

    origin: Float[np.ndarray, " param"]
    axes: Float[np.ndarray, "param param"]
    low: Float[np.ndarray, " param"]
    high: Float[np.ndarray, " param"]
    num_nodes: int

    @property
    def ticks(self) -> list[Float[np.ndarray, " node"]]:
        """The nodes of each axis."""
        return [np.linspace(low, high, self.num_nodes) for low, high in zip(self.low, self.high, strict=True)]

    @property
    def nodes(self) -> Float[np.ndarray, "node param"]:
        """All nodes in grid coordinates v, the last axis running fastest."""
        return self.to_v(mesh(self.ticks))

    @property
    def cell(self) -> Float[np.ndarray, "param param"]:
        """The steps from a node to its neighbours in v, as columns."""
        return self.axes * (self.high - self.low) / (self.num_nodes - 1)

    @property
    def log_cell(self) -> float:
        """The log volume, in v, that one node stands for."""
        return float(np.sum(np.log(np.diagonal(self.cell))))

    @property
    def log_volume(self) -> float:
        """The log volume of the window in v."""
        return float(np.sum(np.log(self.high - self.low)) + np.sum(np.log(np.diagonal(self.axes))))

    def to_v(self, u: Float[np.ndarray, "... param"]) -> Float[np.ndarray, "... param"]:
        """Map box coordinates to grid coordinates."""
        return self.origin + u @ self.axes.T

    def from_v(self, v: Float[np.ndarray, "... param"]) -> Float[np.ndarray, "... param"]:
        """Map grid coordinates to box coordinates."""
        return np.linalg.solve(self.axes, (v - self.origin)[..., None])[..., 0]

    def grown(self, at_low: Bool[np.ndarray, " param"], at_high: Bool[np.ndarray, " param"]) -> Frame:
        """Return a box grown at the sides named."""
        growth = GROWTH * (self.high - self.low)
        return replace(self, low=self.low - growth * at_low, high=self.high + growth * at_high)

    def halved_spacing(self) -> Frame:
        """Return the same window with a node between each two."""
        return replace(self, num_nodes=2 * self.num_nodes - 1)


def mesh(ticks: list[np.ndarray]) -> Real[np.ndarray, "node param"]:
    """Return all points of a tensor grid, the last axis running fastest."""
    return np.stack([axis.ravel() for axis in np.meshgrid(*ticks, indexing="ij")], axis=-1)


def prior_coordinates(parameters: Parameters) -> Coordinates:
    """Return coordinates that suit the center and the spread of the prior."""
    lower, center, upper = np.quantile(parameters.prior_draws, [0.25, 0.5, 0.75], axis=0)
    return Coordinates(center, 0.5 * (upper - lower))


def prior_frame(dimension: int, num_nodes: int) -> Frame:
    """Return the window of the first, coarse pass: the bulk of the prior and far beyond."""
    if num_nodes < MIN_NODES:
        raise ModelError(f"num_nodes={num_nodes} is too few to find the posterior of theta; give {MIN_NODES} or more.")
    reach = np.full(dimension, np.arcsinh(PRIOR_DEVIATIONS / NORMAL_QUARTILE))
    return Frame(np.zeros(dimension), np.eye(dimension), -reach, reach, num_nodes)


def log_prior_of(
    parameters: Parameters, coordinates: Coordinates
) -> Callable[[Float[np.ndarray, "node param"]], Float[np.ndarray, " node"]]:
    """Return the log density of the prior in grid coordinates, for many points at once."""
    in_z: Callable[[Array], Array] = jax.jit(jax.vmap(parameters.log_prior))

    def log_prior(v):
        return np.asarray(in_z(jnp.asarray(coordinates.to_z(v)))) + coordinates.log_jacobian(v)

    return log_prior


def zoom(
    log_density: Callable[[Float[np.ndarray, "node param"]], Float[np.ndarray, " node"]],
    frame: Frame,
    *,
    free_nodes: bool = False,
    nats: float = NATS,
) -> Frame:
    """Find the window in which the density lives.

    Args:
        log_density: The unnormalised log density in v at many points; NaN counts as zero density.
        frame: Where to start.
        free_nodes: Whether nodes may be added in the end, where long tails leave few of them to the bulk.
        nats: How far below the maximum the window reaches.

    Returns:
        A frame whose border lies `nats` below the maximum; `log_density` was last called at its nodes.
    """
    dimension = len(frame.origin)
    flatten = True
    for _ in range(MAX_PASSES):
        scores = zero_where_nan(log_density(frame.nodes))
        summit = _open_sides(frame, scores == np.max(scores))
        if np.any(summit):
            # go there first: frames that shrink around a border never reach what lies beyond it
            frame = frame.grown(*summit)
            continue
        if flatten:
            beta = _flattening(scores, EFFECTIVE_NODES**dimension)
            if beta < 1.0:
                frame = _flattened_frame(frame, scores, beta)
                continue
            # the posterior has shown itself; were it flattened again, long tails would send us back and forth
            flatten = False
        inside = scores >= np.max(scores) - nats
        open_low, open_high = _open_sides(frame, inside)
        tight = _tight_frame(frame, scores, inside)
        if np.any(open_low | open_high):
            frame = frame.grown(open_low, open_high)
        elif tight.log_volume < frame.log_volume + np.log(WORTHWHILE_SHRINKAGE):
            frame = tight
        elif free_nodes and _effective_nodes(scores, 1.0) < FINAL_NODES**dimension:
            frame = frame.halved_spacing()
        else:
            return frame
    raise ModelError(
        f"the posterior of theta has no window: after {MAX_PASSES} passes its density still does not fall {nats:.0f} "
        "nats below its maximum on all sides. Is the posterior improper, or the prior far from the data? Use a "
        "lighter-tailed prior."
    )


def zero_where_nan(scores: Float[np.ndarray, " node"]) -> Float[np.ndarray, " node"]:
    """Give zero density to nodes at which the model returns NaN, and refuse a density that is zero everywhere."""
    scores = np.where(np.isnan(scores), -np.inf, scores)
    if not np.any(np.isfinite(scores)) or np.any(np.isposinf(scores)):
        raise ModelError(
            "the likelihood is zero, infinite or NaN at every node of theta. Can the model produce these ys at all? "
            "Check the supports of its distributions and the units of ys."
        )
    return scores


def _flattened_frame(frame: Frame, scores: Float[np.ndarray, " node"], beta: float) -> Frame:
    reach = np.full(len(frame.origin), FLATTENED_DEVIATIONS)
    return Frame(*_moments(frame, scores, beta), -reach, reach, frame.num_nodes)


def _tight_frame(frame: Frame, scores: Float[np.ndarray, " node"], inside: Bool[np.ndarray, " node"]) -> Frame:
    """Return the box around the nodes inside the window, along the axes of the posterior's covariance."""
    origin, axes = _moments(frame, scores, beta=1.0)
    where = np.linalg.solve(axes, (frame.nodes[inside] - origin).T).T
    # one cell more on each side, as seen in the new frame: the density leaves the window between two nodes
    cell = np.sum(np.abs(np.linalg.solve(axes, frame.cell)), axis=1)
    return Frame(origin, axes, where.min(axis=0) - cell, where.max(axis=0) + cell, frame.num_nodes)


def _open_sides(
    frame: Frame, inside: Bool[np.ndarray, " node"]
) -> tuple[Bool[np.ndarray, " param"], Bool[np.ndarray, " param"]]:
    """Tell at which sides of the box a border node is still inside the window."""
    indices = mesh([np.arange(frame.num_nodes)] * len(frame.origin))[inside]
    return np.any(indices == 0, axis=0), np.any(indices == frame.num_nodes - 1, axis=0)


def _moments(
    frame: Frame, scores: Float[np.ndarray, " node"], beta: float
) -> tuple[Float[np.ndarray, " param"], Float[np.ndarray, "param param"]]:
    """Return mean and Cholesky factor of the covariance of density^beta."""
    points, weights = frame.nodes, _tempered(scores, beta)
    mean = weights @ points
    centerd = points - mean
    # a node stands for a cell, and the cell has a variance: one node alone still makes a frame
    covariance = (centerd * weights[:, None]).T @ centerd + frame.cell @ frame.cell.T / 12.0
    return mean, np.linalg.cholesky(covariance)


def _flattening(scores: Float[np.ndarray, " node"], wanted: float) -> float:
    """Return the largest beta <= 1 for which density^beta spreads over the wanted number of nodes."""
    if _effective_nodes(scores, 1.0) >= wanted:
        return 1.0
    low, high = -100.0, 0.0
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _effective_nodes(scores, np.exp(middle)) >= wanted else (low, middle)
    return float(np.exp(low))


def _tempered(scores: Float[np.ndarray, " node"], beta: float) -> Float[np.ndarray, " node"]:
    flattened = beta * scores
    return np.exp(flattened - np.asarray(logsumexp(flattened)))


def _effective_nodes(scores: Float[np.ndarray, " node"], beta: float) -> float:
    return float(1.0 / np.sum(_tempered(scores, beta) ** 2))

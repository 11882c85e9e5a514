"""Coordinates for polynomials: u = (z - center) / scale, in units of the prior, and a window that holds its bulk."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.parameters import Parameters
from paramfilter.tracing import evaluate

WINDOW = 16.0
"""Half width of the window in which theta is drawn, in robust standard deviations of the prior."""

NORMAL_IQR = 1.349
"""Interquartile range of a standard normal: turns quartiles into a robust standard deviation."""


@dataclass(frozen=True, eq=False)
class Coordinates:
    """Center and scale of the expansion, and the window in z."""

    center: np.ndarray
    scale: np.ndarray
    window: tuple[np.ndarray, np.ndarray]

    def to_u(self, z: Float[Array, " param"]) -> Float[Array, " param"]:
        """Map unconstrained coordinates to those of the polynomial."""
        return (z - jnp.asarray(self.center, z.dtype)) / jnp.asarray(self.scale, z.dtype)

    def to_z(self, u: Float[Array, " param"]) -> Float[Array, " param"]:
        """Map the polynomial's coordinates back."""
        return jnp.asarray(self.center, u.dtype) + jnp.asarray(self.scale, u.dtype) * u


def coordinates_for(parameters: Parameters, center: float | Mapping[str, float] | None) -> Coordinates:
    """Choose coordinates for a prior.

    Args:
        parameters: The unknowns.
        center: Where to expand, on the natural scale: a dict by name, one number for a single parameter, or None for
            the median of the prior.
    """
    low, median, high = np.quantile(parameters.prior_draws, [0.25, 0.5, 0.75], axis=0)
    scale = (high - low) / NORMAL_IQR
    middle = _exact_median(parameters, median)
    if center is None:
        point = middle
    else:
        named = center if isinstance(center, Mapping) else dict.fromkeys(parameters.names, center)
        point = np.asarray(parameters.unconstrain(named), np.float64)
    return Coordinates(point, scale, (middle - WINDOW * scale, middle + WINDOW * scale))


def prior_hull(parameters: Parameters, depth: float, num_points: int = 513) -> tuple[np.ndarray, np.ndarray]:
    """Return corners of a box that holds the prior down to `depth` nats below its top, and all its draws."""
    coordinates = coordinates_for(parameters, None)
    low, high = np.min(parameters.prior_draws, axis=0), np.max(parameters.prior_draws, axis=0)
    log_prior = jax.jit(jax.vmap(parameters.log_prior))
    for axis in range(parameters.dimension):
        points = np.repeat(coordinates.center[None], num_points, axis=0)
        points[:, axis] = np.linspace(coordinates.window[0][axis], coordinates.window[1][axis], num_points)
        scores = np.asarray(log_prior(points.astype(jnp.result_type(float))))
        kept = points[scores > np.nanmax(scores) - depth, axis]
        low[axis], high[axis] = min(low[axis], kept[0]), max(high[axis], kept[-1])
    return low, high


def _exact_median(parameters: Parameters, sampled: np.ndarray) -> np.ndarray:
    """Return the prior's median where it has a quantile function, else the median of the draws.

    The bijectors of scalars are monotone, so the median maps to the median.
    """
    median = sampled.copy()
    for name, distribution in parameters.prior.items():
        if distribution.event_shape != ():
            continue
        invert = parameters.bijectors[name].inv
        try:
            found = evaluate(lambda level, law=distribution, to_z=invert: to_z(law.icdf(level)), np.float32(0.5))
        except (NotImplementedError, AttributeError, ImportError):  # some quantiles need an optional package
            continue
        unconstrained = np.ravel(np.broadcast_to(np.asarray(found, np.float64), distribution.shape()))
        if np.all(np.isfinite(unconstrained)):
            median[parameters.slices[name]] = unconstrained
    return median

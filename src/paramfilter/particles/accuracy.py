"""How far an approximate belief has strayed from the exact one, measured while it runs.

A belief keeps a few **check points** in its bulk that play no part in the approximation. With each datum it adds to
the **miss** of each check point what the approximate log density gained there, minus what the model's own log density
gained. The misses of one moment, centered and averaged over the bulk, are the standard deviation of log(q/p): the
error in nats. For a small error e the divergence KL(p || q) is e^2 / 2, and no mean is off by more than e posterior
standard deviations.

When the bulk moves, so do the check points. The misses are carried over as a quadratic in each coordinate, fitted to
the old ones, plus what the fit leaves at the nearest ones: good enough for a number that is to be right within a small
factor.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

ERROR_LIMIT = 0.5
"""Nats above which a belief is called inaccurate: its mean may be off by half a standard deviation."""

CAUTION = 2.0
"""What is seen at a few points is multiplied by this: errors are larger between them and in the tails."""

FLATNESS = 0.25
"""Power of the densities by which check points are weighed."""

ALONE = 0.999
"""Weight of one check point above which the others say nothing."""

REACH = 1.5
"""How far beyond the old check points, in units of their largest coordinate, the fit is trusted."""

NEAR = 1e-3
"""Squared distance, in units of the reach, at which one old check point outweighs all others."""


@dataclass(frozen=True, eq=False)
class CheckPoints:
    """Where the approximation is checked, in coordinates that follow the belief.

    Args:
        places: The points in those coordinates.
    """

    places: np.ndarray

    @property
    def size(self) -> int:
        """How many there are."""
        return len(self.places)

    @cached_property
    def _fit(self) -> np.ndarray:
        return np.linalg.pinv(np.concatenate(_features(np.asarray(self.places, np.float64)), axis=1))

    def carry(self, misses: Float[Array, " check"], places: Float[Array, "check param"]) -> Float[Array, " check"]:
        """Return the misses at new points, given where those lie in the old coordinates."""
        reach = REACH * float(np.max(np.abs(self.places)))
        places, old_places = jnp.clip(places, -reach, reach), jnp.asarray(self.places, misses.dtype)
        coefficients = jnp.asarray(self._fit, misses.dtype) @ misses
        fitted = lambda points: jnp.concatenate(_features(points), axis=1) @ coefficients
        rest = misses - fitted(old_places)
        distances = jnp.sum((places[:, None] - old_places[None]) ** 2, axis=2) / reach**2
        nearness = 1.0 / (distances + NEAR) ** 2
        return fitted(places) + nearness @ rest / jnp.sum(nearness, axis=1)


def star_points(dimension: int) -> CheckPoints:
    """Return the center and two points on each axis, in standard deviations; more of them in one dimension."""
    steps = (0.6, 1.25) if dimension == 1 else (1.25,)
    axes = np.concatenate([sign * step * np.eye(dimension) for step in steps for sign in (-1.0, 1.0)])
    return CheckPoints(np.concatenate([np.zeros((1, dimension)), axes]))


def error_over_bulk(misses: Float[Array, " check"], log_density: Float[Array, " check"]) -> Float[Array, ""]:
    """Return the error of a belief in nats: the spread of the misses under it, or infinity if one is not a number.

    Check points count by the belief's density and, as much, by what the exact density would be there: a belief that
    has left for a mode of its own is not judged by itself alone. Both are flattened, so that a few points which happen
    to lie far out in the belief still say something.
    """
    believed = jnp.where(jnp.isfinite(log_density), log_density, -jnp.inf)
    exact = jnp.where(jnp.isfinite(misses), believed - misses, -jnp.inf)
    weights = 0.5 * (jax.nn.softmax(FLATNESS * believed) + jax.nn.softmax(FLATNESS * exact))
    centered = misses - jnp.sum(weights * misses)
    error = CAUTION * jnp.sqrt(jnp.sum(weights * centered**2))
    # A belief that is nowhere near its check points, or at one of them only, has gone astray, however small the misses.
    is_near = (jnp.mean(jnp.isfinite(log_density)) > 0.5) & (jnp.max(weights) < ALONE)
    return jnp.where(is_near & jnp.all(jnp.isfinite(misses)), error, jnp.inf)


def _features(points):
    """Return 1, u and u^2 of each coordinate, as columns."""
    return [points[:, :1] * 0 + 1, points, points**2]

"""A window on the parameters that follows a belief: where its bulk lies, and how sharp its peak is.

On each coordinate of z, with u in [-1, 1],

    z = center + half_width * sinh(k u) / sinh(k).

The half width holds the bulk down to `DEPTH` nats below the peak. The sharpness k stretches the middle: 0 is a plain
window, and a large k gives a narrow peak between long tails (one Cauchy datum against a broad prior) most of the
points. It is chosen so that the core, `CORE_DEPTH` nats deep, takes the share `CORE` of the window: for a Gaussian
belief k is close to 0.

There are 48 levels of sharpness, so where fixed places such as nodes lie is looked up (`Places`): hyperbolic functions
at each node of each particle would take most of the time of a step.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

DEPTH = 14.0
"""Nats below the peak at which the window ends: a relative mass of about 1e-7."""

CORE_DEPTH = 1.0
CORE = 0.45

EDGE_DEPTH = 7.0
"""A belief within this many nats of its peak at the end of the window needs a wider one."""

WIDENING = 0.5
"""By how much of its half width a window grows on a side where it is too narrow."""

SHRINK = 0.7
SHARPEN = 1.5
"""A window is renewed when its width could shrink by the first factor, or its core by the second."""

SHARPNESS = np.concatenate([[0.01], np.geomspace(0.1, 12.0, 47)])
"""The levels of k."""

_LOG_RATIOS = np.log(np.sinh(SHARPNESS) / np.sinh(CORE * SHARPNESS))
_LEVEL_ENDS = (_LOG_RATIOS[1:] + _LOG_RATIOS[:-1]) / 2


@dataclass(frozen=True, eq=False)
class Places:
    """Fixed window coordinates on one axis, and where they lie at each level of sharpness.

    Args:
        u: The coordinates.
    """

    u: np.ndarray

    @cached_property
    def stretched(self) -> np.ndarray:
        """sinh(k u) / sinh(k), one row a level."""
        return np.sinh(SHARPNESS[:, None] * self.u) / np.sinh(SHARPNESS[:, None])

    @cached_property
    def log_slope(self) -> np.ndarray:
        """The logarithm of its derivative, one row a level."""
        return np.log(SHARPNESS[:, None] * np.cosh(SHARPNESS[:, None] * self.u) / np.sinh(SHARPNESS[:, None]))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Window:
    """A window on each coordinate; `level` counts in `SHARPNESS`."""

    center: Float[Array, " param"]
    half_width: Float[Array, " param"]
    level: Int[Array, " param"]

    @property
    def sharpness(self) -> Float[Array, " param"]:
        """k."""
        return jnp.asarray(SHARPNESS, self.center.dtype)[self.level]

    def axis(self, axis: int) -> Window:
        """Return the window on one coordinate alone."""
        return jax.tree.map(lambda part: part[axis][None], self)

    def at(self, axis: int, places: Places) -> Float[Array, " place"]:
        """Return the z of fixed places on one axis."""
        stretched = jnp.asarray(places.stretched, self.center.dtype)[self.level[axis]]
        return self.center[axis] + self.half_width[axis] * stretched

    def log_slope_at(self, axis: int, places: Places) -> Float[Array, " place"]:
        """Return log |dz / du| at fixed places on one axis."""
        slopes = jnp.asarray(places.log_slope, self.center.dtype)[self.level[axis]]
        return jnp.log(self.half_width[axis]) + slopes

    def to_z(self, u: Float[Array, " param"]) -> Float[Array, " param"]:
        """Map window coordinates to z."""
        return self.center + self.half_width * _sinh(self.sharpness * u) / _sinh(self.sharpness)

    def to_u(self, z: Float[Array, " param"]) -> Float[Array, " param"]:
        """Map z to window coordinates; beyond +-1 it lies outside."""
        return _arcsinh((z - self.center) / self.half_width * _sinh(self.sharpness)) / self.sharpness

    def log_stretch(self, u: Float[Array, " param"]) -> Float[Array, ""]:
        """Return log |dz / du|."""
        slope = self.half_width * self.sharpness * jnp.cosh(self.sharpness * u) / _sinh(self.sharpness)
        return jnp.sum(jnp.log(slope))

    @property
    def core(self) -> Float[Array, " param"]:
        """Half width of the part that is meant for the core of the belief."""
        return self.half_width * jnp.exp(-jnp.asarray(_LOG_RATIOS, self.center.dtype))[self.level]

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return self.center.shape[0]


def plain_window(low: np.ndarray, high: np.ndarray) -> Window:
    """Return a window without sharpness between two corners."""
    center, half_width = jnp.asarray((low + high) / 2, float), jnp.asarray((high - low) / 2, float)
    return Window(center, half_width, jnp.zeros(center.shape, jnp.int32))


def wanted_window(
    window: Window, grid: Places, profiles: Float[Array, "param point"], may_sharpen: bool = True
) -> tuple[Window, Bool[Array, ""]]:
    """Return the window that would suit a belief, and whether it is worth moving to.

    Args:
        window: The present window.
        grid: Points in [-1, 1], both ends included.
        profiles: For each coordinate, the largest log density over all others at the grid's points.
        may_sharpen: Whether a peak may be given more than its share of the points; a few points have none to spare.
    """
    fit = _fit_sharp if may_sharpen else _fit_plain
    fitted = [fit(window.axis(axis), grid, profiles[axis]) for axis in range(window.dimension)]
    suits = jax.tree.map(lambda *parts: jnp.concatenate(parts), *fitted)
    is_other = (
        (suits.half_width < SHRINK * window.half_width)
        | (suits.half_width > (1 + WIDENING / 4) * window.half_width)
        | (may_sharpen & (suits.core * SHARPEN < window.core))
        | (jnp.abs(suits.center - window.center) > window.core)
    )
    is_sound = jnp.all(jnp.isfinite(suits.center) & jnp.isfinite(suits.half_width) & (suits.half_width > 0))
    return suits, jnp.any(is_other) & is_sound


def _fit_plain(window: Window, grid: Places, profile: Float[Array, " point"]) -> Window:
    """Return a window without sharpness for one coordinate."""
    low, high = _bulk(window, grid, profile)
    return Window((low + high) / 2, (high - low) / 2, jnp.zeros_like(window.level))


def _fit_sharp(window: Window, grid: Places, profile: Float[Array, " point"]) -> Window:
    """Return a window for one coordinate, as sharp as it has to be."""
    low, high = _bulk(window, grid, profile)
    core_low, core_high = _around_peak(window, grid, profile)
    center = (core_low + core_high) / 2
    # A lopsided belief is given the wider of its two sides.
    reach = jnp.maximum(high - center, center - low)
    log_ratio = jnp.log(2 * reach / (core_high - core_low))
    level = jnp.sum(log_ratio[:, None] > jnp.asarray(_LEVEL_ENDS, log_ratio.dtype), axis=1, dtype=jnp.int32)
    return Window(center, reach, level)


def _bulk(window: Window, grid: Places, profile: Float[Array, " point"]):
    """Return the ends of the bulk, one cell wider, and pushed out where the window is too narrow to see them."""
    top, places = jnp.max(profile), np.arange(len(grid.u), dtype=np.int32)
    kept = profile > top - DEPTH
    # Masked minima and maxima: on a CPU they take a tenth of the time of argmax.
    first, last = jnp.min(jnp.where(kept, places, places[-1])), jnp.max(jnp.where(kept, places, 0))
    low = _z_of(window, grid, jnp.maximum(first - 1, 0))
    high = _z_of(window, grid, jnp.minimum(last + 1, places[-1]))
    low = jnp.where(profile[0] > top - EDGE_DEPTH, low - WIDENING * window.half_width, low)
    high = jnp.where(profile[-1] > top - EDGE_DEPTH, high + WIDENING * window.half_width, high)
    return low, high


def _around_peak(window: Window, grid: Places, profile: Float[Array, " point"]):
    """Return the ends of the core that holds the peak: another hump, if there is one, has to do with the tails."""
    top, places = jnp.max(profile), np.arange(len(grid.u), dtype=np.int32)
    peak = jnp.min(jnp.where(profile == top, places, places[-1]))
    is_below = profile <= top - CORE_DEPTH
    left = jnp.max(jnp.where(is_below & (places < peak), places, 0))
    right = jnp.min(jnp.where(is_below & (places > peak), places, places[-1]))
    return _z_of(window, grid, left), _z_of(window, grid, right)


def _z_of(window: Window, grid: Places, place: Int[Array, ""]) -> Float[Array, " 1"]:
    """Return the z of one of the fixed places of a single axis."""
    stretched = jnp.asarray(grid.stretched, window.center.dtype)[window.level, place]
    return window.center + window.half_width * stretched


def _sinh(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return sinh, also of small numbers, where exp(x) - exp(-x) cancels; XLA's own needs more instructions."""
    beyond = jnp.expm1(jnp.abs(x))
    return 0.5 * jnp.sign(x) * (beyond + beyond / (beyond + 1.0))


def _arcsinh(x: Float[Array, "..."]) -> Float[Array, "..."]:
    """Return the inverse of `_sinh`, to the same accuracy."""
    size = jnp.abs(x)
    return jnp.sign(x) * jnp.log1p(size + size * size / (1.0 + jnp.sqrt(size * size + 1.0)))

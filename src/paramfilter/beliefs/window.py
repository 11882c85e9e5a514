"""A window on the parameters that follows a belief: where its bulk lies, and how sharp its peak is.

On each coordinate of z, with u in [-1, 1],

    z = center + half_width * sinh(k u) / sinh(k).

The half width holds the bulk down to `DEPTH` nats below the peak. The sharpness k stretches the middle: 0 is a plain
window, and a large k gives a narrow peak between long tails (one Cauchy datum against a broad prior) most of the
points. It is chosen so that the core, `CORE_DEPTH` nats deep, takes the share `CORE` of the window: for a Gaussian
belief k is close to 0.
"""

from __future__ import annotations

from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

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
_LOG_RATIOS = np.log(np.sinh(SHARPNESS) / np.sinh(CORE * SHARPNESS))


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class Window:
    """A window on each coordinate."""

    center: Float[Array, " param"]
    half_width: Float[Array, " param"]
    sharpness: Float[Array, " param"]

    def to_z(self, u: Float[Array, " param"]) -> Float[Array, " param"]:
        """Map window coordinates to z."""
        return self.center + self.half_width * jnp.sinh(self.sharpness * u) / jnp.sinh(self.sharpness)

    def to_u(self, z: Float[Array, " param"]) -> Float[Array, " param"]:
        """Map z to window coordinates; beyond +-1 it lies outside."""
        return jnp.arcsinh((z - self.center) / self.half_width * jnp.sinh(self.sharpness)) / self.sharpness

    def log_stretch(self, u: Float[Array, " param"]) -> Float[Array, ""]:
        """Return log |dz / du|."""
        slope = self.half_width * self.sharpness * jnp.cosh(self.sharpness * u) / jnp.sinh(self.sharpness)
        return jnp.sum(jnp.log(slope))

    @property
    def core(self) -> Float[Array, " param"]:
        """Half width of the part that is meant for the core of the belief."""
        return self.half_width * jnp.sinh(CORE * self.sharpness) / jnp.sinh(self.sharpness)

    @property
    def dimension(self) -> int:
        """The number of coordinates."""
        return self.center.shape[0]


def plain_window(low: np.ndarray, high: np.ndarray) -> Window:
    """Return a window without sharpness between two corners."""
    center, half_width = jnp.asarray((low + high) / 2, float), jnp.asarray((high - low) / 2, float)
    return Window(center, half_width, jnp.full_like(center, SHARPNESS[0]))


def wanted_window(
    window: Window, grid: Float[Array, " point"], profiles: Float[Array, "param point"], may_sharpen: bool = True
) -> tuple[Window, Bool[Array, ""]]:
    """Return the window that would suit a belief, and whether it is worth moving to.

    Args:
        window: The present window.
        grid: Points in [-1, 1], both ends included.
        profiles: For each coordinate, the largest log density over all others at the grid's points.
        may_sharpen: Whether a peak may be given more than its share of the points; a few points have none to spare.
    """
    z = jax.vmap(lambda u: window.to_z(jnp.full_like(window.center, u)))(grid).T
    fitted = jax.vmap(_fit_sharp if may_sharpen else _fit_plain)(z, profiles, window.half_width)
    suits = Window(*fitted)
    is_other = (
        (suits.half_width < SHRINK * window.half_width)
        | (suits.half_width > (1 + WIDENING / 4) * window.half_width)
        | (may_sharpen & (suits.core * SHARPEN < window.core))
        | (jnp.abs(suits.center - window.center) > window.core)
    )
    is_sound = jnp.all(jnp.isfinite(jnp.stack(fitted))) & jnp.all(suits.half_width > 0)
    return suits, jnp.any(is_other) & is_sound


def _fit_plain(z: Float[Array, " point"], profile: Float[Array, " point"], half_width: Float[Array, ""]):
    """Return centre, half width and no sharpness for one coordinate."""
    low, high = _bulk(z, profile, half_width)
    return (low + high) / 2, (high - low) / 2, jnp.asarray(SHARPNESS[0], z.dtype)


def _bulk(z: Float[Array, " point"], profile: Float[Array, " point"], half_width: Float[Array, ""]):
    """Return the ends of the bulk, pushed out where the window is too narrow to see them."""
    top = jnp.max(profile)
    low, high = _hull(z, profile > top - DEPTH)
    low = jnp.where(profile[0] > top - EDGE_DEPTH, low - WIDENING * half_width, low)
    high = jnp.where(profile[-1] > top - EDGE_DEPTH, high + WIDENING * half_width, high)
    return low, high


def _fit_sharp(z: Float[Array, " point"], profile: Float[Array, " point"], half_width: Float[Array, ""]):
    """Return centre, half width and sharpness for one coordinate."""
    low, high = _bulk(z, profile, half_width)
    core_low, core_high = _around_peak(z, profile)
    center = (core_low + core_high) / 2
    # A lopsided belief is given the wider of its two sides.
    reach = jnp.maximum(high - center, center - low)
    log_ratio = jnp.log(2 * reach / (core_high - core_low))
    sharpness = jnp.interp(log_ratio, jnp.asarray(_LOG_RATIOS, z.dtype), jnp.asarray(SHARPNESS, z.dtype))
    return center, reach, sharpness


def _around_peak(
    z: Float[Array, " point"], profile: Float[Array, " point"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the ends of the core that holds the peak: another hump, if there is one, has to do with the tails."""
    peak, places = jnp.argmax(profile), jnp.arange(len(z))
    is_below = profile <= profile[peak] - CORE_DEPTH
    left = jnp.max(jnp.where(is_below & (places < peak), places, 0))
    right = jnp.min(jnp.where(is_below & (places > peak), places, len(z) - 1))
    return z[left], z[right]


def _hull(z: Float[Array, " point"], kept: Bool[Array, " point"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Return the ends of the kept points, one cell wider."""
    last = len(z) - 1
    first_kept, last_kept = jnp.argmax(kept), last - jnp.argmax(kept[::-1])
    return z[jnp.maximum(first_kept - 1, 0)], z[jnp.minimum(last_kept + 1, last)]

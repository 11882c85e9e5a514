"""A 90 % band from a mean and a standard deviation that stays within the parameter's support.

The store keeps mean and sd of each step, not quantiles. The band holds the 5 % and 95 % quantiles of the distribution
that has this mean and sd on the support: a normal on the real line, a gamma above (or below) one bound, a beta between
two bounds.

>>> low, high = band_within([0.1], [0.2], (0.0, float("inf")))
>>> bool(0 <= low[0] < 0.1 < high[0])
True
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from scipy import special

LEVELS = (0.05, 0.95)

WIDEST = 0.999
"""Largest share of the variance that two bounds allow; at 1 all mass lies on the bounds, and there is no such beta."""


def band_within(
    means: Sequence[float], sds: Sequence[float], bounds: tuple[float, float]
) -> tuple[Float[np.ndarray, " time"], Float[np.ndarray, " time"]]:
    """Return the lower and the upper end of the band at each step.

    Args:
        means: Posterior means.
        sds: Posterior standard deviations; where one is 0, the band is the mean.
        bounds: The ends of the support; infinite where it has none.
    """
    mean, sd = np.asarray(means, float), np.asarray(sds, float)
    low, high = bounds
    with np.errstate(all="ignore"):  # NaN and degenerate steps are replaced below
        if math.isfinite(low) and math.isfinite(high):
            width = high - low
            ends = [low + width * end for end in _beta((mean - low) / width, sd / width)]
        elif math.isfinite(low):
            ends = [low + end for end in _gamma(mean - low, sd)]
        elif math.isfinite(high):
            ends = [high - end for end in reversed(_gamma(high - mean, sd))]
        else:
            ends = [mean + special.ndtri(level) * sd for level in LEVELS]
    lower, upper = (np.where((sd > 0) & np.isfinite(end), end, mean) for end in ends)
    return np.clip(lower, low, high), np.clip(upper, low, high)


def _gamma(mean: np.ndarray, sd: np.ndarray) -> list[np.ndarray]:
    shape = (mean / sd) ** 2
    return [special.gammaincinv(shape, level) * sd**2 / mean for level in LEVELS]


def _beta(mean: np.ndarray, sd: np.ndarray) -> list[np.ndarray]:
    share = np.minimum(sd**2 / (mean * (1 - mean)), WIDEST)
    total = 1 / share - 1
    return [special.betaincinv(mean * total, (1 - mean) * total, level) for level in LEVELS]

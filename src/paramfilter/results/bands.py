"""Intervals from a mean and a standard deviation that stay inside a parameter's bounds.

A history keeps two numbers for each parameter and step. On the real line the interval is that of a Gaussian; with one
bound, that of a log-normal with the same mean and sd, measured from the bound; with two, that of a logit-normal whose
sd is carried over by the slope at the mean. Good for a picture; `Posterior.quantile` has the real ones of a moment.

>>> low, high = band(1.0, 1.0, 0.9, lower=0.0)
>>> round(float(low), 2), round(float(high), 2)
(0.18, 2.78)
"""

from __future__ import annotations

import numpy as np
from jaxtyping import Shaped
from scipy.special import expit, logit, ndtri

Numbers = float | np.floating | Shaped[np.ndarray, "..."]


def band(
    mean: Numbers, sd: Numbers, level: Numbers, lower: float = -np.inf, upper: float = np.inf
) -> tuple[Numbers, Numbers]:
    """Return the ends of the central interval of a level."""
    mean, sd = np.asarray(mean, float), np.asarray(sd, float)
    reach = ndtri(0.5 + np.asarray(level) / 2)
    if np.isfinite(lower) and np.isfinite(upper):
        share = np.clip((mean - lower) / (upper - lower), 1e-9, 1 - 1e-9)
        spread = reach * sd / (upper - lower) / (share * (1 - share))
        ends = [expit(logit(share) + side * spread) for side in (-1, 1)]
        return lower + (upper - lower) * ends[0], lower + (upper - lower) * ends[1]
    if np.isfinite(upper):
        low, high = band(-mean, sd, level, lower=-upper)
        return -high, -low
    if np.isfinite(lower):
        distance = np.maximum(mean - lower, np.finfo(float).tiny)
        variance = np.log1p((sd / distance) ** 2)
        center = np.log(distance) - variance / 2
        return lower + np.exp(center - reach * np.sqrt(variance)), lower + np.exp(center + reach * np.sqrt(variance))
    return mean - reach * sd, mean + reach * sd

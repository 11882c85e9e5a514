"""Priors of one parameter, three times each: for SciPy, for the library, and as an unconstrained coordinate.

References use the density and the quantiles of SciPy. Models use the distribution of numpyro. Importance sampling runs
in a coordinate z on the whole real line:

| support | natural value | log |d value / dz| |
|---|---|---|
| real line | z | 0 |
| positive | exp(z) | z |
| interval (a, b) | a + (b - a) / (1 + exp(-z)) | log(b - a) + z - 2 log(1 + exp(z)) |

>>> half = half_normal(0.5)
>>> z = np.array([-1.0, 0.0])
>>> bool(np.allclose(half.coordinate(half.natural(z)), z))
True
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpyro.distributions as dist
from scipy import special, stats

LEAST_TAIL = 1e-12
"""Quantiles stop here, so that the coordinate of a Sobol point on the edge of the unit cube is finite."""


@dataclass(frozen=True)
class Prior:
    """A distribution of one parameter.

    Args:
        frozen: The frozen distribution of SciPy.
        numpyro: The same distribution for the library.
        low: The lower end of the support; -inf if there is none.
        high: The upper end of the support; inf if there is none.
    """

    frozen: Any
    numpyro: Any
    low: float = -np.inf
    high: float = np.inf

    def log_density(self, value: np.ndarray) -> np.ndarray:
        """Return the log density on the natural scale."""
        return self.frozen.logpdf(value)

    def quantile(self, level: np.ndarray) -> np.ndarray:
        """Return quantiles on the natural scale."""
        return self.frozen.ppf(np.clip(level, LEAST_TAIL, 1 - LEAST_TAIL))

    def natural(self, z: np.ndarray) -> np.ndarray:
        """Map the unconstrained coordinate to the natural scale."""
        if np.isinf(self.low):
            return z
        if np.isinf(self.high):
            return self.low + np.exp(z)
        return self.low + (self.high - self.low) * special.expit(z)

    def coordinate(self, value: np.ndarray) -> np.ndarray:
        """Map the natural scale to the unconstrained coordinate."""
        if np.isinf(self.low):
            return value
        if np.isinf(self.high):
            return np.log(value - self.low)
        return special.logit((value - self.low) / (self.high - self.low))

    def log_slope(self, z: np.ndarray) -> np.ndarray:
        """Return log |d value / dz|."""
        if np.isinf(self.low):
            return np.zeros_like(z)
        if np.isinf(self.high):
            return z
        return np.log(self.high - self.low) + special.log_expit(z) + special.log_expit(-z)


@dataclass(frozen=True)
class JointPrior:
    """Independent priors by name; arrays have the parameters of one draw in a row, in this order."""

    parts: Mapping[str, Prior]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parameters, in the order of the columns."""
        return tuple(self.parts)

    @property
    def numpyro(self) -> dict[str, Any]:
        """The priors as the library takes them."""
        return {name: prior.numpyro for name, prior in self.parts.items()}

    def log_density(self, thetas: np.ndarray) -> np.ndarray:
        """Return the log density of each row on the natural scale."""
        return np.sum([prior.log_density(column) for prior, column in self._columns(thetas)], axis=0)

    def quantile(self, levels: np.ndarray) -> np.ndarray:
        """Map points of the unit cube to the natural scale."""
        return np.stack([prior.quantile(column) for prior, column in self._columns(levels)], axis=1)

    def natural(self, z: np.ndarray) -> np.ndarray:
        """Map coordinates to the natural scale."""
        return np.stack([prior.natural(column) for prior, column in self._columns(z)], axis=1)

    def coordinate(self, thetas: np.ndarray) -> np.ndarray:
        """Map the natural scale to coordinates."""
        return np.stack([prior.coordinate(column) for prior, column in self._columns(thetas)], axis=1)

    def log_density_of_coordinate(self, z: np.ndarray) -> np.ndarray:
        """Return the log density of each row of coordinates."""
        log_slopes = [prior.log_slope(column) for prior, column in self._columns(z)]
        return self.log_density(self.natural(z)) + np.sum(log_slopes, axis=0)

    def _columns(self, rows: np.ndarray) -> list[tuple[Prior, np.ndarray]]:
        return list(zip(self.parts.values(), rows.T, strict=True))


def normal(mean: float, sd: float) -> Prior:
    return Prior(stats.norm(mean, sd), dist.Normal(mean, sd))


def log_normal(log_median: float, log_sd: float) -> Prior:
    return Prior(stats.lognorm(log_sd, scale=np.exp(log_median)), dist.LogNormal(log_median, log_sd), 0.0)


def half_normal(scale: float) -> Prior:
    return Prior(stats.halfnorm(scale=scale), dist.HalfNormal(scale), 0.0)


def uniform(low: float, high: float) -> Prior:
    return Prior(stats.uniform(low, high - low), dist.Uniform(low, high), low, high)


def beta(a: float, b: float) -> Prior:
    return Prior(stats.beta(a, b), dist.Beta(a, b), 0.0, 1.0)

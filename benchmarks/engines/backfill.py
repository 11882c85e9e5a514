"""What a backfill costs in an engine: `python -m benchmarks.engines.backfill fleet|spark|ray [--series 200000]`.

Fifty observations of each series, in Parquet files that each hold all series at some times, as a log would be kept.
The engine brings the events of a series together, advances, writes the first version of the states, and a file of the
posteriors after the last observation. `fleet` is `Fleet.run` on arrays in memory, a few thousand series at a time, with
nothing read, shuffled or written. Rows are kept in `results/engine_backfills.json`.
"""

from __future__ import annotations

import argparse
import functools
import json
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
from pyarrow import parquet

import paramfilter as pf
from benchmarks.engines.fleet import FILTERS, events, make_versions, table
from benchmarks.footprint import Footprint
from benchmarks.tables import put_row

FILTER = "Kalman nodes, 32, 64 kept"
NUM_TIMES, TIMES_A_FILE = 50, 5
AT_ONCE = 4096
"""Series that `Fleet.run` takes at a time, as many as `advance` does."""
HEADING = {"units": "seconds; series-steps a CPU second of all processes, compiling and starting included"}


def in_a_fleet(folder: Path, num_series: int) -> None:
    fleet = pf.Fleet(FILTERS[FILTER]())
    for first in range(0, num_series, AT_ONCE):
        names = [f"sensor-{number:07}" for number in range(first, min(first + AT_ONCE, num_series))]
        key = jax.random.fold_in(jax.random.key(1), first)
        ys = np.asarray(jax.random.normal(key, (len(names), NUM_TIMES)))
        state = fleet.run(fleet.init(jax.random.key(1), names), ys)
        jax.block_until_ready(state)


def in_spark(folder: Path, num_series: int) -> None:
    from tests.servers.spark import session

    from paramfilter_engines.spark import Advance

    spark = session()
    found = spark.read.parquet(str(folder / "events"))
    sink = lambda rows, number: rows.write.parquet(str(folder / "rows"))
    Advance(_maker(folder), sink, parts=max(2, num_series // 10_000), last_only=True)(found, 0)
    spark.stop()


def in_ray(folder: Path, num_series: int) -> None:
    import ray

    from paramfilter_engines.ray import backfill

    ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    found = ray.data.read_parquet(str(folder / "events"))
    backfill(found, _maker(folder), lambda rows: rows.write_parquet(str(folder / "rows")))
    ray.shutdown()


def _maker(folder: Path) -> Callable:
    return functools.partial(make_versions, FILTER, str(folder / "states"))


WAYS: dict[str, Callable[[Path, int], None]] = {"fleet": in_a_fleet, "spark": in_spark, "ray": in_ray}


def main() -> None:
    """Measure, and keep the row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--series", type=int, default=200_000)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="engines-") as name:
        folder = Path(name)
        (folder / "events").mkdir()
        for start in range(0, NUM_TIMES, TIMES_A_FILE) if chosen.way != "fleet" else ():
            parquet.write_table(events(chosen.series, start, TIMES_A_FILE), folder / "events" / f"{start:03}.parquet")
        began = time.perf_counter()
        with Footprint() as footprint:
            WAYS[chosen.way](folder, chosen.series)
        seconds = time.perf_counter() - began
        if chosen.way != "fleet":
            states, rows = make_versions(FILTER, f"{name}/states").read(), parquet.read_table(folder / "rows")
            assert len(states) == len(rows) == chosen.series, "series were lost"
            assert set(states["seq"].to_pylist()) == {NUM_TIMES}, "events were lost"
    spent = footprint.cpu_seconds
    by_process = {name: round(seconds, 1) for name, seconds in footprint.cpu_by_name().items() if seconds >= 0.1}
    row = {"way": chosen.way, "filter": FILTER, "series": chosen.series, "times": NUM_TIMES}
    row |= {"state_bytes": table(FILTER).state_schema.field("state").type.byte_width, "seconds": round(seconds, 1)}
    row |= {"cpu_seconds": round(spent, 1), "by_process": by_process}
    row |= {"series_steps_a_cpu_second": round(chosen.series * NUM_TIMES / spent)}
    row |= {"megabytes_of_all_processes": round(footprint.peak_megabytes)}
    print(json.dumps(row), flush=True)
    put_row("engine_backfills", HEADING, row, ("way", "series"))


if __name__ == "__main__":
    main()

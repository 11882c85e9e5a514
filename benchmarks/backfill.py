"""A million series from Parquet to posteriors: `python -m benchmarks.backfill [--series 1000000] ...`.

Makes the data (AR(1) with a coefficient of its own for each series), shares them out, and runs `backfill`, by two
Ray actors unless told otherwise (`--workers 1` is this process). What is said of it: series-steps a CPU second, CPU
seconds of all processes, the largest memory of any of them, how many of the 90 % intervals hold the truth, and how far
the posterior means of 200 series are from exact ones. Rows are kept in `results/backfill.json`.
"""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import tempfile
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pyarrow as pa
import pyarrow.parquet as pq

import paramfilter as pf
from benchmarks.footprint import Footprint
from benchmarks.tables import put_row
from paramfilter.filters import Filter
from paramfilter_streams.backfilling import backfill, share_out

ROWS_AT_A_TIME = 100_000
NUM_KEPT = 64
"""Observations that each node filter keeps: all of them, unless told otherwise."""
NUM_COMPARED = 200
"""Series whose posteriors are compared with exact ones."""


def make_model() -> pf.StateSpaceModel:
    return pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.3), r=0.5)


def make_filter(size: int) -> Filter:
    return pf.node_filter(make_model(), size, num_kept=NUM_KEPT)


def write_data(folder: Path, num_series: int, num_times: int) -> np.ndarray:
    """Write observations ordered by time, as a log would hold them, and return the true coefficients."""
    folder.mkdir()
    model, truth = make_model(), 0.3 * np.asarray(jax.random.normal(jax.random.key(0), (num_series,)))
    simulate = jax.jit(jax.vmap(lambda key, phi: pf.simulate(key, model, {"phi": phi}, num_times)[1]))
    for part, start in enumerate(range(0, num_series, ROWS_AT_A_TIME)):
        some = truth[start : start + ROWS_AT_A_TIME]
        keys = jax.random.split(jax.random.fold_in(jax.random.key(1), part), len(some))
        ys = np.asarray(simulate(keys, jnp.asarray(some)))
        times, series = np.meshgrid(np.arange(num_times), start + np.arange(len(some)), indexing="ij")
        table = pa.table({"series": series.ravel(), "time": times.ravel(), "y": ys.T.ravel()})
        pq.write_table(table, folder / f"log-{part:04d}.parquet")
    return truth


def share_inside(target: Path, truth: np.ndarray) -> float:
    """Return how many of the 90 % intervals (mean and 1.645 sds) hold the truth."""
    table = pq.read_table(target)
    assert len(table) == len(truth) == len(set(table["series"].to_pylist())), "a series was lost or done twice"
    mean, sd = (table[name].to_numpy() for name in ("phi_mean", "phi_sd"))
    return float(np.mean(np.abs(mean - truth[table["series"].to_numpy()]) < 1.645 * sd))


def distance(target: Path, shared: Path) -> float:
    """Return how far posterior means of some series are from exact ones, root mean square, in exact sds."""
    wanted = list(range(0, NUM_COMPARED))
    observed = pq.read_table(shared, filters=[("series", "in", wanted)])
    found = pq.read_table(target, filters=[("series", "in", wanted)])
    means = dict(zip(found["series"].to_pylist(), found["phi_mean"].to_pylist(), strict=True))
    series, times, ys = (observed[name].to_numpy() for name in ("series", "time", "y"))
    model, errors = make_model(), []
    for one in wanted:
        rows = np.flatnonzero(series == one)
        exact = pf.references.kalman_grid(model, ys[rows[np.argsort(times[rows])]])
        errors.append((means[one] - float(exact.mean()["phi"])) / float(exact.sd()["phi"]))
    return float(np.sqrt(np.mean(np.square(errors))))


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--series", type=int, default=1_000_000)
    parser.add_argument("--times", type=int, default=50)
    parser.add_argument("--size", type=int, default=32, help="number of nodes")
    parser.add_argument("--files", type=int, default=64)
    parser.add_argument("--workers", type=int, nargs="*", default=(2,))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="backfill-"))
    try:
        truth = write_data(folder / "log", options.series, options.times)
        began, cpu = time.perf_counter(), time.process_time()
        share_out(folder / "log", folder / "shared", options.files)
        sharing = {"wall": time.perf_counter() - began, "cpu": time.process_time() - cpu}
        size = sum(file.stat().st_size for file in (folder / "shared").iterdir()) / 2**20
        for num_workers in options.workers:
            target = folder / f"posteriors-{num_workers}"
            make = functools.partial(make_filter, options.size)
            with Footprint() as footprint:
                report = backfill(make, folder / "shared", target, num_workers=num_workers, progress=True)
            row = {
                "series": options.series,
                "times": options.times,
                "size": options.size,
                "workers": num_workers,
                "megabytes_of_parquet": round(size, 1),
                "seconds_to_share_out": {name: round(value, 1) for name, value in sharing.items()},
                "seconds": round(report.seconds, 1),
                "cpu_seconds": round(footprint.cpu_seconds, 1),
                "series_steps_a_cpu_second": round(report.num_observations / footprint.cpu_seconds),
                "largest_process_in_megabytes": round(footprint.largest_megabytes),
                "all_processes_in_megabytes": round(footprint.peak_megabytes),
                "share_of_90_intervals_that_hold_the_truth": round(share_inside(target, truth), 4),
                "distance_from_exact_means_in_sds": round(distance(target, folder / "shared"), 4),
            }
            print(json.dumps(row), flush=True)
            put_row("backfill", {"precision": "float32"}, row, ("series", "size", "workers"))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

"""What the engine around a backfill costs: this process, Ray actors, Spark, on the same files with the same worker.

    python -m benchmarks.engines [--series 100000]

AR(1), 32 particles, 50 observations a series, files of whole series as `share_out` makes them. Each engine hands file
names to two workers (one in this process); a worker compiles once and does file after file. Wall seconds, CPU seconds
of the engine and all that it starts, and their largest memory; compiling and starting are in. Rows are kept in
`results/engines.json`. Spark runs in an environment of its own (`environments`) and needs Java.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.backfill import make_filter, write_data
from benchmarks.environments import python_of
from benchmarks.footprint import Footprint
from benchmarks.tables import put_row

NUM_PARTICLES, NUM_TIMES = 32, 50


def by_paramfilter(source: Path, target: Path, num_workers: int) -> None:
    from paramfilter_streams.backfilling import backfill

    backfill(functools.partial(make_filter, NUM_PARTICLES), source, target, num_workers=num_workers, progress=False)


def by_spark(source: Path, target: Path, num_workers: int) -> None:
    """Let Spark hand the files to Python workers, which it keeps between tasks."""
    from pyspark.sql import SparkSession

    from benchmarks import engines  # not the __main__ that this is: workers import what they run

    target.mkdir()
    os.environ["PYSPARK_PYTHON"] = sys.executable
    options = {"spark.ui.enabled": "false", "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1"}
    session = SparkSession.builder.master(f"local[{num_workers}]").config(map=options).getOrCreate()
    files = sorted(str(file) for file in source.iterdir())
    work = functools.partial(engines.work_in_spark, str(target))
    session.sparkContext.parallelize(files, len(files)).map(work).collect()
    session.stop()


def work_in_spark(target: str, file: str) -> tuple[int, int]:
    return _worker().work(Path(file), Path(target) / Path(file).name, (None, None))


@functools.cache
def _worker():
    from paramfilter_streams.backfilling.worker import Columns, Worker

    return Worker(make_filter(NUM_PARTICLES), 0, Columns())


ENGINES = {"this process": (by_paramfilter, 1), "ray": (by_paramfilter, 2), "spark": (by_spark, 2)}


def measure(engine: str, source: Path, target: Path) -> dict:
    """Run one engine, here."""
    function, num_workers = ENGINES[engine]
    began = time.perf_counter()
    with Footprint() as footprint:
        function(source, target, num_workers)
    return {
        "engine": engine,
        "workers": num_workers,
        "seconds": round(time.perf_counter() - began, 1),
        "cpu_seconds": round(footprint.cpu_seconds, 1),
        "all_processes_in_megabytes": round(footprint.peak_megabytes),
    }


def main() -> None:
    """Make the data, and run each engine in a process of its own, in turn."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--series", type=int, default=100_000)
    parser.add_argument("--files", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", nargs=3, metavar=("ENGINE", "SOURCE", "TARGET"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only:
        engine, source, target = options.only
        print("FOUND" + json.dumps(measure(engine, Path(source), Path(target))))
        return
    from paramfilter_streams.backfilling import share_out

    folder = Path(tempfile.mkdtemp(prefix="engines-"))
    try:
        write_data(folder / "log", options.series, NUM_TIMES)
        share_out(folder / "log", folder / "shared", options.files)
        for round_ in range(options.rounds):
            for engine in ENGINES:
                python = python_of("spark") if engine == "spark" else sys.executable
                command = [python, "-m", "benchmarks.engines", "--only", engine, folder / "shared"]
                said = subprocess.run([*command, folder / f"{engine}-{round_}"], check=True, stdout=subprocess.PIPE)
                row = json.loads(said.stdout.decode().split("FOUND")[1])
                row |= {"series": options.series, "times": NUM_TIMES, "particles": NUM_PARTICLES, "round": round_}
                print(json.dumps(row), flush=True)
                put_row("engines", {"precision": "float32"}, row, ("engine", "series", "round"))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()

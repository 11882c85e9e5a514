"""From an event to its durable posterior, at a load: `python -m benchmarks.streams.load --series 1000 10000 100000`.

A NATS server on loopback holds the events, 64 to a message. For each number of series the same fleet is measured bare
(all rows stepped by `Fleet.step`, nothing else) and as a worker: read from JetStream, parsed, ordered, stepped,
committed to disk, acknowledged. Two figures of the worker: its rate when the log is full (`backlog`), and its delays
when events come at half that rate, from the moment at which an event was made to the commit that holds its posterior
(`steady`). Then the worker is started again, and its recovery timed. Rows are kept in `results/stream_load.json`.

    python -m benchmarks.streams.load --soak 600

keeps one worker under load for as long, and writes how its memory went to `results/stream_soak.json`.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import jax
import numpy as np
import numpyro.distributions as dist
from tests.support.streams.server import NatsServer

import paramfilter as pf
from benchmarks.streams.publisher import LINES_A_MESSAGE, messages_of
from benchmarks.tables import put_row
from paramfilter_streams import FleetResidents, Pace, Store, Worker
from paramfilter_streams.jetstream import JetStreamLog

NUM_PARTICLES = 64
WARM_UP_SHARE = 0.2


def make_filter() -> pf.ParticleFilter:
    return pf.storvik_filter(pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5), NUM_PARTICLES)


def bare_rate(filter: pf.ParticleFilter, num_series: int) -> dict[str, float]:
    """Return series-steps a second of the fleet alone, by wall clock and by CPU."""
    fleet = pf.Fleet(filter)
    state = fleet.init(jax.random.key(0), range(num_series))
    ys = np.zeros(num_series)
    state, _ = fleet.step(state, ys)
    jax.block_until_ready(state)
    rounds = max(2, 20_000 // num_series)
    began = time.perf_counter(), time.process_time()
    for _ in range(rounds):
        state, _ = fleet.step(state, ys)
        jax.block_until_ready(state)
    wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
    return {"wall": rounds * num_series / wall, "cpu": rounds * num_series / cpu}


def measure(num_series: int, backlog_events: int, seconds: float, share: float) -> dict:
    """Measure one number of series."""
    folder = Path(tempfile.mkdtemp(prefix="load-"))
    filter = make_filter()
    bare = bare_rate(filter, num_series)
    try:
        with NatsServer(folder / "nats") as server:
            server.make_streams({"events": ["events"]})
            rounds = max(2, backlog_events // num_series)
            for sequence in range(1, rounds + 1):
                server.publish("events", messages_of(range(num_series), sequence))
            worker = opened(filter, num_series, server, folder)
            worker.recover()
            gc.freeze()  # as `serving` does
            while received(worker) < num_series:
                worker.work_once()  # series are started here
            began = time.perf_counter(), time.process_time()
            before = received(worker)
            while received(worker) < rounds * num_series:
                worker.work_once()
            worker.commit()
            wall, cpu = time.perf_counter() - began[0], time.process_time() - began[1]
            events = received(worker) - before
            delays = steady(worker, server, num_series, share * events / wall, seconds, rounds + 1)
            worker.close()
            size = (folder / "store" / "data.mdb").stat().st_size
            recovery = {}
            for walk in (False, True):
                began_again = time.perf_counter()
                worker = opened(filter, num_series, server, folder, walk)
                worker.residents.warm_up = lambda: None  # no compiling: that is not part of the state's size
                worker.recover()
                recovery["walked first" if walk else "trusted"] = round(time.perf_counter() - began_again, 2)
                worker.close()
    finally:
        shutil.rmtree(folder)
    return {
        "series": num_series,
        "particles": NUM_PARTICLES,
        "bytes_a_row": int(worker.residents.rows([next(iter(worker.residents.names))]).shape[1]),
        "bare_events_a_second": round(bare["wall"]),
        "bare_cpu_microseconds": round(1e6 / bare["cpu"], 1),
        "backlog_events_a_second": round(events / wall),
        "backlog_cpu_microseconds": round(1e6 * cpu / events, 1),
        "steady_events_a_second": round(share * events / wall),
        "steady_delay_milliseconds": delays,
        "store_megabytes": round(size / 2**20, 1),
        "recovery_seconds": recovery,
    }


def opened(filter: pf.ParticleFilter, num_series: int, server: NatsServer, folder: Path, walk: bool = True) -> Worker:
    residents = FleetResidents(filter, num_series)
    store = Store(folder / "store", residents.identity, keep=4, walk_first=walk)
    log = JetStreamLog(server.address, "events", ["events"])
    return Worker(residents, log, store, pace=Pace(messages=64, seconds_to_wait=0.05))


def received(worker: Worker) -> int:
    return sum(one.received for one in worker._partitions.values())


def steady(worker: Worker, server: NatsServer, num_series: int, rate: float, seconds: float, first: int) -> dict:
    """Return quantiles of the delay, in milliseconds, at a rate below what the worker can do."""
    arguments = [server.address, "events", str(num_series), str(rate), str(seconds), str(first)]
    publisher = subprocess.Popen([sys.executable, "-m", "benchmarks.streams.publisher", *arguments])
    delays: list[float] = []
    while worker.work_once() or publisher.poll() is None:
        delays += worker.delays
        worker.delays = []
    kept = np.array(delays[int(WARM_UP_SHARE * len(delays)) :])
    levels = {"p50": 0.5, "p99": 0.99, "p999": 0.999}
    return {name: round(1000 * float(np.quantile(kept, level)), 1) for name, level in levels.items()}


def soak(seconds: float, num_series: int = 1000, rate: float = 1000.0) -> dict:
    """Keep a worker under load, and look at its memory every few seconds."""
    folder = Path(tempfile.mkdtemp(prefix="soak-"))
    try:
        with NatsServer(folder / "nats") as server:
            server.make_streams({"events": ["events"]})
            worker = opened(make_filter(), num_series, server, folder)
            worker.recover()
            arguments = [server.address, "events", str(num_series), str(rate), str(seconds), "1"]
            publisher = subprocess.Popen([sys.executable, "-m", "benchmarks.streams.publisher", *arguments])
            sizes, began, look = [], time.perf_counter(), 0.0
            while worker.work_once() or publisher.poll() is None:
                if time.perf_counter() - began > look:
                    sizes.append(round(resident_megabytes(), 1))
                    look += max(5.0, seconds / 40)
            row = {"seconds": seconds, "series": num_series, "events": received(worker), "resident_megabytes": sizes}
            row["store_megabytes"] = round((folder / "store" / "data.mdb").stat().st_size / 2**20, 1)
            row["counts"] = worker.partitions["events"].counts
            worker.close()
    finally:
        shutil.rmtree(folder)
    return row


def resident_megabytes() -> float:
    """Return this process's memory, without the file that LMDB maps."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon")) / 1024


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--series", type=int, nargs="*", default=(1_000, 10_000, 100_000))
    parser.add_argument("--events", type=int, default=200_000, help="in the log when the worker starts")
    parser.add_argument("--seconds", type=float, default=20.0, help="under steady load")
    parser.add_argument("--share", type=float, default=0.5, help="of the full rate, under steady load")
    parser.add_argument("--soak", type=float, default=0.0)
    options = parser.parse_args()
    heading = {"model": "AR(1), exact beliefs", "lines_a_message": LINES_A_MESSAGE, "threads": 1}
    if options.soak:
        row = soak(options.soak)
        print(json.dumps(row))
        put_row("stream_soak", heading, row, ("seconds",))
        return
    for num_series in options.series:
        row = measure(num_series, options.events, options.seconds, options.share)
        print(json.dumps(row), flush=True)
        put_row("stream_load", heading, row, ("series",))


if __name__ == "__main__":
    main()

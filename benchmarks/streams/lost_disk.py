"""A disk is lost under load: `python -m benchmarks.streams.lost_disk --series 100000`.

A worker with its own process takes in events at a steady rate. Two snapshots are taken meanwhile, the first whole, the
second of what has changed. Then the worker is killed and its store deleted. The row has what the snapshots cost, how
many events came after the last one (the log still has them, and they are taken in again), how long it takes to restore
the store, to start, and to catch up, and how much memory the start needs against that of the running worker. Rows are
kept in `results/lost_disk.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
from tests.support.streams.server import NatsServer

from benchmarks.streams.load import make_filter, opened, resident_megabytes
from benchmarks.streams.publisher import messages_of
from benchmarks.tables import put_row

SECONDS_BETWEEN_SNAPSHOTS = 20.0


class Child:
    """A worker in a process of its own, which says each second how it stands."""

    def __init__(self, folder: Path, server: NatsServer, num_series: int):
        self._said = folder / "said.json"
        self._said.unlink(missing_ok=True)
        arguments = ["--worker", str(folder), server.address, str(num_series)]
        self._process = subprocess.Popen([sys.executable, "-m", "benchmarks.streams.lost_disk", *arguments])

    def until(self, num_events: int) -> dict:
        """Wait until so many events are durable, and return what the worker says then."""
        while True:
            assert self._process.poll() is None, "the worker died"
            said = json.loads(self._said.read_text()) if self._said.exists() else {"received": -1}
            if said["received"] >= num_events:
                return said
            time.sleep(0.1)

    def kill(self) -> None:
        self._process.send_signal(signal.SIGKILL)
        self._process.wait()


def work(folder: Path, address: str, num_series: int) -> None:
    """Be the worker, until killed."""
    server = argparse.Namespace(address=address)
    peak, began = Peak(), time.perf_counter()
    with peak:
        worker = opened(make_filter(), num_series, server, folder)
        worker.recover()
    started, delays, last = time.perf_counter() - began, [], 0.0
    while True:
        worker.work_once()
        delays += worker.delays
        worker.delays = []
        if time.perf_counter() - last > 0.5:
            last = time.perf_counter()
            said = {
                "received": sum(one.received for one in worker.committed.values()),
                "megabytes": resident_megabytes(),
                "start_seconds": started,
                "start_megabytes": peak.megabytes,
                "delay": [float(one) for one in np.quantile(delays, [0.5, 0.99])] if delays else None,
            }
            partial = folder / "said.partial"
            partial.write_text(json.dumps(said))
            partial.rename(folder / "said.json")


class Peak:
    """The largest memory of this process while a block of code runs."""

    megabytes = 0.0

    def __enter__(self) -> None:
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._look)
        self._thread.start()

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._ended.wait(0.01):
            self.megabytes = max(self.megabytes, resident_megabytes())


def taken(folder: Path) -> dict:
    """Take a snapshot as a service does, and return what it came to."""
    command = [sys.executable, "-I", "-m", "paramfilter_streams.snapshots", str(folder / "store"), str(folder / "kept")]
    said = json.loads(subprocess.run([*command, "3"], capture_output=True, text=True, check=True).stdout)
    return {"seconds": round(said["seconds"], 2), "megabytes": round(said["written"] / 2**20, 1)}


def measure(num_series: int, rate: float) -> dict:
    """Lose one disk."""
    folder = Path(tempfile.mkdtemp(prefix="lost-disk-"))
    try:
        with NatsServer(folder / "nats") as server:
            server.make_streams({"events": ["events"]})
            for sequence in (1, 2):
                server.publish("events", messages_of(range(num_series), sequence))
            child = Child(folder, server, num_series)
            child.until(2 * num_series)
            seconds = 2 * SECONDS_BETWEEN_SNAPSHOTS
            arguments = [server.address, "events", str(num_series), str(rate), str(seconds), "3"]
            publisher = subprocess.Popen([sys.executable, "-m", "benchmarks.streams.publisher", *arguments])
            time.sleep(SECONDS_BETWEEN_SNAPSHOTS / 4)
            whole = taken(folder)
            time.sleep(SECONDS_BETWEEN_SNAPSHOTS)
            changed = taken(folder)
            publisher.wait()
            total = sum(one.count(b"\n") + 1 for one in server.read_all("events", "events"))
            running = child.until(total)
            child.kill()
            size = (folder / "store" / "data.mdb").stat().st_size
            shutil.rmtree(folder / "store")
            began = time.perf_counter()
            program = "import sys; from paramfilter_streams.commands import main; main(sys.argv[1:])"
            restore = [sys.executable, "-c", program, "restore", str(folder / "kept"), str(folder / "store")]
            subprocess.run(restore, check=True)
            restored = time.perf_counter()
            child = Child(folder, server, num_series)
            first = child.until(0)
            caught_up = child.until(total)
            ended = time.perf_counter()
            child.kill()
    finally:
        shutil.rmtree(folder)
    return {
        "series": num_series,
        "events_a_second": rate,
        "store_megabytes": round(size / 2**20, 1),
        "whole_snapshot": whole,
        "changed_snapshot": changed,
        "delay_milliseconds": {
            name: round(1000 * one, 1) for name, one in zip(("p50", "p99"), running["delay"], strict=True)
        },
        "events_read_again": caught_up["received"] - first["received"],
        "restore_seconds": round(restored - began, 1),
        "start_seconds": round(first["start_seconds"], 1),
        "caught_up_after_seconds": round(ended - began, 1),
        "running_megabytes": round(running["megabytes"]),
        "start_megabytes": round(first["start_megabytes"]),
        "caught_up_megabytes": round(caught_up["megabytes"]),
    }


def main() -> None:
    """Measure, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--series", type=int, nargs="*", default=(100_000,))
    parser.add_argument("--rate", type=float, default=1000.0, help="events a second")
    parser.add_argument("--worker", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        folder, address, num_series = options.worker
        work(Path(folder), address, int(num_series))
    for num_series in options.series:
        row = measure(num_series, options.rate)
        print(json.dumps(row), flush=True)
        put_row("lost_disk", {"model": "AR(1), exact beliefs, 64 particles"}, row, ("series",))


if __name__ == "__main__":
    main()

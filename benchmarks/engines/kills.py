"""Engines killed with SIGKILL while they work: `python -m benchmarks.engines.kills faults|spark|ray [--kills 30]`.

`faults` is the harness of `tests/engines/faults.py`: one process, killed between any two writes of a version, and the
two mistakes that it must see. `spark` kills the driver, its JVM, a Python worker, the Kafka broker, or all but the
broker at once, while a topic is read; `ray` kills actors, or the driver. Whoever was killed starts again, with two
parts and with three by turns. When a log has ended, all states and all rows are compared with those of one call of
`advance`. Rows are kept in `results/engine_kills.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather, parquet
from tests.engines.faults import MISTAKES, PROTOCOLS, Trial, lives
from tests.engines.fleet import in_order, log, make_versions, undisturbed
from tests.servers.running import Broker

from benchmarks.tables import put_row

NUM_SERIES, NUM_STEPS = 400, 100
MEMORY = Path("/dev/shm")
"""A kill loses nothing that was written, so the faults need no disk."""
SHORTEST, LONGEST = 0.1, 3.0
"""Seconds between the first version of a driver and a kill."""


def faults(num_kills: int) -> Iterator[dict[str, Any]]:
    """Kill a driver in one process between any two writes, and count the logs that differ."""
    calls_of_a_life = 60
    for protocol in (*PROTOCOLS, *MISTAKES):
        wanted = num_kills // 2 if protocol in PROTOCOLS else min(num_kills, 500)
        row = {"engine": f"in one process, {protocol}", "kills": 0, "logs": 0, "logs_that_differ": 0}
        left, began = itertools.cycle(lives(wanted, calls_of_a_life)), time.perf_counter()
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            while row["kills"] < wanted:
                trial = Trial(Path(folder) / "trial", protocol, seed=row["logs"])
                while trial.is_killed(next(left), turn=row["kills"]):
                    row["kills"] += 1
                row["logs"] += 1
                row["logs_that_differ"] += not trial.is_as_undisturbed()
                shutil.rmtree(trial.folder)
        yield row | {"seconds": round(time.perf_counter() - began)}


def below(root: int) -> dict[int, str]:
    """Return the command lines of all processes below one."""
    commands, parents = {}, {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                commands[int(entry.name)] = (entry / "cmdline").read_text().replace("\0", " ")
            except (FileNotFoundError, ProcessLookupError):
                continue  # it has just ended
    found, level = {}, {root}
    while level:
        level = {pid for pid, parent in parents.items() if parent in level}
        found |= {pid: commands[pid] for pid in level if pid in commands}
    return found


def kill(pids: list[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Run:
    """One log, taken to its end by drivers that are killed.

    Args:
        folder: Where states and rows are.
        program: Of a driver, and its first arguments.
        rows: Events of a batch.
    """

    def __init__(self, folder: Path, program: list[str], rows: int):
        self.folder, self.program, self.rows = folder, [sys.executable, "-m", *program], rows
        self.starts, self.process = itertools.count(), None
        self.seen: dict[int, str] = {}
        self.newest = make_versions(folder / "states").newest

    def has_ended(self) -> bool:
        """Start a driver if none runs, wait for its next version, and tell whether the log has ended."""
        before = self.newest()
        if self.process is None or self.process.poll() is not None:
            command = [*self.program, str(2 + next(self.starts) % 2), str(self.rows)]
            with (self.folder / "driver.log").open("ab") as said:
                self.process = subprocess.Popen(command, stdout=said, stderr=said, start_new_session=True)
        for _ in range(3000):
            if self.process.poll() == 0:
                return True
            if self.newest() > before or self.process.poll() is not None:
                self.seen |= below(self.process.pid)
                return False
            time.sleep(0.1)
        raise TimeoutError((self.folder / "driver.log").read_text()[-3000:])

    def end(self) -> None:
        """Make sure that the driver and its children have ended."""
        if self.process is not None:
            for _ in range(200):
                if self.process.poll() is not None:
                    break
                time.sleep(0.1)
            kill([self.process.pid])
            self.process.wait()

    def clean(self) -> None:
        """End what drivers have left behind."""
        running = {pid: one for pid, one in self.seen.items() if Path(f"/proc/{pid}").exists()}
        now = {pid: Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ") for pid in running}
        kill([pid for pid, command in running.items() if now[pid] == command])


def differs(folder: Path, rows: list[pa.Table]) -> bool:
    """Tell whether states or rows are not those of one call; the place of an event is another in Kafka."""
    states, said = undisturbed(NUM_SERIES, NUM_STEPS)
    found = in_order(pa.concat_tables(rows).select(said.column_names).cast(said.schema).drop_columns("place"))
    same = make_versions(folder / "states").read().sort_by("series").equals(states)
    return not (same and found.equals(in_order(said.drop_columns("place"))))


def in_spark(num_kills: int) -> Iterator[dict[str, Any]]:
    """Kill what Spark and Kafka are made of."""
    row: dict[str, Any] = {"engine": "Spark on Kafka", "kills": 0, "logs": 0, "logs_that_differ": 0, "killed": {}}
    killed, began = Counter(), time.perf_counter()
    victims = itertools.cycle(["worker", "broker", "driver", "worker", "jvm", "daemon", "worker", "broker", "all"])
    waits = itertools.cycle(lives(97, int(LONGEST / SHORTEST)) * SHORTEST)
    while row["kills"] < num_kills:
        with tempfile.TemporaryDirectory(prefix="engines-") as name, Broker(Path(name) / "kafka") as broker:
            folder = Path(name)
            broker.make_topic("events", 2)
            lines = log(NUM_SERIES, NUM_STEPS).drop_columns("place").to_pylist()
            broker.publish("events", [(line["series"], json.dumps(line).encode()) for line in lines])
            run = Run(folder, ["benchmarks.engines.spark_driver", name, broker.address], rows=1600)
            while not run.has_ended():
                if row["kills"] < num_kills and run.process.poll() is None:
                    time.sleep(next(waits))
                    victim = next(victims)
                    if has_been_killed(victim, run, broker):
                        row["kills"] += 1
                        killed[victim] += 1
                        print(f"{row['kills']}: {victim} at version {run.newest()}", flush=True)
            run.clean()
            row["logs"] += 1
            rows = [parquet.read_table(file, partitioning=None) for file in folder.glob("rows/batch=*/*.parquet")]
            row["logs_that_differ"] += differs(folder, rows)
        yield row | {"killed": dict(killed), "seconds": round(time.perf_counter() - began)}


def has_been_killed(victim: str, run: Run, broker: Broker) -> bool:
    """Kill; return whether there was something to kill."""
    assert run.process is not None
    processes = below(run.process.pid)
    jvm = [pid for pid, command in processes.items() if "org.apache.spark.deploy.SparkSubmit" in command]
    python = [pid for pid, command in processes.items() if "pyspark.daemon" in command]
    pids = {
        "broker": [-1],
        "driver": [run.process.pid],
        "jvm": jvm[:1],
        "daemon": python[:1],
        "worker": python[-1:] if len(python) > 1 else [],
        "all": [run.process.pid, *processes],
    }[victim]
    if not pids or run.process.poll() is not None:
        return False
    if victim == "broker":
        broker.end()
        broker.start()
        return True
    kill(pids)
    if victim in ("driver", "jvm", "all"):
        run.end()
    return True


def in_ray(num_kills: int) -> Iterator[dict[str, Any]]:
    """Kill actors, and now and then the driver."""
    import ray

    row: dict[str, Any] = {"engine": "Ray", "kills": 0, "logs": 0, "logs_that_differ": 0, "killed": {}}
    killed, began = Counter(), time.perf_counter()
    waits = itertools.cycle(lives(97, 20) * 0.01)
    cluster = ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    while row["kills"] < num_kills:
        with tempfile.TemporaryDirectory(prefix="engines-") as name:
            folder = Path(name)
            (folder / "rows").mkdir()
            feather.write_feather(log(NUM_SERIES, NUM_STEPS), folder / "events.arrow")
            address = cluster.address_info["address"]
            run = Run(folder, ["benchmarks.engines.ray_driver", name, address], rows=2000)
            while not run.has_ended():
                if row["kills"] < num_kills and run.process.poll() is None:
                    time.sleep(next(waits))
                    victim = "driver" if row["kills"] % 8 == 7 else "actor"
                    actors = [pid for pid, command in below(os.getpid()).items() if command.startswith("ray::Worker")]
                    kill([run.process.pid] if victim == "driver" else actors[: 1 + row["kills"] % 2])
                    if victim == "driver":
                        run.end()
                    row["kills"] += 1
                    killed[victim] += 1
                    print(f"{row['kills']}: {victim} at version {run.newest()}", flush=True)
            row["logs"] += 1
            row["logs_that_differ"] += differs(folder, [feather.read_table(one) for one in folder.glob("rows/[!.]*")])
        yield row | {"killed": dict(killed), "seconds": round(time.perf_counter() - began)}
    ray.shutdown()


WAYS: dict[str, Callable[[int], Iterator[dict[str, Any]]]] = {"faults": faults, "spark": in_spark, "ray": in_ray}


def main() -> None:
    """Kill, compare, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--kills", type=int, default=30)
    chosen = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended"))  # so that servers and drivers end too
    for row in WAYS[chosen.way](chosen.kills):
        print(json.dumps(row), flush=True)
        put_row("engine_kills", {"what": "SIGKILL, or a process that ends between two writes"}, row, ("engine",))


if __name__ == "__main__":
    main()

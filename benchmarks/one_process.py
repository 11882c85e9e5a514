"""What the service of one process costs and survives: `python -m benchmarks.one_process cost|kills|load`.

`cost` is CPU microseconds an event of `Fleet.step` with forecasts, and of a worker that reads the same observations as
JSON lines from a file and commits states and outputs to SQLite, synced. They take turns; a batch has one event of each
series. Rows are kept in `results/service_cost.json`.

`kills` kills services with SIGKILL: half of them before one of their statements of SQL, half at a time from outside.
When a log has ended, every table of the store is compared with that of a worker that nothing disturbed. It also kills
workers within one process between any two statements, and plants two mistakes that it must see. Rows are kept in
`results/service_kills.json`.

`load` gives a worker one observation a minute of each series, spread over the minute by a process of its own, which
writes files. Delays are from the moment at which an event was made to the commit of its posterior. The first minutes
start the series, and are not counted. Rows are kept in `results/service_load.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import itertools
import json
import multiprocessing
import os
import signal
import statistics
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
from tests.support.service.kills import kill
from tests.support.service.lines import messy_lines, numbers
from tests.support.service.running import Running
from tests.support.service.working import content, run

import paramfilter as pf
from benchmarks.state_tables import FILTERS, FIRST_TURNS, cpu
from benchmarks.tables import put_row
from paramfilter.errors import StoreError
from paramfilter.tables import StateTable
from paramfilter_service.configuration import read_configuration
from paramfilter_service.file_log import FileLog
from paramfilter_service.service import warm_up
from paramfilter_service.store import Store, reading
from paramfilter_service.worker import Batch, Worker

FIRST_MINUTES = 1
"""In which the series start; they are not counted."""

KEEP = 8
"""Outputs of each series that a store keeps, under load."""


def cost(filters: list[str], num_series: int, num_turns: int) -> Iterator[dict[str, Any]]:
    """Compare a worker with a bare fleet."""
    names = [f"series-{number}" for number in range(num_series)]
    ys = np.array(jax.random.normal(jax.random.key(1), (FIRST_TURNS + num_turns, num_series)), float)
    for filter in filters:
        fleet = pf.Fleet(FILTERS[filter]())
        state, spent = fleet.init(jax.random.key(0), names), []
        with tempfile.TemporaryDirectory() as folder:
            log = Path(folder, "log")
            log.mkdir()
            table = StateTable(FILTERS[filter](), forecasts=True)
            worker = Worker(table, FileLog(str(log)), Store(f"{folder}/fleet.db"), Batch(events=num_series, wait=0.0))
            for number, y in enumerate(ys):
                lines = (
                    f'{{"series": "{name}", "seq": {number + 1}, "y": {one}}}\n'
                    for name, one in zip(names, y, strict=True)
                )
                (log / f"{number:03}.jsonl").write_text("".join(lines))
                (state, _), bare = cpu(fleet.step, state, y)
                spent.append((bare, cpu(_work_through, worker, num_series * (number + 1))[1]))
            worker.close()
        spent = spent[FIRST_TURNS:]
        row = {"filter": filter, "series": num_series, "turns": num_turns}
        row |= {"bytes": table.state_schema.field("state").type.byte_width}
        for place, way in enumerate(("Fleet.step", "worker")):
            row[way] = round(1e6 * statistics.median(one[place] for one in spent) / num_series, 1)
        yield row | {"ratio": round(statistics.median(worker / bare for bare, worker in spent), 2)}


def _work_through(worker: Worker, num_lines: int) -> None:
    while worker.counts["received"] < num_lines:
        worker.work_once()


def kills(num_kills: int, within: int) -> Iterator[dict[str, Any]]:
    """Kill processes, and workers within this one."""
    for planted, wanted in (("nothing", within), ("state-first", 200), ("offset-first", 200)):
        if within:
            yield {"what": f"worker within one process, planted: {planted}"} | kill(wanted, planted)
    row: dict[str, Any] = {"what": "service, SIGKILL", "kills": 0, "logs": 0, "logs_that_differ": 0}
    draw, began = numbers(7), time.perf_counter()
    while row["kills"] < num_kills:
        lines = [one for one in messy_lines(row["logs"] + 100, 20, 200) if b"\n" not in one]
        with tempfile.TemporaryDirectory() as name:
            tried, calm = (Path(name, one) for one in ("tried", "calm"))
            for folder in (tried, calm):
                (folder / "log").mkdir(parents=True)
                (folder / "log" / "1.jsonl").write_bytes(b"\n".join(lines) + b"\n")
            with Running(tried, events=20 + next(draw) % 80) as service:
                while row["kills"] < num_kills and _received(tried) < len(lines):
                    _kill(service, len(lines), 1 + next(draw) % 2000 if row["kills"] % 2 else 0, next(draw) / 2**32)
                    row["kills"] += 1
                service.start()
                service.finish(len(lines))
            with Running(calm):
                run(read_configuration(calm / "fleet.toml").make_worker())
            wanted, found = content(calm / "fleet.db"), content(tried / "fleet.db")
            for one in (wanted, found):  # another file has another inode
                one["positions"] = [(name, offset, line) for name, offset, _, line in one["positions"]]
        row["logs"] += 1
        row["logs_that_differ"] += found != wanted
        yield row | {"seconds": round(time.perf_counter() - began)}


def _kill(service: Running, num_lines: int, statement: int, seconds: float) -> None:
    """Start a service, which kills itself before a statement, or is killed so long after it is ready."""
    service.start(statement)
    if statement:
        while service.process.exitcode is None and _received(service.folder) < num_lines:
            time.sleep(0.02)
    else:
        time.sleep(seconds)
    if service.process.exitcode is None:
        service.end(signal.SIGKILL)
    assert service.wait() == -signal.SIGKILL


def _received(folder: Path) -> int:
    """Return how many lines a store has."""
    with contextlib.suppress(StoreError), reading(folder / "fleet.db") as connection:
        counts = connection.execute("SELECT number FROM counts WHERE name = 'received'").fetchone()
        return counts[0] if counts else 0
    return 0


def load(filter: str, num_series: int, minutes: float, workers: int) -> dict[str, Any]:
    """Give workers one observation a minute of each series; a worker has the series of one directory."""
    context, rounds = multiprocessing.get_context("spawn"), FIRST_MINUTES + minutes
    with tempfile.TemporaryDirectory(prefix="load-", dir=".") as name, contextlib.ExitStack() as stack:
        parts = [Path(name, str(number)) for number in range(workers)]
        for part in parts:
            (part / "log").mkdir(parents=True)
        said, start = context.Queue(), context.Value("d", 0.0)
        asked = [(part, filter, num_series // workers, rounds) for part in parts]
        running = [context.Process(target=_work, args=(*one, said, start)) for one in asked]
        publisher = context.Process(target=_publish, args=(parts, num_series // workers, rounds, start))
        for one in running:
            one.start()
            stack.callback(one.kill)
        for _ in running:
            said.get()  # it has compiled
        start.value = time.time()
        publisher.start()
        stack.callback(publisher.kill)
        found = [said.get() for _ in running]
        size = sum(file.stat().st_size for part in parts for file in part.glob("fleet.db*"))
    delays = np.concatenate([one["delays"] for one in found])
    seconds = max(one["seconds"] for one in found)
    row = {"filter": filter, "series": num_series, "minutes": minutes, "workers": workers}
    row |= {"state_bytes": found[0]["state_bytes"], "outputs_kept": KEEP, "cores": os.cpu_count()}
    row |= {"events": len(delays), "events_a_second": round(len(delays) / seconds)}
    row |= {"busy_cores": round(sum(one["cpu_seconds"] for one in found) / seconds, 2)}
    row |= {"cpu_microseconds": round(1e6 * sum(one["cpu_seconds"] for one in found) / len(delays), 1)}
    row |= {"megabytes_of_memory": round(sum(one["megabytes"] for one in found))}
    row |= {"store_megabytes": round(size / 2**20), "store_bytes_a_series": round(size / num_series)}
    levels = {"p50": 0.5, "p99": 0.99, "p999": 0.999, "max": 1.0}
    row["delay_seconds"] = {one: round(float(np.quantile(delays, level)), 2) for one, level in levels.items()}
    return row | {"unfinished": num_series * minutes - len(delays)}


def _work(folder: Path, filter: str, num_series: int, rounds: int, said: Any, start: Any) -> None:
    """Process events until all have come, or it is a minute too late; count from the end of the first minutes."""
    store = Store(str(folder / "fleet.db"), keep=KEEP)
    worker = Worker(StateTable(FILTERS[filter](), forecasts=True), FileLog(str(folder / "log")), store)
    warm_up(worker.table)
    gc.collect()
    gc.freeze()  # as the service does
    said.put("compiled")
    delays, began, used, peak = [], 0.0, 0.0, 0.0
    while worker.counts["received"] < num_series * rounds:
        late = start.value and time.time() - start.value > 60 * (rounds + 1)
        if late:
            break
        num_lines = worker.work_once()
        if num_lines and worker.counts["received"] > num_series * FIRST_MINUTES:
            began, used = began or time.time(), used or time.process_time()
            delays.append(worker.delays)
            peak = max(peak, _resident_megabytes())
    spent = {"seconds": time.time() - began, "cpu_seconds": time.process_time() - used, "megabytes": peak}
    bytes_of_state = worker.table.state_schema.field("state").type.byte_width
    said.put(spent | {"delays": np.concatenate(delays), "state_bytes": bytes_of_state})
    worker.close()


def _publish(folders: list[Path], num_series: int, rounds: int, start: Any) -> None:
    """Write lines, a tenth of a second of them at a time, each directory its own series."""
    slices = np.array_split(np.arange(num_series), 600)
    for minute, (turn, some) in itertools.product(range(rounds), enumerate(slices)):
        due = start.value + 60 * minute + 0.1 * turn
        time.sleep(max(0.0, due - time.time()))
        numbers = np.sin(some * 0.7 + minute).round(4).tolist()
        for part, folder in enumerate(folders):
            lines = (
                f'{{"series":"{part}-{one:07}","seq":{minute + 1},"y":{y},"at":{due:.3f}}}\n'
                for one, y in zip(some.tolist(), numbers, strict=True)
            )
            with (folder / "log" / f"{minute:04}.jsonl").open("a") as file:
                file.write("".join(lines))


def _resident_megabytes() -> float:
    """Return the memory of this process."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def main() -> None:
    """Measure, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("what", choices=["cost", "kills", "load"])
    parser.add_argument("filters", nargs="*", help=f"of {', '.join(FILTERS)}")
    parser.add_argument("--series", type=int)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--within", type=int, default=2000, help="kills within one process")
    parser.add_argument("--minutes", type=int, default=10)
    parser.add_argument("--workers", type=int, default=1)
    chosen = parser.parse_args()
    filters = chosen.filters or list(FILTERS)
    if chosen.what == "cost":
        heading = {"units": "CPU microseconds an event, medians, and the median of their ratios in a turn"}
        rows, name, identity = (
            cost(filters, chosen.series or 10_000, chosen.turns),
            "service_cost",
            ("filter", "series"),
        )
    elif chosen.what == "kills":
        heading, identity = {"what": "services and workers that are killed"}, ("what",)
        rows, name = kills(chosen.kills, chosen.within), "service_kills"
    else:
        heading, identity = {"units": "an observation a minute of each series"}, ("filter", "series", "workers")
        rows, name = (
            (load(one, chosen.series or 1_000_000, chosen.minutes, chosen.workers) for one in filters),
            "service_load",
        )
    for row in rows:
        print(json.dumps(row), flush=True)
        put_row(name, heading, row, identity)


if __name__ == "__main__":
    main()

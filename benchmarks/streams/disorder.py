"""Events that come twice and in another order, by the million: `python -m benchmarks.streams.disorder`.

The events of some hundred series are sent in order, and once more with a share of them repeated and all of them moved
by up to a few places within their series. States are hashes over all steps in their order, so they are the same only if
every event was taken in once, in its place. Every event must be counted. Rows are kept in `results/disorder.json`.
"""

from __future__ import annotations

import argparse
import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tests.support.streams.draws import numbers
from tests.support.streams.kills import MEMORY
from tests.support.streams.toy import HashResidents, line

from benchmarks.tables import put_row
from paramfilter_streams import FileLog, Pace, Partition, Rules, Store, Worker

NUM_SERIES, FARTHEST = 200, 16
"""Series, and the number of places by which an event may come too early or too late within its series."""


def disordered(num_steps: int, share: float, seed: int) -> Iterator[bytes]:
    """Yield the events of all series, some repeated, each in another place."""
    draw = iter(numbers(seed))
    uniform = lambda: next(draw) / 2**32
    placed = []
    for number in range(1, num_steps + 1):
        for series in range(NUM_SERIES):
            copies = 2 if uniform() < share else 1
            placed += [(number + FARTHEST * uniform(), series, number) for _ in range(copies)]
    for _, series, number in sorted(placed):
        yield line(f"s{series}", number, number / (series + 1))


def taken_in(folder: Path, lines: Iterator[bytes]) -> tuple[dict[str, bytes], Partition]:
    """Return all states, and the counts."""
    (folder / "log").mkdir(parents=True)
    with (folder / "log" / "0.jsonl").open("wb") as file:
        file.writelines(one + b"\n" for one in lines)
    residents = HashResidents(row_bytes=64)
    store = Store(folder / "store", residents.identity, keep=1)
    worker = Worker(residents, FileLog(folder / "log"), store, rules=Rules(reorder=2 * FARTHEST), pace=Pace(10_000))
    worker.run(lambda: False, until_idle=True)
    states, (partition,) = {name: state for name, _, state in store.rows()}, worker.partitions.values()
    worker.close()
    shutil.rmtree(folder)
    return states, partition


def main() -> None:
    """Send, compare, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--events", type=int, default=250_000, help="without repeats, for each share")
    parser.add_argument("--shares", type=float, nargs="*", default=(0.0, 0.1, 0.25, 0.5))
    options = parser.parse_args()
    num_steps = options.events // NUM_SERIES
    folder = Path(tempfile.mkdtemp(prefix="disorder-", dir=MEMORY if MEMORY.exists() else None))
    in_order = (
        line(f"s{series}", number, number / (series + 1))
        for number in range(1, num_steps + 1)
        for series in range(NUM_SERIES)
    )
    wanted, _ = taken_in(folder / "wanted", in_order)
    for seed, share in enumerate(options.shares):
        began = time.perf_counter()
        found, partition = taken_in(folder / "found", disordered(num_steps, share, seed))
        row = {
            "repeated": share,
            "events": partition.received,
            "fates": partition.counts,
            "waiting": partition.waiting,
            "filled": partition.filled,
            "series": len(wanted),
            "series_that_differ": sum(found.get(name) != state for name, state in wanted.items()),
            "seconds": round(time.perf_counter() - began),
        }
        print(json.dumps(row), flush=True)
        put_row("disorder", {"farthest": FARTHEST}, row, ("repeated",))
    shutil.rmtree(folder)


if __name__ == "__main__":
    main()

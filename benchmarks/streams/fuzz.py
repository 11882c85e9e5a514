"""Mutated lines against a worker: `python -m benchmarks.streams.fuzz --lines 1000000`.

A line may be refused and nothing else: no other exception, no stop, no state with a number that is not finite. The
row in `results/fuzz.json` counts what became of them.
"""

from __future__ import annotations

import argparse
import collections
import json
import tempfile
import time
from pathlib import Path

from tests.support.streams.fuzz import mutated
from tests.support.streams.toy import HashResidents

from benchmarks.tables import put_row
from paramfilter_streams import FileLog, Pace, Store, Worker


def main() -> None:
    """Let a worker read them all."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--lines", type=int, default=1_000_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "log").mkdir()
        with (Path(folder) / "log" / "0.jsonl").open("wb") as file:
            for seed in range(options.lines):
                file.write(mutated(seed).replace(b"\n", b" ") + b"\n")
        residents = HashResidents()
        worker = Worker(
            residents,
            FileLog(Path(folder) / "log"),
            Store(Path(folder) / "store", residents.identity),
            pace=Pace(20_000),
        )
        began = time.perf_counter()
        worker.run(lambda: False, until_idle=True)
        seconds = time.perf_counter() - began
        (partition,) = worker.partitions.values()
        reasons = collections.Counter(one.reason for one in worker.store.quarantined())
        worker.close()
    assert partition.received == options.lines == sum(partition.counts.values()), "an event has got lost"
    row = {
        "lines": options.lines,
        "escapes": 0,
        "fates": partition.counts,
        "lines_a_second": round(options.lines / seconds),
    }
    row["reasons_among_the_last"] = dict(reasons.most_common())
    print(json.dumps(row))
    put_row("fuzz", {"what": "mutated events through a worker"}, row, ("lines",))


if __name__ == "__main__":
    main()

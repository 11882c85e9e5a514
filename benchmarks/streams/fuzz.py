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

from benchmarks.streams.draws import numbers
from benchmarks.streams.toy import HashResidents
from benchmarks.tables import put_row
from paramfilter_streams import FileLog, Pace, Store, Worker

OVERSIZED = 1000
"""One line in so many is far too long."""

SEEDS = (
    b'{"series": "oslo", "seq": 17, "y": 0.31}',
    b'{"seq": 1, "series": "a.b-c", "y": null, "at": 1.5}',
    b'{"series": "oslo", "seq": 2147483647, "y": -1.5e-300}',
    b'{"series": "lima", "seq": 18, "y": [1, 2, [3]], "inputs": {"a": "\\u00e9"}}',
)
PIECES = (
    *(
        b"[" * 9,
        b"{" * 300,
        b"]" * 9,
        b'"',
        b"\\",
        b"\x00",
        b"\xff\xfe",
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"null",
        b"true",
    ),
    *(
        b'"seq": 1,',
        b'"y":',
        b"9" * 400,
        b"-0",
        b"1.7976931348623157e308",
        b"\\ud800",
        b"{}",
        b",",
        b":",
        b" " * 100,
        b"e",
        b".",
    ),
)


def mutated(seed: int) -> bytes:
    """Return a line with one to four mutations."""
    draw = iter(numbers(seed))
    text = bytearray(SEEDS[next(draw) % len(SEEDS)])
    for _ in range(1 + next(draw) % 4):
        place = next(draw) % (len(text) + 1)
        kind = next(draw) % 5
        if kind == 0 and text:
            text[place % len(text)] ^= 1 << next(draw) % 8
        elif kind == 1:
            del text[place : place + 1 + next(draw) % 8]
        elif kind == 2:
            text[place:place] = PIECES[next(draw) % len(PIECES)]
        elif kind == 3:
            other = SEEDS[next(draw) % len(SEEDS)]
            text[place:] = other[next(draw) % len(other) :]
        else:
            text[place:place] = text[next(draw) % (len(text) + 1) :][:16]
    return bytes(text) if seed % OVERSIZED else bytes(text) * 2000


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

"""What a stream costs in an engine: `python -m benchmarks.engines.streaming all|alone|spark|ray [--series 100000]`.

A batch has one event of each series. Events are JSON in a topic of a Kafka broker on this machine, with two partitions
(`alone` has them in memory). The first batches compile; the CPU of all processes, the broker's among them, is counted
from then on. `alone` is the function in this process: `advance`, and its versions on disk. Ray's driver reads the topic
with confluent-kafka and parses with pyarrow. `all` measures the function before and after each engine, each in a
process of its own, and divides by the mean of the two. Its rows are kept in `results/engine_streams.json`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import io
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.json
from pyarrow import parquet
from tests.servers.running import Broker

from benchmarks.engines.fleet import events, make_versions, table
from benchmarks.footprint import Footprint
from benchmarks.tables import put_row
from paramfilter.tables import merged
from paramfilter_engines.parts import ONE_THREAD

FILTER = "storvik, 64 particles"
FIRST = 3
"""Batches before anything is counted."""
HEADING = {"units": "CPU microseconds an event of all processes; seconds of a batch; seconds from start to first batch"}


class Marks:
    """When batches ended, and what all processes had used by then."""

    def __init__(self, footprint: Footprint) -> None:
        self.footprint = footprint
        self.start()

    def start(self) -> None:
        """Count from now on."""
        self.began, self.before = time.perf_counter(), self.footprint.cpu_seconds
        self.ends: list[float] = []
        self.used: list[dict[str, float]] = []

    def mark(self, number: int) -> None:
        self.ends.append(time.perf_counter() - self.began)
        self.footprint.look()
        self.used.append(self.footprint.cpu_by_name())
        print(f"batch {number} after {self.ends[-1]:.1f} s", flush=True)

    def row(self, num_events: int) -> dict[str, Any]:
        """Return what the batches behind the first ones have cost."""
        first, last = self.used[FIRST - 1], self.used[-1]
        spent = {name: seconds - first.get(name, 0.0) for name, seconds in last.items()}
        counted = num_events * (len(self.ends) - FIRST)
        latencies = [later - earlier for earlier, later in zip(self.ends[FIRST - 1 :], self.ends[FIRST:], strict=False)]
        return {
            "microseconds": round(1e6 * sum(spent.values()) / counted, 1),
            "by_process": {name: round(1e6 * one / counted, 1) for name, one in spent.items() if one > 0},
            "batch_seconds": [round(one, 2) for one in (statistics.median(latencies), max(latencies))],
            "first_batch_after": round(self.ends[0], 1),
            "cpu_seconds_of_the_first_batches": round(sum(first.values()) - self.before, 1),
        }


def alone(folder: Path, num_series: int, num_batches: int, marks: Marks) -> None:
    """Advance in this process, with versions on disk."""
    versions = make_versions(FILTER, str(folder / "states"))
    states = versions.table.empty()
    for number in range(num_batches):
        changed, outputs, _ = versions.table.advance(states, events(num_series, number))
        states = merged(states, changed).combine_chunks()
        versions.write(number, changed, states)
        parquet.write_table(outputs, folder / f"rows-{number}.parquet")
        marks.mark(number)


def in_spark(folder: Path, num_series: int, num_batches: int, marks: Marks) -> None:
    """Let Structured Streaming read Kafka, and advance in its Python workers."""
    from pyspark.sql import functions
    from tests.servers.spark import session

    from paramfilter_engines.spark import Advance

    with _topic(folder, num_series, num_batches) as broker:
        marks.start()
        spark = session()
        messages = spark.readStream.format("kafka").option("kafka.bootstrap.servers", broker.address)
        messages = messages.option("subscribe", "events").option("startingOffsets", "earliest")
        found = messages.option("maxOffsetsPerTrigger", num_series).load()
        event = functions.from_json(found["value"].cast("string"), "series string, seq long, y double")
        stream = found.select(event.alias("event"), found["offset"].alias("place")).select("event.*", "place")

        def sink(rows: Any, number: int) -> None:
            rows.write.mode("overwrite").parquet(str(folder / "rows" / f"batch={number}"))
            marks.mark(number)

        advance = Advance(functools.partial(make_versions, FILTER, str(folder / "states")), sink)
        query = stream.writeStream.foreachBatch(advance).option("checkpointLocation", str(folder / "checkpoint"))
        query = query.trigger(availableNow=True).start()
        query.awaitTermination()
        spark.stop()


def in_ray(folder: Path, num_series: int, num_batches: int, marks: Marks) -> None:
    """Read Kafka here, and advance in two actors."""
    from paramfilter_engines.ray import Stream

    (folder / "rows").mkdir()

    def sink(rows: pa.Table, number: int) -> None:
        parquet.write_table(rows, folder / "rows" / f"{number}.parquet")

    with _topic(folder, num_series, num_batches) as broker:
        marks.start()
        stream = Stream(functools.partial(make_versions, FILTER, str(folder / "states")), sink)
        for number, (batch, position) in enumerate(_read(broker, num_series)):
            stream.advance(batch, position)
            marks.mark(number)
            if number == num_batches - 1:
                break
        stream.close()


@contextlib.contextmanager
def _topic(folder: Path, num_series: int, num_batches: int) -> Iterator[Broker]:
    """Run a broker that has a topic of all events."""
    with Broker(folder / "kafka") as broker:
        broker.make_topic("events", 2)
        for number in range(num_batches):
            lines = events(num_series, number).drop_columns("place").to_pylist()
            broker.publish("events", [(line["series"], json.dumps(line).encode()) for line in lines])
        yield broker


def _read(broker: Broker, size: int) -> Iterator[tuple[pa.Table, dict[str, int]]]:
    """Yield events of both partitions, and the offsets behind them."""
    from confluent_kafka import Consumer, TopicPartition

    reader = Consumer({"bootstrap.servers": broker.address, "group.id": "ray", "queued.max.messages.kbytes": 65536})
    reader.assign([TopicPartition("events", one, 0) for one in range(2)])
    position = {"0": 0, "1": 0}
    while True:
        found: list[Any] = []
        while len(found) < size:
            found += reader.consume(min(10_000, size - len(found)), timeout=10)
        position |= {str(one.partition()): one.offset() + 1 for one in found}
        yield pa.json.read_json(io.BytesIO(b"\n".join(one.value() for one in found))), dict(position)


WAYS: dict[str, Callable[[Path, int, int, Marks], None]] = {"alone": alone, "spark": in_spark, "ray": in_ray}


def main() -> None:
    """Measure, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("way", choices=["all", *WAYS])
    parser.add_argument("--series", type=int, default=100_000)
    parser.add_argument("--batches", type=int, default=9)
    chosen = parser.parse_args()
    if chosen.way != "all":
        print(json.dumps(measure(chosen.way, chosen.series, chosen.batches)), flush=True)
        return
    found = [in_a_process(way, chosen) for way in ("alone", "spark", "alone", "ray", "alone")]
    for number, row in enumerate(found):
        if row["way"] != "alone":
            beside = (found[number - 1]["microseconds"] + found[number + 1]["microseconds"]) / 2
            row |= {"alone_microseconds": round(beside, 1), "ratio": round(row["microseconds"] / beside, 2)}
        print(row, flush=True)
        put_row("engine_streams", HEADING, row, ("way", "series"))


def in_a_process(way: str, chosen: argparse.Namespace) -> dict[str, Any]:
    """Measure one way in a process of its own, with one thread for each compiled call, as workers have."""
    options = ["--series", str(chosen.series), "--batches", str(chosen.batches)]
    command = [sys.executable, "-m", "benchmarks.engines.streaming", way, *options]
    said = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=os.environ | ONE_THREAD).stdout
    return json.loads(said.splitlines()[-1])


def measure(way: str, num_series: int, num_batches: int) -> dict[str, Any]:
    """Return the row of one way."""
    with tempfile.TemporaryDirectory(prefix="engines-") as name, Footprint() as footprint:
        marks = Marks(footprint)
        WAYS[way](Path(name), num_series, num_batches, marks)
        states = make_versions(FILTER, f"{name}/states").read()
        assert len(states) == num_series and set(states["seq"].to_pylist()) == {num_batches}, "events were lost"
    row = {"way": way, "filter": FILTER, "series": num_series}
    row |= {"state_bytes": table(FILTER).state_schema.field("state").type.byte_width, "batches": num_batches}
    return row | marks.row(num_series)


if __name__ == "__main__":
    main()

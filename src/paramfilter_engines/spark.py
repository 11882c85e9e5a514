"""A fleet in Spark: a function for `foreachBatch`, or for one batch.

    stream = events.writeStream.foreachBatch(Advance(make_versions, sink, parts=8))
    stream.option("checkpointLocation", ...).start()

Batch n makes version n of the states. Spark's checkpoint holds the offsets of batch n before it starts, so whatever is
killed, the batch is done again with the same events, and gives the same bytes.
"""

from __future__ import annotations

import functools
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa

from paramfilter.errors import DataError, extra
from paramfilter.tables import Versions
from paramfilter_engines.parts import Batch, Driver, Worker, rows_schema

SQL_TYPES = {pa.string(): "string", pa.int64(): "bigint", pa.float32(): "float", pa.float64(): "double"}

_workers: dict[str, Worker] = {}
"""Of this Python worker, which outlives its tasks: compiled code and states stay."""


class Advance:
    """Advance a fleet by the events of a batch; call it with a data frame and the batch's number.

    Args:
        make_versions: Makes the versions of the states, with their table; called in the driver and in each worker.
        sink: Writes the rows of a batch, given a data frame and the batch's number. A batch that is done again comes
            with the same number and the same rows, so a sink overwrites by number, or by (series, seq).
        parts: Number of tasks of a batch. It may change when the query is started again.
        first: Version that batch 0 makes; 1 if a backfill has made version 0.
        last_only: Give the sink the last step of each series in a batch, and not the steps before it.
    """

    def __init__(
        self,
        make_versions: Callable[[], Versions],
        sink: Callable[[Any, int], None],
        parts: int = 2,
        first: int = 0,
        last_only: bool = False,
    ):
        self.driver = Driver(make_versions(), parts)
        self.sink, self.first = sink, first
        table = self.driver.versions.table
        self._names = table.event_schema.names
        self._schema = ", ".join(f"`{field.name}` {SQL_TYPES[field.type]}" for field in rows_schema(table))
        self._work = functools.partial(_work, uuid.uuid4().hex, make_versions, last_only)
        self._keys: list[int] = []

    def __call__(self, events: Any, number: int) -> None:
        """Advance by a batch: give its rows to the sink, and make its version."""
        names = [name for name in self._names if name in events.columns]
        if "place" not in names:
            raise DataError(
                "Spark does not keep the order of rows: give events a column place, such as the offset in Kafka."
            )
        placed = self._placed(events.select(*names))
        with self.driver.batch(number + self.first) as batch:
            self.sink(placed.mapInArrow(functools.partial(self._work, batch), self._schema), number)

    def _placed(self, events: Any) -> Any:
        """Send each event to the task whose number is the part of its series.

        Spark places a row by the hash of a key. A key for each task is found by hashing some.
        """
        functions = extra("pyspark.sql.functions", "spark")
        parts, groups = self.driver.parts, self.driver.versions.table.groups
        if not self._keys:
            tried = events.sparkSession.range(20 * parts + 100).select(functions.col("id").cast("int"))
            found = tried.select("id", functions.pmod(functions.hash("id"), functions.lit(parts)).alias("task"))
            keys = {row["task"]: row["id"] for row in found.collect()}
            self._keys = [keys[task] for task in range(parts)]
        group = functions.pmod(functions.crc32(functions.col("series").cast("binary")), functions.lit(groups))
        part = functions.floor(functions.coalesce(group, functions.lit(0)) * parts / groups).cast("int")
        key = functions.element_at(functions.array(*map(functions.lit, self._keys)), part + 1)
        return events.repartition(parts, key)


def _work(
    key: str,
    make_versions: Callable[[], Versions],
    last_only: bool,
    batch: Batch,
    batches: Iterator[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """Do the part of a batch that is this task's."""
    part = extra("pyspark", "spark").TaskContext.get().partitionId()
    if key not in _workers:
        _workers.clear()
        _workers[key] = Worker(make_versions)
    found = list(batches)
    events = pa.Table.from_batches(found) if found else None
    yield from _workers[key].work(batch, part, events, last_only).to_batches()

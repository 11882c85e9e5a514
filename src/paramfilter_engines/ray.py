"""A fleet in Ray: actors that have a range of groups each, for a stream; tasks of one group each, for a backfill.

    stream = Stream(make_versions, sink, actors=4)
    for events, position in read_log(start=stream.position):
        stream.advance(events, position)

A version holds the position of the log behind its events, in the same object that makes it a version. So whatever is
killed, the log is read from where the newest version ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from paramfilter.errors import DataError, extra
from paramfilter.tables import Versions, group_of
from paramfilter_engines.parts import ONE_THREAD, Batch, Driver, Worker


class Stream:
    """Advance a fleet by one batch of a log after the other.

    Args:
        make_versions: Makes the versions of the states, with their table; it is called here and in each actor.
        sink: Writes the rows of a batch, given a table and the number of its version. A batch that was cut off comes
            again with the same number, so a sink overwrites by number, or by (series, seq).
        actors: How many there are; each has a range of groups. It may change from one start to the next.
        options: Of each actor, as `ray.remote` takes them.

    Attributes:
        position: Of the log, behind the newest version; None if there is no version.
        actors: Handles of the actors.
    """

    def __init__(
        self,
        make_versions: Callable[[], Versions],
        sink: Callable[[pa.Table, int], None],
        actors: int = 2,
        **options: Any,
    ):
        ray = _started(actors)
        self.driver, self.sink = Driver(make_versions(), actors), sink
        self.number, self.position = self.driver.versions.newest(), self.driver.versions.position()
        # An actor that dies starts again, reads the states of its range, and does its part again.
        alone = {"num_cpus": 1, "runtime_env": {"env_vars": ONE_THREAD}}
        options = alone | {"max_restarts": -1, "max_task_retries": -1} | options
        actor = ray.remote(**options)(Worker)
        self.actors = [actor.remote(make_versions, 1) for _ in range(actors)]

    def advance(self, events: pa.Table, position: Any) -> None:
        """Make the next version: advance by a batch, give its rows to the sink, and keep the position behind it."""
        groups, number = self.driver.versions.table.groups, self.number + 1
        part = part_of(events["series"], groups, len(self.actors))
        with self.driver.batch(number, position) as batch:
            mine = [events.filter(pa.array(part == one)) for one in range(len(self.actors))]
            work = [actor.work.remote(batch, one, mine[one]) for one, actor in enumerate(self.actors)]
            self.sink(pa.concat_tables(_started().get(work)), number)
        self.number, self.position = number, position

    def close(self) -> None:
        """End the actors."""
        for actor in self.actors:
            _started().kill(actor)


def backfill(
    events: Any,
    make_versions: Callable[[], Versions],
    sink: Callable[[Any], None],
    workers: int = 2,
    last_only: bool = True,
    partitions: int = 16,
    position: Any = None,
) -> None:
    """Make the first version of the states of all events.

    Args:
        events: A Ray dataset, with a column `place`; a shuffle loses the order of rows.
        make_versions: Makes the versions of the states, with their table; it is called here and in each worker.
        sink: Writes the rows, given a dataset.
        workers: How many there are.
        last_only: Give the sink the last step of each series, and not the steps before it.
        partitions: Of the shuffle, as many as it takes for one to fit in a worker's memory.
        position: Of the log, behind these events, from which a `Stream` continues.
    """
    _started(workers)
    if "place" not in events.columns():
        raise DataError(f"a backfill needs a column place, the order of events; there are {events.columns()}.")
    versions = make_versions()
    groups = versions.table.groups
    parted = events.map_batches(_with_part, batch_format="pyarrow", fn_kwargs={"groups": groups})
    with Driver(versions, groups).batch(0, position) as batch:
        rows = parted.groupby("part", num_partitions=partitions).map_groups(
            _Backfiller,
            batch_format="pyarrow",
            fn_constructor_args=(make_versions, batch, last_only),
            concurrency=workers,
            runtime_env={"env_vars": ONE_THREAD},
        )
        sink(rows)


class _Backfiller:
    """Does one group after the other."""

    def __init__(self, make_versions: Callable[[], Versions], batch: Batch, last_only: bool):
        self.worker, self.batch, self.last_only = Worker(make_versions, 0), batch, last_only

    def __call__(self, events: pa.Table) -> pa.Table:
        part = events["part"][0].as_py()
        return self.worker.work(self.batch, part, events.drop_columns("part"), self.last_only)


def _with_part(events: pa.Table, groups: int) -> pa.Table:
    return events.append_column("part", pa.array(part_of(events["series"], groups, groups)))


def part_of(series: pa.ChunkedArray, groups: int, parts: int) -> np.ndarray:
    """Return the part of each series of a column."""
    names = series.combine_chunks().dictionary_encode()
    part = group_of(names.dictionary, groups).astype(np.int64) * parts // groups
    return part[names.indices.to_numpy(zero_copy_only=False)]


def _started(workers: int = 1) -> Any:
    """Return Ray; one that is started here is for this machine alone, and has room for so many workers."""
    ray = extra("ray", "ray")
    if not ray.is_initialized():
        ray.init(num_cpus=workers + 1, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    return ray

"""What the engines share: the work on a version, the worker that does a part of it, the driver that commits it.

A part is a range of groups. A worker has the states of its groups from the batch before, or reads them; it advances
them, and writes the rows that changed under a name that no version lists yet. When all parts are there, the driver
writes the version's list of them, which no other driver may have written. What dies before that has done nothing, and
what is done again gives the same bytes.
"""

from __future__ import annotations

import contextlib
import os
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from paramfilter.errors import StoreError
from paramfilter.tables import StateTable, Versions, group_of, merged
from paramfilter.tables.rows import pc

ONE_THREAD = {"XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1", "OMP_NUM_THREADS": "1"}
"""Environment of a worker, which shares its machine with others."""


@dataclass(frozen=True)
class Batch:
    """The work on one version.

    Attributes:
        number: Of the version.
        parts: Into how many ranges the groups are cut.
        attempt: Of the driver; another one after a batch that has failed, so that no worker uses what it kept of that.
        is_again: Whether the version is there, so that only the rows are made again.
        is_whole: Whether the version keeps all states rather than those that changed.
    """

    number: int
    parts: int
    attempt: str
    is_again: bool
    is_whole: bool

    def range_of(self, part: int, groups: int) -> range:
        """Return the groups of a part: those for which `group * parts // groups` is the part."""
        return range(-(-part * groups // self.parts), -(-(part + 1) * groups // self.parts))


class Driver:
    """Makes one version after the other of what workers have written.

    Args:
        versions: Of the states.
        parts: Into how many ranges the groups are cut.
    """

    def __init__(self, versions: Versions, parts: int):
        self.versions, self.parts, self.attempt = versions, parts, uuid.uuid4().hex
        self._number, self._name = versions.newest(), versions.name()

    @contextlib.contextmanager
    def batch(self, number: int, position: Any = None) -> Iterator[Batch]:
        """Give the work on a version, the next or the newest once more; make it when the work is done.

        Args:
            number: Of the version.
            position: Where the log continues behind the batch, to be kept with the version.
        """
        if number not in (self._number, self._number + 1):
            raise StoreError(
                f"the newest version of the states is {self._number}, and this batch would make version {number}. The "
                "checkpoint belongs to other states. Use the checkpoint of these states, or another folder."
            )
        is_whole = self.versions.is_due(self._name)
        batch = Batch(number, self.parts, self.attempt, number == self._number, is_whole)
        try:
            yield batch
            if not batch.is_again:
                parts = self.versions.put_by(number, self.attempt)
                self._name = self.versions.commit(number, parts, position, before=self._name)
                self._number = number
        except BaseException:
            self.attempt = uuid.uuid4().hex
            raise


class Worker:
    """Does parts of batches, and keeps the states of its ranges between them.

    Args:
        make_versions: Makes the versions, with their table.
        ranges_kept: Of how many ranges the states are kept in memory; each is a cache with the number of its version.
    """

    def __init__(self, make_versions: Callable[[], Versions], ranges_kept: int = 4):
        for name, value in ONE_THREAD.items():
            os.environ.setdefault(name, value)  # read when JAX starts, which is later
        self.versions, self.ranges_kept = make_versions(), ranges_kept
        self._attempt, self._resident = "", dict[range, tuple[int, pa.Table]]()

    def work(self, batch: Batch, part: int, events: pa.Table | None, last_only: bool = False) -> pa.Table:
        """Do a part of a batch, and return the rows that it gives: outputs, and events that were put aside."""
        table = self.versions.table
        groups = batch.range_of(part, table.groups)
        if batch.attempt != self._attempt:
            self._attempt, self._resident = batch.attempt, {}
        states = self._states(batch.number - 1, groups)
        if events is None or not len(events):
            changed, said = table.empty(), rows_schema(table).empty_table()
        else:
            self._require_mine(events, groups)
            changed, outputs, aside = table.advance(states, events)
            outputs = last_steps(outputs) if last_only else outputs
            said = pa.concat_tables([outputs, aside], promote_options="default").select(rows_schema(table).names)
        states = merged(states, changed)
        if batch.is_again:
            self._require_same(batch.number, groups, changed)
        elif batch.is_whole or len(changed):
            rows, whole = (states, groups) if batch.is_whole else (changed, None)
            self.versions.put(batch.number, rows, whole, batch.attempt)
        self._keep(groups, batch.number, states)
        return said

    def process(self) -> int:
        """Return the number of this worker's process."""
        return os.getpid()

    def _states(self, number: int, groups: range) -> pa.Table:
        kept, states = self._resident.pop(groups, (-1, None))
        if kept == number and states is not None:
            return states
        if kept > number or states is None:
            return self.versions.read(number, groups)
        return merged(states, self.versions.read(number, groups, since=kept))

    def _keep(self, groups: range, number: int, states: pa.Table) -> None:
        self._resident[groups] = number, states.combine_chunks()
        while len(self._resident) > self.ranges_kept:
            del self._resident[next(iter(self._resident))]

    def _require_mine(self, events: pa.Table, groups: range) -> None:
        name = events["series"][0].as_py()
        if name and group_of(name, self.versions.table.groups) not in groups:
            raise StoreError(f"series {name} is not of groups {groups}: the engine has sent it to another task.")

    def _require_same(self, number: int, groups: range, changed: pa.Table) -> None:
        """Compare a part that is done again with the version that is there."""
        there = self.versions.read(number, groups)
        there = there.filter(pc.is_in(there["series"], value_set=changed["series"].combine_chunks()))
        if not there.sort_by("series").equals(changed.sort_by("series")):
            raise StoreError(
                f"version {number} of the states was made of other events than this batch. The checkpoint belongs to "
                "other states, or another driver writes these. Stop one of them, or use another folder."
            )


def last_steps(outputs: pa.Table) -> pa.Table:
    """Return the last step of each series."""
    last = (
        outputs.append_column("row", pa.array(range(len(outputs))))
        .group_by("series", use_threads=False)
        .aggregate([("row", "last")])
    )
    return outputs.take(last["row_last"])


def rows_schema(table: StateTable) -> pa.Schema:
    """Return the columns of what workers return: of outputs, and those that only events put aside have."""
    more = [field for field in table.aside_schema if field.name not in table.output_schema.names]
    return pa.schema([*table.output_schema, *more])

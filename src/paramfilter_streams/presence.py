"""Which series are in memory, and how many there may be.

If there may be more series than there is room for, those that had no event for the longest time leave the memory when
room is needed: their rows are in the store, or on their way to it, and come back from there with their next event, to
the last bit.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from paramfilter.errors import DataError
from paramfilter_streams.events import RefusedEvent
from paramfilter_streams.ordering import Ledger
from paramfilter_streams.records import Partition
from paramfilter_streams.residents import ROWS_AT_A_TIME, Residents
from paramfilter_streams.store import Store

Row = tuple[str, Ledger, bytes]
"""Name, ledger and state of a series."""


@dataclass(frozen=True)
class Limits:
    """How many series there may be, and for how long.

    Args:
        most_series: How many series the store may hold. None allows as many as there is room for in memory.
        forget_after: Seconds without an event, by the clock of the log, after which a series starts from the prior
            again. None never forgets.
        quotas: How many series there may be whose names begin with a text, such as that of a tenant. The longest text
            that fits counts. None limits no prefix.
    """

    most_series: int | None = None
    forget_after: float | None = None
    quotas: Mapping[str, int] | None = None

    def __post_init__(self):
        numbers = [self.most_series or 0, self.forget_after or 0, *(self.quotas or {}).values()]
        if any(type(one) not in (int, float) or one < 0 for one in numbers):
            raise DataError("most_series, forget_after and quotas are numbers, 0 or more.")

    def quota_of(self, name: str) -> tuple[str, int] | None:
        """Return the text whose quota a series counts for, and the quota."""
        found = [one for one in (self.quotas or {}).items() if name.startswith(one[0])]
        return max(found, key=lambda one: len(one[0]), default=None)


class Presence[States: Residents]:
    """The series of a worker, in memory and in its store.

    Args:
        residents: The states in memory.
        store: Where the others are.
        limits: How many there may be.
    """

    def __init__(self, residents: States, store: Store, limits: Limits):
        self.residents, self.limits = residents, limits
        self.ledgers: dict[str, Ledger] = {}
        """Of the series in memory; if some may leave, the one that has been idle for longest is first."""
        self._store = store
        self._most = residents.room if limits.most_series is None else limits.most_series
        self._may_leave = self._most > residents.room
        self._num_series, self._by_prefix = 0, Counter[str]()
        self._partitions: Mapping[str, Partition] = {}
        self._in_batch: set[str] = set()
        self._new: list[str] = []
        self._coming: dict[str, bytes] = {}
        self._left: dict[str, tuple[Ledger, bytes]] = {}

    def recover(self, partitions: Mapping[str, Partition]) -> None:
        """Take up the series of the store; only count them if not all must be in memory.

        Args:
            partitions: The worker's own, by name.
        """
        self._partitions = partitions
        if self._may_leave:
            for name in self._store.series():
                self._count(name)
            return
        here = (row for row in self._store.rows() if not partitions[row[1].partition].has_given(row[0]))
        for some in itertools.batched(here, ROWS_AT_A_TIME):
            for name, ledger, _ in some:
                self.ledgers[name] = ledger
                self._count(name)
            self._take_up({name: row for name, _, row in some})

    def has_room_for(self, num_events: int) -> bool:
        """Tell whether the series of so many more events surely fit into memory, with those of the batch so far."""
        return not self._may_leave or len(self._in_batch) + num_events <= self.residents.room

    def find(self, name: str) -> Ledger | None:
        """Return the ledger of a series that has an event; None if there is no such series."""
        ledger = self.ledgers.get(name)
        if not self._may_leave:
            return ledger
        if ledger is None:
            if name in self._left:
                ledger, row = self._left.pop(name)
            else:
                ledger, row = self._store.row(name) or (None, b"")
            if ledger is None or self._partitions[ledger.partition].has_given(name):
                return None
            self._coming[name] = row
        self._touch(name, ledger)
        return ledger

    def add(self, name: str, partition: str) -> Ledger:
        """Return the ledger of a new series.

        Raises:
            RefusedEvent: There are as many as there may be.
        """
        if self._num_series >= self._most:
            raise RefusedEvent(f"there is room for {self._most} series and no more")
        prefix, quota = self.limits.quota_of(name) or ("", self._most)
        if self._by_prefix[prefix] >= quota:
            raise RefusedEvent(f"the quota of {quota} series for this prefix is used up")
        self._count(name)
        self._new.append(name)
        ledger = Ledger(partition)
        self._touch(name, ledger)
        return ledger

    def settle(self, unsaved: Collection[str]) -> None:
        """Bring the states of the batch into memory.

        Args:
            unsaved: Series whose rows in the store are not, or perhaps not, those in memory.
        """
        too_many = len(self.ledgers) - self.residents.room
        if too_many > 0:
            self._let_go(list(itertools.islice(self.ledgers, too_many)), unsaved)
        self._take_up(self._coming)
        if self._new:
            self.residents.start(self._new)
        self._new, self._coming, self._in_batch = [], {}, set()

    def rows(self, names: Sequence[str]) -> list[Row]:
        """Return copies of some series, in memory or on their way out."""
        here = [name for name in names if name in self.ledgers]
        found = [
            (name, ledger.copy(), row) for name in names if name in self._left for ledger, row in [self._left[name]]
        ]
        if here:
            packed = self.residents.rows(here)
            found += [(name, self.ledgers[name].copy(), row.tobytes()) for name, row in zip(here, packed, strict=True)]
        return sorted(found, key=lambda row: row[0])

    def saved(self, unsaved: Collection[str]) -> None:
        """Hear that all rows but some are in the store now."""
        self._left = {name: one for name, one in self._left.items() if name in unsaved}

    def _touch(self, name: str, ledger: Ledger) -> None:
        if self._may_leave:
            self.ledgers.pop(name, None)
            self._in_batch.add(name)
            if len(self._in_batch) > self.residents.room:
                raise DataError(
                    f"one message of the log has events of more than room={self.residents.room} series; give more room."
                )
        self.ledgers[name] = ledger

    def _let_go(self, names: Sequence[str], unsaved: Collection[str]) -> None:
        """Drop series from memory; they are not of this batch, since that is at the end."""
        keep = [name for name in names if name in unsaved]
        packed = self.residents.rows(keep) if keep else ()
        self._left |= {name: (self.ledgers[name], row.tobytes()) for name, row in zip(keep, packed, strict=True)}
        for name in names:
            del self.ledgers[name]
        self.residents.drop(names)

    def _take_up(self, rows: Mapping[str, bytes]) -> None:
        """Put states into memory; a series without one starts from the prior."""
        stored = {name: row for name, row in rows.items() if row}
        if stored:
            self.residents.put(list(stored), list(stored.values()))
        if len(stored) < len(rows):
            self.residents.start([name for name, row in rows.items() if not row])

    def _count(self, name: str) -> None:
        self._num_series += 1
        found = self.limits.quota_of(name)
        if found is not None:
            self._by_prefix[found[0]] += 1

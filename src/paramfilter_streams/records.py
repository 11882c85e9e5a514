"""The records of a store: what they hold, and how they stand in bytes.

Each record carries a checksum over its key and content. A record that has its checksum and still says what no commit
would have written is refused by `ValueError`, which the store puts into its own words.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypedDict

from paramfilter_streams.events import Event
from paramfilter_streams.groups import NUM_GROUPS, key_group
from paramfilter_streams.logs import Position
from paramfilter_streams.ordering import Fate, Ledger

CHECKSUM = struct.Struct("<I")
_LEDGER, _SEEN, _EPOCH = struct.Struct("<BQQBI"), struct.Struct("<d"), struct.Struct("<QQ")
_HAS_OLD_GAPS, _HAS_SEEN, _HAS_EPOCH = 1, 2, 4


class Leaving(TypedDict):
    """A move that has begun and not ended.

    Attributes:
        store: The name that the target store gave itself.
        groups: The key groups that move; None if the whole partition moves.
        to: The partition that the groups move to.
    """

    store: str
    groups: list[int] | None
    to: str


@dataclass
class Partition:
    """How far a partition has been read, how its events ended, and what of it has moved to another store.

    Attributes:
        offset: Where to go on.
        source: What the offset belongs to, in the words of the log; empty before the first read.
        counts: How many events ended in each way.
        received: How many events there were.
        filled: Steps that were taken without an event.
        num_series: Series whose events stand in it.
        epoch: How often something of it has moved away, in all stores together.
        is_gone: Whether another store owns it now.
        given: Key groups whose series now belong to another partition.
        taken: From which partitions key groups have come, and the epoch of the last move from each.
        leaving: A move that has begun and not ended, or None.
    """

    offset: int = 0
    source: str = ""
    counts: dict[str, int] = field(default_factory=lambda: {fate.value: 0 for fate in Fate})
    received: int = 0
    filled: int = 0
    num_series: int = 0
    epoch: int = 0
    is_gone: bool = False
    given: tuple[int, ...] = ()
    taken: Mapping[str, int] = field(default_factory=dict)
    leaving: Leaving | None = None

    def copy(self) -> Partition:
        """Return the same, which stays as it is when this one goes on."""
        return replace(self, counts=dict(self.counts))

    @property
    def position(self) -> Position:
        """Where to go on, as the log needs it."""
        return Position(self.offset, self.source)

    @property
    def waiting(self) -> int:
        """Events that have not ended yet: they wait for one before them."""
        return self.received - sum(self.counts.values())

    def has_given(self, series: str) -> bool:
        """Tell whether a series is no longer taken from this partition."""
        return self.is_gone or (bool(self.given) and key_group(series) in self.given)


class Quarantined(NamedTuple):
    """A line that was put aside, and why.

    Attributes:
        partition: Where it came from.
        number: The how-manieth that was put aside there.
        reason: Why.
        raw: Its bytes, the first of them if it was large.
    """

    partition: str
    number: int
    reason: str
    raw: bytes


class Commit(NamedTuple):
    """What becomes durable at once.

    Attributes:
        rows: Name, ledger and state of each series that has changed.
        partitions: All partitions that have moved, by name.
        posteriors: Name, sequence number and content of each new posterior.
        quarantined: What was put aside.
        deleted: Series that are removed, with their posteriors, before anything is written.
        emptied: Partitions whose quarantine is removed.
    """

    rows: Iterable[tuple[str, Ledger, bytes]]
    partitions: Mapping[str, Partition]
    posteriors: Iterable[tuple[str, int, bytes]] = ()
    quarantined: Iterable[Quarantined] = ()
    deleted: Iterable[str] = ()
    emptied: Iterable[str] = ()


def sealed(key: bytes, content: bytes) -> bytes:
    """Return a record with its checksum."""
    return CHECKSUM.pack(zlib.crc32(content, zlib.crc32(key))) + content


def ledger_bytes(ledger: Ledger) -> bytes:
    """Return a ledger as bytes; the state of its series follows them."""
    held = json.dumps([list(event) for event in ledger.held.values()]).encode() if ledger.held else b""
    partition = ledger.partition.encode()
    seen = b"" if ledger.seen is None else _SEEN.pack(ledger.seen)
    epoch = _EPOCH.pack(ledger.epoch, ledger.base) if ledger.epoch else b""
    flags = _HAS_OLD_GAPS * ledger.has_old_gaps | _HAS_SEEN * bool(seen) | _HAS_EPOCH * bool(epoch)
    head = _LEDGER.pack(len(partition), ledger.sequence, ledger.gaps, flags, len(held))
    return head + partition + held + seen + epoch


_OF_MOVES = ("epoch", "is_gone", "given", "taken", "leaving")


def partition_bytes(partition: Partition) -> bytes:
    """Return a partition as bytes; fields that say that nothing has moved are left out."""
    said = {name: value for name, value in vars(partition).items() if value or name not in _OF_MOVES}
    return json.dumps(said).encode()


def partition_of(content: bytes) -> Partition:
    """Read a partition."""
    partition = Partition(**json.loads(content))
    partition.given = tuple(partition.given)
    numbers = [partition.offset, partition.received, partition.filled, partition.num_series, *partition.counts.values()]
    numbers += [partition.epoch, *partition.taken.values()]
    if not all(type(one) is int and 0 <= one < NUM_GROUPS for one in partition.given):
        raise ValueError("key groups are small numbers")
    if not isinstance(partition.source, str):
        raise ValueError("a source is a text")
    if partition.counts.keys() != set(Fate) or not all(type(one) is int and one >= 0 for one in numbers):
        raise ValueError("a partition has counts of events")
    return partition


def ledger_of(content: bytes) -> tuple[Ledger, int]:
    """Read a ledger, and say where the state begins."""
    length, sequence, gaps, flags, held_size = _LEDGER.unpack_from(content)
    start = _LEDGER.size + length
    end = start + held_size
    if end > len(content) or flags > _HAS_OLD_GAPS | _HAS_SEEN | _HAS_EPOCH:
        raise ValueError("a series is shorter than it says")
    held = {event.sequence: event for event in (Event(*one) for one in json.loads(content[start:end] or b"[]"))}
    name, has_old_gaps = content[_LEDGER.size : start].decode(), bool(flags & _HAS_OLD_GAPS)
    ledger = Ledger(name, sequence, gaps, has_old_gaps, held)
    if flags & _HAS_SEEN:
        (ledger.seen,) = _SEEN.unpack_from(content, end)
        end += _SEEN.size
    if flags & _HAS_EPOCH:
        ledger.epoch, ledger.base = _EPOCH.unpack_from(content, end)
        end += _EPOCH.size
    return ledger, end

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
from typing import NamedTuple

from paramfilter_streams.events import Event
from paramfilter_streams.logs import Position
from paramfilter_streams.ordering import Fate, Ledger

CHECKSUM = struct.Struct("<I")
_LEDGER = struct.Struct("<BQQ?I")


@dataclass
class Partition:
    """How far a partition has been read, and how its events ended.

    Attributes:
        offset: Where to go on.
        source: What the offset belongs to, in the words of the log; empty before the first read.
        counts: How many events ended in each way.
        received: How many events there were.
        filled: Steps that were taken without an event.
        num_series: Series whose events stand in it.
    """

    offset: int = 0
    source: str = ""
    counts: dict[str, int] = field(default_factory=lambda: {fate.value: 0 for fate in Fate})
    received: int = 0
    filled: int = 0
    num_series: int = 0

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
    """

    rows: Iterable[tuple[str, Ledger, bytes]]
    partitions: Mapping[str, Partition]
    posteriors: Iterable[tuple[str, int, bytes]] = ()
    quarantined: Iterable[Quarantined] = ()


def sealed(key: bytes, content: bytes) -> bytes:
    """Return a record with its checksum."""
    return CHECKSUM.pack(zlib.crc32(content, zlib.crc32(key))) + content


def ledger_bytes(ledger: Ledger) -> bytes:
    """Return a ledger as bytes; the state of its series follows them."""
    held = json.dumps([list(event) for event in ledger.held.values()]).encode() if ledger.held else b""
    partition = ledger.partition.encode()
    head = _LEDGER.pack(len(partition), ledger.sequence, ledger.gaps, ledger.has_old_gaps, len(held))
    return head + partition + held


def partition_of(content: bytes) -> Partition:
    """Read a partition."""
    partition = Partition(**json.loads(content))
    numbers = [partition.offset, partition.received, partition.filled, partition.num_series, *partition.counts.values()]
    if not isinstance(partition.source, str):
        raise ValueError("a source is a text")
    if partition.counts.keys() != set(Fate) or not all(type(one) is int and one >= 0 for one in numbers):
        raise ValueError("a partition has counts of events")
    return partition


def ledger_of(content: bytes) -> tuple[Ledger, int]:
    """Read a ledger, and say where the state begins."""
    length, sequence, gaps, has_old_gaps, held_size = _LEDGER.unpack_from(content)
    start = _LEDGER.size + length
    if start + held_size > len(content):
        raise ValueError("a series is shorter than it says")
    held = [Event(*one) for one in json.loads(content[start : start + held_size] or b"[]")]
    ledger = Ledger(
        content[_LEDGER.size : start].decode(), sequence, gaps, has_old_gaps, {event.sequence: event for event in held}
    )
    return ledger, start + held_size

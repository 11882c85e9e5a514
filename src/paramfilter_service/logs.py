"""Where events come from: a log with partitions, read from a position.

A log keeps its messages and gives them again to a reader that asks from an earlier position. Nothing else is needed of
it: the positions that have been processed are in our own store, in the transaction that holds the states they led to.

An offset means nothing by itself: a file may be replaced and a stream made again. A position therefore also names its
source, in the words of the log, and a log refuses a position that does not fit what it holds now. A message that was
deleted before it was read stops the service; nothing is skipped.
"""

from typing import NamedTuple

import msgspec

FIRST = 0
"""Where a partition begins."""

WAY_OUT = (
    "To continue with what the log holds, stop the service and run: "
    "python -m sqlite3 STORE \"DELETE FROM positions WHERE partition = 'NAME'\". The partition is then read from its "
    "start: events that were processed count as duplicates, and gaps in the sequence numbers show what is missing."
)


class LogUnreachableError(Exception):
    """The log does not answer; ask again later."""


class Position(NamedTuple):
    """Where to continue in a partition.

    Attributes:
        offset: The offset of a message; a number that grows, within one source.
        source: What the offset belongs to, such as a file or the time at which a stream was made; empty at the start.
        line: How many lines of that message have been processed.
    """

    offset: int = FIRST
    source: str = ""
    line: int = 0


class Message(NamedTuple):
    """Some lines of a partition.

    Attributes:
        partition: The name of the partition.
        start: The position of the first line.
        raw: The lines; None if a stretch of the log holds nothing for us.
        next: The position after the last line.
    """

    partition: str
    start: Position
    raw: bytes | None
    next: Position


class Log(msgspec.Struct, tag_field="kind", forbid_unknown_fields=True, dict=True, eq=False):
    """A source of messages that can be read again. Its fields are the keys of `[log]` in a configuration.

    Attributes:
        partitions: The names of the partitions that there are now.
        lag: How much has not been read, in messages or in bytes of files; None if unknown.
    """

    def __post_init__(self):
        self.lag: int | None = None

    @property
    def partitions(self) -> list[str]:
        raise NotImplementedError

    def read(self, positions: dict[str, Position], at_most: int, wait: float) -> list[Message]:
        """Return messages from these positions on, those of each partition in order.

        Args:
            positions: Where to continue in each partition.
            at_most: How many messages to return, roughly.
            wait: For how many seconds to wait for a first one.

        Raises:
            LogUnreachableError: The log does not answer.
            DataError: The log does not hold what comes next, or cannot be read at all.
        """
        raise NotImplementedError

    def close(self) -> None:
        """Close what is open; a second call does nothing."""

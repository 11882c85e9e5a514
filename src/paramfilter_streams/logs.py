"""Where events come from: a log with partitions, read from an offset.

A log keeps its messages and gives them again to whoever asks from an earlier offset. That is all that is needed of
it: which offsets have been dealt with stands in our own store, beside the states that they led to. A partition is a
name, an offset a whole number; all events of one series stand in one partition.

An offset means nothing by itself: a file may be replaced and a stream made again. So a position also holds what the
offset belongs to, in the words of the log, and a log refuses a position that does not fit what it holds now. What was
deleted before it was read stops the worker; nothing is skipped.
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from paramfilter_streams.events import LARGEST_EVENT

FIRST = 0
"""Where a partition begins."""

CHUNK = 1 << 20
"""Bytes that are read from a file at a time."""

WAY_OUT = (
    "To go on with what is left, stop the worker and run `paramfilter streams reset STORE --partition NAME`; sequence "
    "numbers then show what is missing."
)
"""What an operator can do if a log no longer holds what comes next."""


class LogUnreachableError(Exception):
    """The log is away; ask again later."""


class Position(NamedTuple):
    """Where to go on in a partition.

    Attributes:
        offset: A number that grows, within one source.
        source: What the offset belongs to, such as a file or the time at which a stream was made; empty at the start.
    """

    offset: int = FIRST
    source: str = ""


class Message(NamedTuple):
    """Some lines of a log.

    Attributes:
        partition: Where it stands.
        next_offset: Where the one after it stands.
        raw: Its lines; None if there is nothing for us up to there.
        source: What the offset belongs to.
        time: When the log got it, in seconds, the same whenever it is read; None if the log does not say.
    """

    partition: str
    next_offset: int
    raw: bytes | None
    source: str = ""
    time: float | None = None

    @property
    def next(self) -> Position:
        """The position after it."""
        return Position(self.next_offset, self.source)

    def is_before(self, position: Position | None) -> bool:
        """Tell whether it ends at or before a position of the same source."""
        return position is not None and self.source == position.source and self.next_offset <= position.offset


@runtime_checkable
class Log(Protocol):
    """A source of messages that can be read again."""

    @property
    def partitions(self) -> Sequence[str]:
        """The names of the partitions that there are now."""
        ...

    @property
    def lag(self) -> int | None:
        """How much has not been read, in messages or in bytes of files; None if that is not known."""
        ...

    def read(self, positions: Mapping[str, Position], at_most: int, wait: float) -> list[Message]:
        """Return messages from these positions on, each partition's in order.

        Args:
            positions: Where to go on in each partition that has been read, or is to be read.
            at_most: How many messages, roughly.
            wait: For how many seconds to wait for a first one.

        Raises:
            LogUnreachableError: The log is away.
            DataError: The log does not hold what comes next, or cannot be read at all.
        """
        ...

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Hear that all before these offsets is durable; for the log's own bookkeeping only."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


class PipeLog:
    """Lines from a pipe, such as standard input: one partition, numbered by line.

    A pipe cannot be read again, so lines that were read and not yet durable when a process dies are lost; sequence
    numbers tell that they are.
    """

    lag = None

    def __init__(self, descriptor: int = 0):
        self.descriptor = descriptor
        self.has_ended = False
        self._rest = b""

    @property
    def partitions(self) -> Sequence[str]:
        """One."""
        return ["pipe"]

    def read(self, positions: Mapping[str, Position], at_most: int, wait: float) -> list[Message]:
        """Return the lines that are there, or the first that come."""
        if self.has_ended or not select.select([self.descriptor], [], [], wait)[0]:
            return []
        chunk = os.read(self.descriptor, CHUNK)
        self.has_ended = not chunk
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[: LARGEST_EVENT + 1]  # what is longer is refused anyway
        if self.has_ended and self._rest:
            lines, self._rest = [self._rest], b""
        offset = positions["pipe"].offset
        return [Message("pipe", offset + number + 1, line) for number, line in enumerate(lines)]

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Do nothing: a pipe keeps no books."""

    def close(self) -> None:
        """Leave the pipe to whoever opened it."""

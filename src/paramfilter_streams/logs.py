"""Where events come from: a log with partitions, read from an offset.

A log keeps its messages and gives them again to whoever asks from an earlier offset. That is all that is needed of
it: which offsets have been dealt with stands in our own store, beside the states that they led to. A partition is a
name, an offset a whole number that grows; all events of one series stand in one partition.
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

from paramfilter.errors import DataError
from paramfilter_streams.events import LARGEST_EVENT

FIRST = 0
"""Where a partition begins."""

CHUNK = 1 << 20
"""Bytes that are read from a file at a time."""

_SEGMENT = 1 << 44
"""Room for the offsets of one file; the file's number stands above it."""


class Message(NamedTuple):
    """Some lines of a log.

    Attributes:
        partition: Where it stands.
        next_offset: Where the one after it stands.
        raw: Its lines; None if there is nothing for us up to there.
    """

    partition: str
    next_offset: int
    raw: bytes | None


class Log(Protocol):
    """A source of messages that can be read again."""

    @property
    def partitions(self) -> Sequence[str]:
        """The names of the partitions that there are now."""
        ...

    def read(self, positions: Mapping[str, int], at_most: int, wait: float) -> list[Message]:
        """Return messages from these offsets on, each partition's in order.

        Args:
            positions: Where to go on in each partition that is to be read.
            at_most: How many messages, roughly.
            wait: For how many seconds to wait for a first one.
        """
        ...

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Hear that all before these offsets is durable; for the log's own bookkeeping only."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


class FileLog:
    """A directory of files with JSON lines that others append to.

    Each sub-directory is a partition, or the directory itself if it has none. The files of a partition are read in
    the order of their names; only the last may grow, and a new one must have a name after all others. A line counts
    once its end is there.

    Args:
        path: The directory.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        if not self.path.is_dir():
            raise DataError(f"there is no directory of logs at {path}.")

    @property
    def partitions(self) -> Sequence[str]:
        """The names of the sub-directories; "." if there are none."""
        return sorted(entry.name for entry in self.path.iterdir() if entry.is_dir()) or ["."]

    def read(self, positions: Mapping[str, int], at_most: int, wait: float) -> list[Message]:
        """Return what has been written since; it does not wait."""
        share = max(1, at_most // max(1, len(positions)))
        return [one for name, offset in positions.items() for one in self._read_partition(name, offset, share)]

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Do nothing: files keep no books."""

    def close(self) -> None:
        """Do nothing: files are opened for each read."""

    def _read_partition(self, partition: str, offset: int, at_most: int) -> list[Message]:
        files = sorted((self.path / partition).glob("*.jsonl"))
        found: list[Message] = []
        number, place = divmod(offset, _SEGMENT)
        while number < len(files) and len(found) < at_most:
            for end, line in _lines(files[number], place, at_most - len(found)):
                found.append(Message(partition, number * _SEGMENT + end, line))
                place = end
            if number + 1 == len(files) or place < files[number].stat().st_size:
                break
            number, place = number + 1, 0
        return found


class PipeLog:
    """Lines from a pipe, such as standard input: one partition, numbered by line.

    A pipe cannot be read again, so lines that were read and not yet durable when a process dies are lost; sequence
    numbers tell that they are.
    """

    def __init__(self, descriptor: int = 0):
        self.descriptor = descriptor
        self.has_ended = False
        self._rest = b""

    @property
    def partitions(self) -> Sequence[str]:
        """One."""
        return ["pipe"]

    def read(self, positions: Mapping[str, int], at_most: int, wait: float) -> list[Message]:
        """Return the lines that are there, or the first that come."""
        if self.has_ended or not select.select([self.descriptor], [], [], wait)[0]:
            return []
        chunk = os.read(self.descriptor, CHUNK)
        self.has_ended = not chunk
        *lines, rest = (self._rest + chunk).split(b"\n")
        self._rest = rest[: LARGEST_EVENT + 1]  # what is longer is refused anyway
        if self.has_ended and self._rest:
            lines, self._rest = [self._rest], b""
        (offset,) = positions.values()
        return [Message("pipe", offset + number + 1, line) for number, line in enumerate(lines)]

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Do nothing: a pipe keeps no books."""

    def close(self) -> None:
        """Leave the pipe to whoever opened it."""


def _lines(file: Path, place: int, at_most: int) -> list[tuple[int, bytes]]:
    """Return whole lines from a place on, with the places after them; of a line that is too long only its beginning."""
    found: list[tuple[int, bytes]] = []
    with file.open("rb") as source:
        source.seek(place)
        begun = b""
        while len(found) < at_most:
            chunk = source.read(CHUNK)
            *lines, rest = chunk.split(b"\n")
            for line in lines[: at_most - len(found)]:
                place += len(line) + 1
                found.append((place, (begun + line)[: LARGEST_EVENT + 1]))
                begun = b""
            if len(chunk) < CHUNK or len(found) == at_most:
                break
            place += len(rest)
            begun = (begun + rest)[: LARGEST_EVENT + 1]
    return found

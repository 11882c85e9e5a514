"""A directory of files as a log.

The source of an offset is its file: the file's name and inode, the place and checksum of the last line that was read,
and the latest change of the files before it. So a file that was removed, replaced, cut short or overwritten is seen,
and so is a file that was added or written to behind the reader's back.
"""

from __future__ import annotations

import json
import os
import time
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from paramfilter.errors import DataError
from paramfilter_streams.events import LARGEST_EVENT
from paramfilter_streams.logs import CHUNK, WAY_OUT, Message, Position

CHECKED = 256
"""Bytes of a line, from its start, that a checksum is taken of."""

FIRST_PAUSE, LONGEST_PAUSE = 0.001, 0.1
"""Seconds between two looks at files that do not grow: each pause is twice the one before."""


class Place(NamedTuple):
    """What an offset in a file belongs to.

    Attributes:
        name: The name of the file.
        inode: Its number on the disk.
        last: Where the last line that was read begins.
        checksum: Of that line's first bytes.
        size: How many bytes that was taken of.
        changed: The latest change of the files before this one, in nanoseconds of the file system's clock.
    """

    name: str
    inode: int
    last: int
    checksum: int
    size: int
    changed: int

    def after(self, last: int, line: bytes) -> Place:
        """Return the place after a line was read."""
        start = line[:CHECKED]
        return self._replace(last=last, checksum=zlib.crc32(start), size=len(start))


class FileLog:
    """A directory of files with JSON lines that others append to.

    Each sub-directory is a partition, and so is the directory itself if it has files or no sub-directory. The files of
    a partition are read in the order of their names; only the last may grow, and a new one must have a name after all
    others. A line counts once its end is there, or once there is a later file. Files that have been read may be
    deleted, except the last.

    Args:
        path: The directory.
    """

    def __init__(self, path: str | os.PathLike):
        self.path, self.lag = Path(path), 0
        if not self.path.is_dir():
            raise DataError(f"there is no directory of logs at {path}.")
        self._checked: dict[Path, list[str]] = {}
        self._idle_reads = 0

    @property
    def partitions(self) -> Sequence[str]:
        """The names of the sub-directories; "." for the directory itself."""
        names = sorted(entry.name for entry in self.path.iterdir() if entry.is_dir())
        if any(not name.isprintable() for name in names):
            raise DataError(f"the directory {self.path} holds one whose name is not printable text; rename it.")
        return names if names and not _files(self.path) else [*names, "."]

    def read(self, positions: Mapping[str, Position], at_most: int, wait: float) -> list[Message]:
        """Return what has been written since; wait a moment if there was nothing the last time."""
        if self._idle_reads:
            time.sleep(min(wait, LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._idle_reads, 10)))
        share, lag = max(1, at_most // max(1, len(positions))), 0
        found = []
        for name, position in positions.items():
            messages, left = self._read_partition(name, position, share)
            found += messages
            lag += left
        self._idle_reads = 0 if found else self._idle_reads + 1
        self.lag = lag
        return found

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Do nothing: files keep no books."""

    def close(self) -> None:
        """Do nothing: files are opened for each read."""

    def _read_partition(self, partition: str, position: Position, at_most: int) -> tuple[list[Message], int]:
        """Return some messages of a partition, and how many bytes are left."""
        folder = self.path / partition
        names = _files(folder)
        if not position.source:
            if not names:
                return [], 0
            number, place = 0, Place(names[0], (folder / names[0]).stat().st_ino, 0, 0, 0, 0)
        else:
            place = Place(*json.loads(position.source))
            self._check(folder, names, position.offset, place)
            number = names.index(place.name)
        found: list[Message] = []
        offset = position.offset
        while True:
            is_last = number + 1 == len(names)
            for start, end, line in _lines(folder / names[number], offset, at_most - len(found), to_end=not is_last):
                place, offset = place.after(start, line), end
                found.append(Message(partition, end, line, json.dumps(place)))
            file = (folder / names[number]).stat()
            if is_last or len(found) >= at_most or offset < file.st_size:
                break
            number, offset = number + 1, 0
            inode = (folder / names[number]).stat().st_ino
            place = Place(names[number], inode, 0, 0, 0, max(place.changed, file.st_ctime_ns))
        return found, sum((folder / name).stat().st_size for name in names[number:]) - offset

    def _check(self, folder: Path, names: list[str], offset: int, place: Place) -> None:
        """Refuse files that are not those which were read."""
        file = folder / place.name
        try:
            with file.open("rb") as source:
                status = os.fstat(source.fileno())
                source.seek(place.last)
                checksum = zlib.crc32(source.read(place.size))
        except FileNotFoundError:
            raise _refusal(file, "is gone, and lines may have been added after the last that was read") from None
        if status.st_ino != place.inode:
            raise _refusal(file, "is another file than the one that was read")
        if status.st_size < offset or checksum != place.checksum:
            raise _refusal(file, f"was cut short or overwritten; it was read up to byte {offset}")
        if self._checked.get(folder) == names:
            return
        for name in names[: names.index(place.name)]:
            if (folder / name).stat().st_ctime_ns > place.changed:
                raise _refusal(folder / name, f"was changed or added after reading had gone on to {place.name}")
        self._checked[folder] = names


def _refusal(file: Path, what: str) -> DataError:
    return DataError(f"the log file {file} {what}. Files are read once, in the order of their names. {WAY_OUT}")


def _files(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".jsonl")) if folder.is_dir() else []


def _lines(file: Path, place: int, at_most: int, to_end: bool) -> list[tuple[int, int, bytes]]:
    """Return whole lines from a place on, between which places they stand; of a line too long only its beginning.

    Args:
        file: The file.
        place: Where to begin.
        at_most: How many lines.
        to_end: Whether the file is complete, so that what stands after its last line break is a line too.
    """
    found: list[tuple[int, int, bytes]] = []
    with file.open("rb") as source:
        source.seek(place)
        begun, start = b"", place
        while len(found) < at_most:
            chunk = source.read(CHUNK)
            *lines, rest = chunk.split(b"\n")
            for line in lines[: at_most - len(found)]:
                place += len(line) + 1
                found.append((start, place, (begun + line)[: LARGEST_EVENT + 1]))
                begun, start = b"", place
            if len(found) == at_most:
                break
            place += len(rest)
            begun = (begun + rest)[: LARGEST_EVENT + 1]
            if len(chunk) < CHUNK:
                if to_end and begun:
                    found.append((start, place, begun))
                break
    return found

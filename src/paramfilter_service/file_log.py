"""A directory of files as a log.

A message is a block of whole lines, and its offset a place in a file. The source of an offset is that file: its name
and inode, the place and checksum of the last line that was read, and the latest change of the files before it. So a
file that was removed, replaced, cut short or overwritten is noticed, and so is one that was added or written to behind
the reader.
"""

import json
import os
import time
import zlib
from pathlib import Path
from typing import NamedTuple

from paramfilter.errors import DataError
from paramfilter_service.events import LARGEST_EVENT
from paramfilter_service.logs import WAY_OUT, Log, Message, Position

BLOCK = 1 << 20
"""Bytes that are read at a time, of all partitions together."""

CHECKED = 256
"""Bytes of a line, from its start, that the checksum covers."""

FIRST_PAUSE, LONGEST_PAUSE = 0.001, 0.1
"""Seconds between two looks at files that do not grow: each pause is twice the one before."""


class Place(NamedTuple):
    """What an offset in a file belongs to.

    Attributes:
        name: The name of the file.
        inode: Its number on the disk.
        last: Where the last line that was read begins.
        checksum: Of that line's first bytes.
        size: How many bytes the checksum covers.
        changed: The latest change of the files before this one, in nanoseconds of the file system's clock.
    """

    name: str
    inode: int
    last: int = 0
    checksum: int = 0
    size: int = 0
    changed: int = 0

    def at(self, offset: int) -> Position:
        """Return an offset that belongs to this place."""
        return Position(offset, json.dumps(self))


class FileLog(Log, tag="files"):
    """A directory of files with JSON lines that other programs append to.

    Each subdirectory is a partition, and so is the directory itself if it has files or no subdirectory. The files of a
    partition are read in the order of their names; only the last may grow, and a new one must have a name after all
    others. A line counts once its end is there, or once there is a later file. Files that have been read may be
    deleted, except the last.

    Args:
        path: The directory.
    """

    path: str

    def __post_init__(self):
        self.folder, self.lag, self._idle_reads = Path(self.path), 0, 0
        self._checked: dict[Path, list[str]] = {}
        if not self.folder.is_dir():
            raise DataError(f"there is no directory of logs at {self.path}.")

    @property
    def partitions(self) -> list[str]:
        """The names of the subdirectories; "." for the directory itself."""
        names = sorted(entry.name for entry in self.folder.iterdir() if entry.is_dir())
        if any(not name.isprintable() for name in names):
            raise DataError(f"the directory {self.path} holds one whose name is not printable text; rename it.")
        return names if names and not _files(self.folder) else [*names, "."]

    def read(self, positions: dict[str, Position], at_most: int, wait: float) -> list[Message]:
        """Return what has been written since, a block of each partition; wait a moment if there was nothing before."""
        if self._idle_reads:
            time.sleep(min(wait, LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._idle_reads, 10)))
        most = max(2 * LARGEST_EVENT, BLOCK // len(positions))
        found = [self._next(name, position, most) for name, position in positions.items()]
        messages, self.lag = [one for one, _ in found if one is not None], sum(left for _, left in found)
        self._idle_reads = 0 if messages else self._idle_reads + 1
        return messages

    def _next(self, partition: str, position: Position, most: int) -> tuple[Message | None, int]:
        """Return the next block of a partition, and how many bytes are left."""
        folder = self.folder / partition
        names, offset = _files(folder), position.offset
        if position.source:
            place = Place(*json.loads(position.source))
            self._check(folder, names, offset, place)
        elif names:
            place = Place(names[0], (folder / names[0]).stat().st_ino)
        else:
            return None, 0
        rest = names[names.index(place.name) :]
        files = [(folder / name).stat() for name in rest]
        while len(rest) > 1 and offset >= files[0].st_size:  # that file is complete, since there is a later one
            place = Place(rest[1], files[1].st_ino, changed=max(place.changed, files[0].st_ctime_ns))
            offset, rest, files = 0, rest[1:], files[1:]
        left = sum(file.st_size for file in files) - offset
        raw, end = _block(folder / rest[0], offset, most, is_complete=len(rest) > 1)
        if not raw:
            return None, left
        last = raw.rfind(b"\n", 0, len(raw) - 1) + 1
        checked = raw[last : last + CHECKED].removesuffix(b"\n")
        after = place._replace(last=offset + last, checksum=zlib.crc32(checked), size=len(checked))
        return Message(partition, place.at(offset), raw, after.at(end)), left - (end - offset)

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
                raise _refusal(folder / name, f"was changed or added after reading had moved on to {place.name}")
        self._checked[folder] = names


def _refusal(file: Path, what: str) -> DataError:
    return DataError(f"the log file {file} {what}. Files are read once, in the order of their names. {WAY_OUT}")


def _files(folder: Path) -> list[str]:
    return sorted(name for name in os.listdir(folder) if name.endswith(".jsonl")) if folder.is_dir() else []


def _block(path: Path, offset: int, most: int, is_complete: bool) -> tuple[bytes, int]:
    """Return whole lines from an offset on and where they end; of a line that is too long only its beginning.

    Args:
        path: The file.
        offset: Where to begin.
        most: How many bytes to read.
        is_complete: Whether what stands after the last line break is a line too.
    """
    with path.open("rb") as file:
        file.seek(offset)
        raw = file.read(most)
        if end := raw.rfind(b"\n") + 1:
            return raw[:end], offset + end
        beginning, size = raw[: LARGEST_EVENT + 1], len(raw)
        while raw:
            if end := raw.find(b"\n") + 1:
                return beginning, offset + size - len(raw) + end
            raw = file.read(most)
            size += len(raw)
        return (beginning, offset + size) if is_complete else (b"", offset)

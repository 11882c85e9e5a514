"""A driver and its workers in one process, killed between any two of its writes, or paused while another takes over.

Everything that changes a disk is counted, and one of the calls is the last: nothing after it happens, not even the
clean-up of a `finally`. A write may be cut in half. What is on the disk then is what the next driver finds.

Two protocols are followed. *log*: the position of the log is committed with the version, as in Ray. *checkpoint*: the
range of a batch is written before it starts and is done again with the same events, as in Spark. That the harness sees
mistakes is shown by planting two: `position-first` writes the position to a file of its own before the version, and
`states-first` behind it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
from pyarrow import feather
from tests.engines.fleet import in_order, log, make_versions, undisturbed

from paramfilter import checkpoint
from paramfilter.errors import StoreError
from paramfilter.tables import Versions, group_of
from paramfilter_engines.parts import Batch, Worker
from paramfilter_engines.parts import Driver as Committer

PROTOCOLS, MISTAKES = ("log", "checkpoint"), ("position-first", "states-first")
NUM_SERIES, NUM_STEPS = 12, 24
SIZES = (7, 31, 18, 44, 25)
"""Events of a batch, in turn."""


class Killed(BaseException):
    """The process has ended: no handler of errors sees it."""


class Disk:
    """Lets so many calls reach the disk.

    Args:
        calls: How many; half a call is half a write, or a call whose process dies before it knows.
        pause: Called at the end instead of a kill; what comes after it is done too.
    """

    def __init__(self, calls: float = float("inf"), pause: Callable[[], None] | None = None):
        self.left, self.pause, self.used = calls, pause, 0.0
        self.is_dead = False

    def step(self) -> None:
        """Count half a call."""
        if self.is_dead:
            raise Killed
        self.used += 0.5
        if self.used >= self.left:
            if self.pause is None:
                self.is_dead = True
                raise Killed
            self.left = float("inf")
            self.pause()

    def call(self, function: Callable[..., Any], *arguments: Any, **more: Any) -> Any:
        """Call, unless the process ends before or behind it."""
        self.step()
        found = function(*arguments, **more)
        self.step()
        return found


class Counted:
    """An object some of whose methods change the disk."""

    def __init__(self, disk: Disk, inner: Any, names: tuple[str, ...]):
        self.disk, self.inner, self.names = disk, inner, names

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.inner, name)
        return functools.partial(self.disk.call, found) if name in self.names else found

    def fdopen(self, *arguments: Any) -> Any:
        """Open a file whose writes may be cut in half."""
        return HalfWritten(self.disk, self.inner.fdopen(*arguments))


class HalfWritten:
    """A file."""

    def __init__(self, disk: Disk, file: Any):
        self.disk, self.file = disk, file
        self.flush, self.fileno = file.flush, file.fileno

    def __enter__(self) -> HalfWritten:
        return self

    def __exit__(self, *_: Any) -> None:
        self.file.close()

    def write(self, content: Any) -> None:
        view = memoryview(content).cast("B")
        self.disk.step()
        self.file.write(view[: len(view) // 2])
        self.file.flush()
        self.disk.step()
        self.file.write(view[len(view) // 2 :])


@contextlib.contextmanager
def on(disk: Disk) -> Iterator[None]:
    """Let all writing of whole files go to a disk."""
    files = Counted(disk, checkpoint.os, ("replace", "unlink", "fsync"))
    with mock.patch.object(checkpoint, "os", files):
        yield


class Driver:
    """A driver with workers of its own, which follows a protocol through a log.

    Args:
        folder: Where states and rows are.
        events: The log.
        disk: Where it writes.
        turn: A number that decides how many parts and workers there are.
        protocol: Of PROTOCOLS, or one of MISTAKES.
    """

    def __init__(self, folder: Path, events: pa.Table, disk: Disk, turn: int, protocol: str):
        self.folder, self.events, self.turn, self.protocol = folder, events, turn, protocol
        self.versions = make_versions(folder / "states")
        self.versions._files = Counted(disk, self.versions._files, ("delete_file",))  # pyright: ignore
        self.workers = [Worker(lambda: self.versions, ranges_kept=turn % 3) for _ in range(1 + turn % 2)]

    def run(self) -> None:
        """Go to the end of the log."""
        while (work := self._next()) is not None:
            number, start, end = work
            some = self.events.slice(start, end - start)
            with Committer(self.versions, 1 + (self.turn + number) % 3).batch(number, end) as batch:
                self._write(f"rows/{number:06}.arrow", _as_bytes(self._rows(batch, some)))
                if self.protocol == "position-first":
                    self._note("position", end)
            if self.protocol == "states-first":
                self._note("position", end)
            if self.protocol == "checkpoint":
                self._note(f"commits/{number:06}", number)

    def _next(self) -> tuple[int, int, int] | None:
        """Return the number of the next batch, and its events."""
        if self.protocol == "checkpoint":
            number = len(list((self.folder / "commits").glob("[!.]*")))
            offsets = self.folder / f"offsets/{number:06}"
            if not offsets.exists():
                start = 0 if not number else json.loads((self.folder / f"offsets/{number - 1:06}").read_text())[1]
                if start == len(self.events):
                    return None
                self._note(f"offsets/{number:06}", [start, self._end(start)])
            start, end = json.loads(offsets.read_text())
            return number, start, end
        if self.protocol in MISTAKES:
            file = self.folder / "position"
            start = json.loads(file.read_text()) if file.exists() else 0
        else:
            start = self.versions.position() or 0
        return None if start == len(self.events) else (self.versions.newest() + 1, start, self._end(start))

    def _end(self, start: int) -> int:
        self.turn += 1
        return min(start + SIZES[self.turn % len(SIZES)], len(self.events))

    def _rows(self, batch: Batch, events: pa.Table) -> pa.Table:
        groups = self.versions.table.groups
        part = group_of(events["series"], groups) * batch.parts // groups
        parts = [
            self.workers[(self.turn + one) % len(self.workers)].work(batch, one, events.filter(pa.array(part == one)))
            for one in range(batch.parts)
        ]
        return pa.concat_tables(parts)

    def _note(self, name: str, value: Any) -> None:
        self._write(name, json.dumps(value).encode())

    def _write(self, name: str, content: Any) -> None:
        checkpoint.write_atomically(self.folder / name, content)


def _as_bytes(rows: pa.Table) -> pa.Buffer:
    sink = pa.BufferOutputStream()
    feather.write_feather(rows, sink, compression="uncompressed")
    return sink.getvalue()


class Trial:
    """A log that is taken to its end by one driver after the other.

    Args:
        folder: Where it happens.
        protocol: Of PROTOCOLS, or one of MISTAKES.
        seed: Of the log.
    """

    def __init__(self, folder: Path, protocol: str, seed: int = 0):
        self.folder, self.protocol, self.seed = folder, protocol, seed
        self.events = log(NUM_SERIES, NUM_STEPS, seed)
        for name in ("rows", "offsets", "commits"):
            (folder / name).mkdir(parents=True)

    def driver(self, disk: Disk, turn: int) -> Driver:
        return Driver(self.folder, self.events, disk, turn, self.protocol)

    def is_killed(self, calls: float, turn: int) -> bool:
        """Let a driver live so long; return whether it was killed before the end of the log."""
        disk = Disk(calls)
        with on(disk), contextlib.suppress(Killed):
            self.driver(disk, turn).run()
        return disk.is_dead

    def overtake(self, calls: float, turn: int) -> bool:
        """Pause a driver, let another one go to the end, and wake the first; return whether it was refused."""
        behind = []

        def other() -> None:
            thread = threading.Thread(target=lambda: self.driver(Disk(), turn + 1).run())
            thread.start()
            thread.join()

        disk = Disk(calls, other)
        with on(disk):
            try:
                self.driver(disk, turn).run()
            except (StoreError, FileNotFoundError) as error:  # or what it read has been replaced meanwhile
                behind.append(error)
        return bool(behind)

    def is_as_undisturbed(self) -> bool:
        """Tell whether states and rows are those of a log that was taken in one batch."""
        states, rows = undisturbed(NUM_SERIES, NUM_STEPS, self.seed)
        versions: Versions = make_versions(self.folder / "states")
        found = [feather.read_table(file) for file in sorted((self.folder / "rows").glob("[!.]*"))]
        return versions.read().sort_by("series").equals(states) and in_order(pa.concat_tables(found)).equals(rows)


def lives(num: int, longest: int) -> np.ndarray:
    """Return how many calls each of some drivers may make: from half a call on, spread evenly."""
    golden = (5**0.5 - 1) / 2
    return np.floor(2 * longest * (np.arange(1, num + 1) * golden % 1.0)) / 2 + 0.5

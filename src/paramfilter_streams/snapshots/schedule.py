"""Have snapshots taken while a service runs."""

from __future__ import annotations

import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from paramfilter.errors import DataError
from paramfilter_streams.snapshots.taking import Taken

LOGGER = logging.getLogger("paramfilter_streams.snapshots")


@dataclass(frozen=True)
class Snapshots:
    """Where snapshots of a store go, and how often.

    Args:
        target: A directory on another disk, or an address such as `s3://bucket/fleet`.
        seconds: From the start of a snapshot to the start of the next one.
        keep: How many snapshots are kept.
    """

    target: str
    seconds: float = 300.0
    keep: int = 3

    def __post_init__(self):
        if not self.seconds > 0 or self.keep < 1:
            raise DataError(f"[snapshots] needs seconds above 0 and keep of at least 1, got {self}.")


class Schedule:
    """Takes snapshots of a store, each in a process of its own; a failure is logged and counted.

    Args:
        store: Directory of the store.
        snapshots: Where they go, and how often.
    """

    def __init__(self, store: str | os.PathLike, snapshots: Snapshots):
        self.store, self.snapshots = store, snapshots
        self.last: Taken | None = None
        """The last snapshot that was taken since the service started."""
        self.num_failures = 0
        self._stop, self._process = threading.Event(), None

    @contextmanager
    def running(self) -> Iterator[None]:
        """Take snapshots, the first one at once, until the block ends. One that is being taken then is given up."""
        thread = threading.Thread(target=self._run, name="snapshots", daemon=True)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            process = self._process
            if process is not None:
                process.terminate()
            thread.join()

    def _run(self) -> None:
        wait = 0.0
        while not self._stop.wait(wait):
            taken = self.take()
            wait = max(1.0, self.snapshots.seconds - (0.0 if taken is None else taken.seconds))

    def take(self) -> Taken | None:
        """Take one snapshot; None if that failed."""
        program = [sys.executable, "-I", "-m", "paramfilter_streams.snapshots", os.fspath(self.store)]
        command = [*program, self.snapshots.target, str(self.snapshots.keep)]
        process = self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if self._stop.is_set():
            process.terminate()
        said, error = process.communicate()
        self._process = None
        if self._stop.is_set():
            return None
        if process.returncode:
            self.num_failures += 1
            why = error.strip().rpartition("\n")[2] or f"its process ended with {process.returncode}"
            LOGGER.error("no snapshot was taken: %s", why)
            return None
        self.last = Taken(**json.loads(said))
        LOGGER.info("snapshot %d: %d of %d bytes written in %.1f s", *self._figures(self.last))
        return self.last

    def _figures(self, taken: Taken) -> tuple[int, int, int, float]:
        return taken.number, taken.written, taken.size, taken.seconds

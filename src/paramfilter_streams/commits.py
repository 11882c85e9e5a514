"""Commits on their way to the disk, in a thread of their own.

The disk is waited for while the next batch is worked on. There is one commit at a time, so what is durable is always a
beginning of the log; a commit that found no room is kept, and tried again.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from paramfilter_streams.histogram import Histogram
from paramfilter_streams.records import Commit
from paramfilter_streams.store import DiskFullError, Store


class Durable(NamedTuple):
    """A commit that is on the disk, and since when, in seconds of the wall clock."""

    commit: Commit
    since: float


class Committer:
    """Writes commits to a store, one at a time.

    Args:
        store: The store; nobody else writes to it.
    """

    def __init__(self, store: Store):
        self.store = store
        self.has_no_room = ""
        """Why the last attempt failed; empty if all is well."""
        self.seconds = Histogram()
        """How long commits took."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commits")
        self._commit: Commit | None = None
        self._writing: Future[float] | None = None

    @property
    def is_idle(self) -> bool:
        """Whether waiting would take no time: nothing is being written."""
        return self._writing is None or self._writing.done()

    def begin(self, commit: Commit) -> None:
        """Begin to write; the commit before must have been waited for, and this one must no longer change."""
        assert self._commit is None, "one commit at a time"
        self._commit = commit
        self._writing = self._thread.submit(self._write, commit)

    def wait(self) -> Durable | None:
        """Wait until the commit that was begun is durable, and return it; None if there is none.

        Raises:
            DiskFullError: There is still no room. The next call tries again.
            StoreError: The disk failed.
        """
        if self._commit is None:
            return None
        if self._writing is None:
            self._writing = self._thread.submit(self._write, self._commit)
        writing, self._writing = self._writing, None
        try:
            since = writing.result()
        except DiskFullError as error:
            self.has_no_room = str(error)
            raise
        commit, self._commit, self.has_no_room = self._commit, None, ""
        return Durable(commit, since)

    def close(self) -> None:
        """Let what is being written come to its end."""
        self._thread.shutdown()

    def _write(self, commit: Commit) -> float:
        began = time.perf_counter()
        self.store.commit(commit)
        self.seconds.add([time.perf_counter() - began])
        return time.time()

"""Workers on many machines, as Ray actors.

A log is shared out by its partitions: each actor has a share of them, and a store of its own. Ray starts an actor again
when it dies, and the call that it was in is made again. Nothing else is asked of Ray, and nothing is lost with an
actor's memory: the new one opens the store, whose lock died with the old one, and goes on from its last commit.

A store is a directory on one machine. Start an actor where its store is, and let Ray start it again there and nowhere
else: `start_owners(..., resources={"node:10.0.0.7": 0.01})`, or a resource that you give to the machine by name.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any

from paramfilter.errors import extra
from paramfilter_streams.posteriors import Posterior
from paramfilter_streams.records import Partition
from paramfilter_streams.worker import Worker

EXTRA = "backfill"
"""The extra that brings ray."""

FOR_EVER = -1
"""What Ray calls any number of restarts."""

CALLS_AT_A_TIME = 4
"""One works, the others ask."""


def start_owners(make_worker: Callable[[Any], Worker], shares: Sequence[Any], **options: Any) -> list[Any]:
    """Start one actor for each share of a log; Ray must be running, or starts on this machine.

    Args:
        make_worker: Makes the worker of a share, in the actor's process: with a log that reads the share's partitions
            and no other, and a store that no other share has.
        shares: What `make_worker` is called with, such as the names of subjects.
        options: What Ray is to know about each actor, such as the machine that it must run on.

    Returns:
        Handles of `Owner`; `handle.run.remote()` sets one to work, and `handle.stop.remote()` ends that.
    """
    ray = extra("ray", EXTRA)
    patient = {"max_restarts": FOR_EVER, "max_task_retries": FOR_EVER, "max_concurrency": CALLS_AT_A_TIME}
    actor = ray.remote(Owner).options(**{**patient, "num_cpus": 1, **options})
    return [actor.remote(make_worker, share) for share in shares]


class Owner:
    """The one process that may take in the events of some partitions.

    Args:
        make_worker: Makes its worker.
        share: What that is called with.
    """

    def __init__(self, make_worker: Callable[[Any], Worker], share: Any):
        self._worker, self._stop = make_worker(share), threading.Event()
        self._worker.recover()

    def run(self, until_idle: bool = False) -> dict[str, Partition]:
        """Work until told to stop, or until the log has nothing more to say; return how its events ended."""
        self._worker.run(self._stop.is_set, until_idle)
        return self._worker.partitions

    def stop(self) -> None:
        """Let `run` make durable what it has read, and return."""
        self._stop.set()

    def partitions(self) -> dict[str, Partition]:
        """Return how far each partition has been read, committed or not."""
        return self._worker.partitions

    def latest(self, name: str) -> list[Posterior]:
        """Return the last durable posteriors of a series."""
        return self._worker.latest(name)

    def close(self) -> None:
        """Give the store back, after `run` has returned."""
        self._worker.close()

    def process(self) -> int:
        """Return the number of the process, for those who watch it."""
        return os.getpid()

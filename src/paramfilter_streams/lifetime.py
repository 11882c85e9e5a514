"""End the life of series: delete one, or forget the states of those that are idle.

A series that is deleted leaves nothing behind, and events of it begin a new one. A series that is forgotten keeps its
ledger, some 40 bytes: events that it has had are still duplicates, and its next one starts from the prior.
"""

from __future__ import annotations

import os
import time
from contextlib import closing

from paramfilter.errors import StoreError
from paramfilter_streams.operations import put_aside
from paramfilter_streams.records import Commit
from paramfilter_streams.store import Store

__all__ = ["delete_series", "forget_idle"]


def delete_series(path: str | os.PathLike, name: str) -> None:
    """Delete the state, the ledger and the posteriors of a series.

    Events that wait for an earlier one are quarantined. Lines that were quarantined before stay.

    Args:
        path: Directory of the store; no worker may be using it.
        name: The series.
    """
    with closing(Store(path, None, walk_first=False)) as store:
        found = store.row(name)
        if found is None:
            raise StoreError(f"the store at {path} has no series {name!r}.")
        ledger, _ = found
        partition = store.partitions()[ledger.partition]
        if partition.has_given(name):
            raise StoreError(f"{name!r} is on its way to another store; end the move first.")
        held = [event for _, event in sorted(ledger.held.items())]
        late = put_aside(ledger.partition, partition, held, "an operator deleted its series")
        partition.num_series -= 1
        store.commit(Commit([], {ledger.partition: partition}, (), late, deleted=[name]))


def forget_idle(path: str | os.PathLike, seconds: float, now: float | None = None) -> int:
    """Delete the states and posteriors of series that had no event for some time.

    Use at least `forget_after` of the workers: it then frees the disk and changes no result, since these series would
    start from the prior anyway.

    Args:
        path: Directory of the store; no worker may be using it.
        seconds: How long ago the log must have got the last event of a series.
        now: Seconds of the log's clock; None takes this machine's.

    Returns:
        How many series were forgotten. Series without a time, from a worker without `forget_after`, are never among
        them.
    """
    before = (time.time() if now is None else now) - seconds
    with closing(Store(path, None, walk_first=False)) as store:
        partitions = store.partitions()
        idle = [
            (name, ledger, b"")
            for name, ledger, state in store.rows()
            if state and ledger.seen is not None and ledger.seen < before
            if not partitions[ledger.partition].has_given(name)
        ]
        if idle:
            store.commit(Commit(idle, {}, deleted=[name for name, _, _ in idle]))
        return len(idle)

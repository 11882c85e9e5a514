"""What an operator does with a store: look at it, take it past a gap, copy it.

Looking and copying work while a worker runs. A reset needs the store for itself, so stop the worker first.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from paramfilter.errors import StoreError, extra
from paramfilter_streams import snapshots
from paramfilter_streams.ordering import WINDOW, Fate, Ledger
from paramfilter_streams.records import Commit, Partition, Quarantined, ledger_of
from paramfilter_streams.store import COMMITS, EXTRA, TABLES, Store

__all__ = ["backup", "inspect", "quarantined", "reset_partition", "reset_series", "restore"]

FILE = "data.mdb"


class OpenStore(Store):
    """A store to read from, while another process may write to it.

    Args:
        path: Its directory.
    """

    def __init__(self, path: str | os.PathLike):
        self.path, self._lmdb, self._in_use = Path(path), extra("lmdb", EXTRA), threading.Lock()
        if not (self.path / FILE).exists():
            raise StoreError(f"there is no store at {self.path}.")
        try:
            self._environment = self._lmdb.open(str(self.path), readonly=True, max_dbs=len(TABLES) + 1)
            self._tables = {name: self._environment.open_db(name, create=False) for name in (*TABLES, COMMITS)}
        except self._lmdb.Error as error:
            raise self._named(error) from error
        self.about = {key.decode(): content.decode() for key, content in self._all(b"about")}
        self.keep = int(self.about["keep"])

    def close(self) -> None:
        """Let go of the file."""
        self._environment.close()

    def ledger(self, name: str) -> Ledger:
        """Return the ledger of one series."""
        with self._environment.begin(db=self._tables[b"series"]) as transaction, self.reading():
            value = transaction.get(name.encode())
            if value is None:
                raise StoreError(f"the store at {self.path} has no series {name!r}.")
            return ledger_of(self._unsealed(name.encode(), value))[0]

    def copy(self, target: Path) -> None:
        """Write a copy of the last commit: states, posteriors, quarantine and the offsets that led to them."""
        self._environment.copy(str(target), compact=True)


def inspect(path: str | os.PathLike, series: str | None = None) -> dict[str, Any]:
    """Describe a store, or one of its series.

    Args:
        path: Directory of the store. A worker may be using it.
        series: Name of a series; None describes the partitions.

    Returns:
        Of a store, its settings and, by partition, offset and counts. Of a series, its partition, its last step, and
        the sequence numbers of events that wait for an earlier one.
    """
    with closing(OpenStore(path)) as store:
        if series is not None:
            ledger = store.ledger(series)
            found = {"series": series, "partition": ledger.partition, "last_step": ledger.sequence}
            return {**found, "waiting": sorted(ledger.held)}
        partitions = {name: {**vars(one), "waiting": one.waiting} for name, one in store.partitions().items()}
        return {"path": str(store.path), "made_by": store.about, "partitions": partitions}


def quarantined(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    """Yield the quarantined lines that a store keeps, with their reasons; a worker may be using it."""
    with closing(OpenStore(path)) as store:
        for one in store.quarantined():
            yield {**one._asdict(), "raw": one.raw.decode(errors="replace")}


def reset_series(path: str | os.PathLike, name: str, next_step: int, keep_state: bool = False) -> None:
    """Let a series go on at another sequence number, for example after a gap beyond `longest_gap`.

    Events that wait for a step before the new one are quarantined as late.

    Args:
        path: Directory of the store; no worker may be using it.
        name: The series.
        next_step: Sequence number of the next event, in the present epoch of its producer.
        keep_state: True keeps what the series has learned, as if the steps between had not been; False starts from the
            prior when the worker starts.
    """
    if next_step < 1:
        raise StoreError(f"sequence numbers begin at 1, got {next_step}.")
    with closing(Store(path, None, walk_first=False)) as store:
        found = next(((ledger, state) for one, ledger, state in store.rows() if one == name), None)
        if found is None:
            raise StoreError(f"the store at {path} has no series {name!r}.")
        ledger, state = found
        partition = store.partitions()[ledger.partition]
        first = ledger.base + next_step
        dropped = [event for number, event in sorted(ledger.held.items()) if number < first]
        held = {number: event for number, event in ledger.held.items() if number >= first}
        # Steps before the new one count as taken without an event, so that what still comes of them is kept as late.
        late = put_aside(ledger.partition, partition, dropped, "an operator took its series past it")
        gaps = (1 << min(first - 1, WINDOW)) - 1
        new = replace(ledger, sequence=first - 1, gaps=gaps, has_old_gaps=first > WINDOW, held=held, seen=None)
        store.commit(Commit([(name, new, state if keep_state else b"")], {ledger.partition: partition}, (), late))


def put_aside(where: str, partition: Partition, events: list[Any], reason: str) -> list[Quarantined]:
    """Count events that will take no step as late, and return what is to be kept of them."""
    found = []
    for event in events:
        number = partition.counts[Fate.LATE] + partition.counts[Fate.QUARANTINED]
        raw = json.dumps({"series": event.series, "seq": event.sequence}).encode()
        found.append(Quarantined(where, number, reason, raw))
        partition.counts[Fate.LATE] += 1
    return found


def reset_partition(path: str | os.PathLike, name: str) -> None:
    """Let a partition be read again from the first message that its log holds.

    Events that were taken in before count as duplicates, and steps that the log no longer holds count as filled, or
    their successors are quarantined.

    Args:
        path: Directory of the store; no worker may be using it.
        name: The partition.
    """
    with closing(Store(path, None, walk_first=False)) as store:
        partition = store.partitions().get(name)
        if partition is None:
            raise StoreError(f"the store at {path} has no partition {name!r}; it has {sorted(store.partitions())}.")
        partition.offset, partition.source = Partition().position
        store.commit(Commit([], {name: partition}))


def backup(path: str | os.PathLike, target: str | os.PathLike) -> None:
    """Copy the last commit of a store, states and offsets together, to a new directory; a worker may be using it."""
    target = Path(target)
    target.mkdir(parents=True, mode=0o700)
    with closing(OpenStore(path)) as store:
        store.copy(target)
    (target / FILE).chmod(0o600)


def restore(source: str | os.PathLike, path: str | os.PathLike, number: int | None = None) -> None:
    """Put a backup or a snapshot in place of a store that is lost, and check it.

    The worker then reads the log from its offsets.

    Args:
        source: Directory of a backup, or the directory or address of snapshots.
        path: Directory of the store; there must be nothing yet.
        number: Of a snapshot; None takes the newest.
    """
    path = Path(path)
    if path.exists():
        raise StoreError(f"there is something at {path} already; move it away, or restore to another path.")
    is_backup = (Path(source) / FILE).exists()
    if is_backup and number is not None:
        raise StoreError(f"{source} is a backup and holds no snapshots with numbers.")
    try:
        if is_backup:
            path.mkdir(parents=True, mode=0o700)
            shutil.copy(Path(source) / FILE, path / FILE)
        else:
            snapshots.restore(os.fspath(source), path, number)
        with closing(Store(path, None)) as store:
            for _ in store.rows():
                pass
    except BaseException:
        shutil.rmtree(path, ignore_errors=True)
        raise

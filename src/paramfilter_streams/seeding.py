"""Begin a store with the states of a backfill, at a place in the log: nothing is applied twice and nothing left out.

A state that has taken in n observations goes on with the event of sequence number n + 1. So events that are in the
backfill and in the log too are duplicates. What could be missing are events between the two, and `seed` reads the log
to see that none are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Iterator, Mapping
from contextlib import closing
from pathlib import Path

import jax
import numpy as np

from paramfilter.errors import DataError
from paramfilter.fleet import Fleet, FleetState
from paramfilter_streams.events import NAME, RefusedEvent
from paramfilter_streams.logs import Log, Position
from paramfilter_streams.ordering import Ledger
from paramfilter_streams.records import Commit, Partition
from paramfilter_streams.residents import ROWS_AT_A_TIME, FleetResidents
from paramfilter_streams.store import Store

__all__ = ["seed"]

MESSAGES_AT_A_TIME, SECONDS_TO_WAIT = 1024, 1.0
"""How the log is read."""


def seed(
    store: str | os.PathLike,
    residents: FleetResidents,
    states: str | os.PathLike,
    positions: Mapping[str, Position],
    partition_of: Callable[[str], str],
    *,
    log: Log | None,
    name_of: Callable[[Hashable], str] = str,
    keep: int = 256,
) -> int:
    """Make a store whose series have the states of a backfill.

    Args:
        store: Directory of the new store.
        residents: The filter and the seed that the worker will have; nothing is put into it.
        states: Directory that `backfill(keep_states=...)` wrote.
        positions: Where the worker begins to read each partition. An earlier place only costs time: `Position()` is
            the beginning of the log.
        partition_of: Returns the partition of a series.
        log: The log. It is read from these positions to its end: if a series has later events there and not the one
            that follows its state, nothing is written. None trusts the positions.
        name_of: Returns the name that events have for a series of the backfill.
        keep: How many posteriors of a series the store keeps.

    Returns:
        How many series the store has.

    Raises:
        DataError: The log does not hold what comes next, or a name or a partition does not fit.
    """
    fleet = Fleet(residents.filter)
    files = sorted(Path(states).glob("*.safetensors"))
    if not files:
        raise DataError(f"there are no states at {states}; give the directory of keep_states.")
    ledgers: dict[str, Ledger] = {}
    for file in files:
        for name, ledger in _ledgers(fleet.restore(file), partition_of, name_of).items():
            if name in ledgers:
                raise DataError(f"two series of the backfill are called {name!r}; give another name_of.")
            if ledger.partition not in positions:
                raise DataError(f"{name!r} belongs to {ledger.partition!r}, and positions holds {sorted(positions)}.")
            ledgers[name] = ledger
    if log is not None:
        _require_no_gap(log, positions, ledgers, residents)
    partitions = {name: Partition(*position) for name, position in positions.items()}
    for ledger in ledgers.values():
        partitions[ledger.partition].num_series += 1
    rows = (
        (name, ledgers[name], row) for file in files for name, row in _rows(fleet.restore(file), residents, name_of)
    )
    with closing(Store(store, residents.identity, keep=keep, walk_first=False)) as new:
        if new.partitions():
            raise DataError(f"the store at {store} has been used; give a directory that is not there.")
        new.commit(Commit(rows, partitions))
    return len(ledgers)


def _ledgers(
    state: FleetState, partition_of: Callable[[str], str], name_of: Callable[[Hashable], str]
) -> dict[str, Ledger]:
    found = {}
    for series, time in zip(state.ids, np.asarray(state.time).tolist(), strict=True):
        name = name_of(series)
        if not NAME.fullmatch(name):
            raise DataError(f"a series of a stream cannot be called {name!r}; give another name_of.")
        if name in found:
            raise DataError(f"two series of the backfill are called {name!r}; give another name_of.")
        found[name] = Ledger(partition_of(name), time)
    return found


def _rows(
    state: FleetState, residents: FleetResidents, name_of: Callable[[Hashable], str]
) -> Iterator[tuple[str, bytes]]:
    for first in range(0, len(state.ids), ROWS_AT_A_TIME):
        some = state.ids[first : first + ROWS_AT_A_TIME]
        taken = jax.tree.map(lambda leaf, first=first, size=len(some): leaf[first : first + size], state.series)
        for series, row in zip(some, residents.packed(taken), strict=True):
            yield name_of(series), row.tobytes()


def _require_no_gap(
    log: Log, positions: Mapping[str, Position], ledgers: Mapping[str, Ledger], residents: FleetResidents
) -> None:
    """Read the log, and refuse it if a series has later events and not the one that follows its state."""
    unseen, later = set(ledgers), set()
    where = dict(positions)
    while messages := log.read(where, MESSAGES_AT_A_TIME, SECONDS_TO_WAIT):
        for message in messages:
            where[message.partition] = message.next
            for line in () if message.raw is None else message.raw.split(b"\n"):
                try:
                    event = residents.parser.parse(line)
                except RefusedEvent:
                    continue
                ahead = event.sequence - ledgers[event.series].sequence if event.series in unseen else 0
                if ahead == 1:
                    unseen.remove(event.series)
                elif ahead > 1:
                    later.add(event.series)
    missing = sorted(later & unseen)
    if missing:
        raise DataError(
            f"the log does not hold event {ledgers[missing[0]].sequence + 1} of {missing[0]!r}, which comes after the "
            f"backfill, but later ones; the same for {len(missing) - 1} other series. Begin earlier in the log, or "
            "let the backfill go further."
        )

"""Move partitions, or key groups, from one store to another, so that a crash at any moment loses and doubles nothing.

A move has three commits, each atomic:

1. *leave*: the source names the target and raises the epoch of the partition. From here on no worker on the source
   takes its events, and a worker that still holds the store cannot commit. The rows stay, for the next steps.
2. *arrive*: the target takes over rows, posteriors, counts and the position in the log, with the epoch. A target that
   has that epoch has the rows already.
3. *release*: the source deletes the rows, and remembers that they are gone.

Whoever calls `move` again after a crash goes on from the step that was not done. A store is also the form in which a
partition travels: move it to a new directory, copy that to another machine, and move it from there.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from paramfilter.errors import StoreError
from paramfilter_streams.groups import NUM_GROUPS, key_group
from paramfilter_streams.ordering import Ledger
from paramfilter_streams.posteriors import sequence_of
from paramfilter_streams.records import Commit, Leaving, Partition
from paramfilter_streams.store import Store

__all__ = ["cancel", "move", "move_groups"]


class Move(NamedTuple):
    """What moves.

    Attributes:
        partition: The partition whose events the series have had so far.
        to: The partition whose events they will have; the same if the whole partition moves.
        groups: The key groups of the series; None for the whole partition.
    """

    partition: str
    to: str
    groups: frozenset[int] | None = None

    def has(self, name: str, ledger: Ledger) -> bool:
        """Tell whether a series moves."""
        return ledger.partition == self.partition and (self.groups is None or key_group(name) in self.groups)


def move(source: str | os.PathLike, target: str | os.PathLike, partition: str) -> int:
    """Move a partition with all its series to another store, where it goes on at the same place in its log.

    Call it again after a crash: it goes on where it was. Events may be sent all the time.

    Args:
        source: Directory of the store that owns the partition; no worker may be using it.
        target: Directory of the store that takes over; made if it is not there. No worker may be using it.
        partition: The partition.

    Returns:
        How many series the partition has.
    """
    return _carried_out(Path(source), Path(target), Move(partition, partition))


def move_groups(
    source: str | os.PathLike,
    target: str | os.PathLike,
    partition: str,
    to: str,
    groups: Sequence[int],
    drained_to: int,
) -> int:
    """Move the series of some key groups to another partition, after producers send them there.

    Do this when the number of partitions of a log changes (`groups.moves_between`). Let each worker read the old
    partition up to the last event of these groups, call this, and only then let a worker read the new partition.
    An event of these groups that is still in the old partition then stops its worker; move the groups back to go on.

    Args:
        source: Directory of the store that owns the partition; no worker may be using it.
        target: Directory of the store that owns the new partition, or the same one.
        partition: The partition that had the groups.
        to: The partition that has them now.
        groups: The key groups.
        drained_to: The source must have read the partition up to this offset, which is behind the last event of these
            groups; it is refused otherwise.

    Returns:
        How many series moved.
    """
    moved = Move(partition, to, frozenset(groups))
    if not groups or not set(groups) <= set(range(NUM_GROUPS)) or to == partition:
        raise StoreError(f"give key groups from 0 to {NUM_GROUPS - 1}, and another partition for them.")
    if Path(source).resolve() == Path(target).resolve():
        return _moved_within(Path(source), moved, drained_to)
    return _carried_out(Path(source), Path(target), moved, drained_to)


def cancel(source: str | os.PathLike, target: str | os.PathLike, partition: str) -> None:
    """Give up a move that did not reach its target, so that the source owns the partition again.

    Args:
        source: Directory of the store that the move began from.
        target: Directory of the store that it was to reach; a move that has reached it cannot be given up.
        partition: The partition.
    """
    with _both(Path(source), Path(target)) as (old, new):
        record = _record(old, partition)
        leaving = _pending(record, partition, new)
        if leaving is None:
            raise StoreError(f"no move of {partition!r} from the store at {old.path} is under way.")
        if _has_arrived(new, record, partition, leaving):
            raise StoreError(f"{partition!r} has reached the store at {new.path}; call move again to end the move.")
        given = tuple(one for one in record.given if one not in (leaving["groups"] or ()))
        old.commit(Commit([], {partition: replace(record, is_gone=False, given=given, leaving=None)}))


def _carried_out(source: Path, target: Path, moved: Move, drained_to: int = 0) -> int:
    with _both(source, target) as (old, new):
        record = _record(old, moved.partition)
        leaving = _pending(record, moved.partition, new)
        groups = None if moved.groups is None else sorted(moved.groups)
        wanted = Leaving(store=new.own_name(), groups=groups, to=moved.to)
        if leaving is None:
            _require_owned(old, record, moved, drained_to)
            _require_free(old, new, moved)
            record = replace(_given_up(record, moved), leaving=wanted)
            old.commit(Commit([], {moved.partition: record}))
        elif leaving != wanted:
            raise StoreError(
                f"a move of {moved.partition!r} to {leaving['to']!r} with the key groups {leaving['groups']} is under "
                "way; end that first, by the same call, or cancel it."
            )
        if not _has_arrived(new, record, moved.partition, wanted):
            _arrive(old, new, record, moved)
        return _release(old, record, moved)


def _arrive(old: Store, new: Store, record: Partition, moved: Move) -> None:
    """Commit everything that moves to the target."""
    ledgers = _ledgers(old, moved)
    aside = []
    if moved.groups is None:
        arrived = replace(record, is_gone=False, leaving=None)
        aside = [one for one in old.quarantined() if one.partition == moved.partition]
    else:
        arrived = _with_groups(new.partitions().get(moved.to, Partition()), record, moved, ledgers)
    posteriors = ((name, sequence_of(content), content) for name in ledgers for content in old.posteriors(name))
    new.commit(Commit(_rows(old, moved), {moved.to: arrived}, posteriors, aside))


def _release(old: Store, record: Partition, moved: Move) -> int:
    """Delete at the source what the target has."""
    ledgers = _ledgers(old, moved)
    if moved.groups is None:
        left = Partition(record.offset, record.source, epoch=record.epoch, is_gone=True, taken=record.taken)
        old.commit(Commit([], {moved.partition: left}, deleted=ledgers, emptied=[moved.partition]))
    else:
        left = replace(_without(record, ledgers), leaving=None)
        old.commit(Commit([], {moved.partition: left}, deleted=ledgers))
    return len(ledgers)


def _moved_within(path: Path, moved: Move, drained_to: int) -> int:
    """Give series another partition of the same store, in one commit."""
    with closing(Store(path, None, walk_first=False)) as store:
        record = _record(store, moved.partition)
        if record.leaving is not None:
            raise StoreError(f"a move of {moved.partition!r} to another store is under way; end that first.")
        _require_owned(store, record, moved, drained_to)
        ledgers = _ledgers(store, moved)
        left = _given_up(_without(record, ledgers), moved)
        arrived = _with_groups(store.partitions().get(moved.to, Partition()), left, moved, ledgers)
        store.commit(Commit(_rows(store, moved), {moved.partition: left, moved.to: arrived}))
        return len(ledgers)


def _given_up(record: Partition, moved: Move) -> Partition:
    """Return a partition of which no worker takes any more what moves."""
    if moved.groups is None:
        return replace(record, epoch=record.epoch + 1, is_gone=True)
    return replace(record, epoch=record.epoch + 1, given=tuple(sorted({*record.given, *moved.groups})))


def _without(record: Partition, ledgers: dict[str, Ledger]) -> Partition:
    """Return a partition without some series, and without the events of theirs that wait."""
    waiting = sum(len(one.held) for one in ledgers.values())
    return replace(record, num_series=record.num_series - len(ledgers), received=record.received - waiting)


def _with_groups(at: Partition, record: Partition, moved: Move, ledgers: dict[str, Ledger]) -> Partition:
    """Return the target's partition with the series of some groups, and with the events of theirs that wait."""
    waiting = sum(len(one.held) for one in ledgers.values())
    return replace(
        at,
        num_series=at.num_series + len(ledgers),
        received=at.received + waiting,
        given=tuple(one for one in at.given if one not in (moved.groups or ())),
        taken={**at.taken, moved.partition: record.epoch},
    )


def _ledgers(store: Store, moved: Move) -> dict[str, Ledger]:
    return {name: ledger for name, ledger, _ in store.rows() if moved.has(name, ledger)}


def _rows(store: Store, moved: Move) -> Iterator[tuple[str, Ledger, bytes]]:
    """Go through what moves; a generator, since the states of a partition may be larger than the memory."""
    for name, ledger, state in store.rows():
        if moved.has(name, ledger):
            ledger.partition = moved.to
            yield name, ledger, state


@contextmanager
def _both(source: Path, target: Path) -> Iterator[tuple[Store, Store]]:
    """Own both stores; the target is made if it is not there."""
    if source.resolve() == target.resolve():
        raise StoreError(f"{source} is both the source and the target; give another directory.")
    with closing(Store(source, None, walk_first=False)) as old:
        settings = {"keep": old.keep, "walk_first": False}
        with closing(Store(target, old.identity(), **settings)) as new:
            yield old, new


def _record(store: Store, partition: str) -> Partition:
    partitions = store.partitions()
    if partition not in partitions:
        raise StoreError(f"the store at {store.path} has no partition {partition!r}; it has {sorted(partitions)}.")
    return partitions[partition]


def _pending(record: Partition, partition: str, new: Store) -> Leaving | None:
    """Return the move that is under way, if it goes to this target."""
    if record.leaving is not None and record.leaving["store"] != new.own_name():
        raise StoreError(
            f"a move of {partition!r} to another store than {new.path} is under way; end that first, or cancel it."
        )
    return record.leaving


def _has_arrived(new: Store, record: Partition, partition: str, leaving: Leaving) -> bool:
    """Tell whether the target has committed the move that raised the epoch of the source to what it is."""
    found = new.partitions().get(leaving["to"], Partition())
    return (found.epoch if leaving["groups"] is None else found.taken.get(partition, 0)) >= record.epoch


def _require_owned(old: Store, record: Partition, moved: Move, drained_to: int) -> None:
    if record.is_gone or set(record.given) & (moved.groups or set()):
        what = repr(moved.partition) if record.is_gone else f"all of these key groups of {moved.partition!r}"
        raise StoreError(f"the store at {old.path} does not own {what}: it was moved before.")
    if record.offset < drained_to:
        raise StoreError(
            f"{moved.partition!r} has been read up to {record.offset}, and not to {drained_to}: events of these key "
            "groups may wait there. Let the worker read on, and move then."
        )


def _require_free(old: Store, new: Store, moved: Move) -> None:
    """Refuse a target that has events of its own in the place of what arrives."""
    there = new.partitions().get(moved.to, Partition())
    if there.leaving is not None or (there.is_gone and moved.groups is not None):
        raise StoreError(f"{moved.to!r} is leaving the store at {new.path}; move it here first, or end that move.")
    if moved.groups is None and not there.is_gone and (there.received or there.num_series):
        raise StoreError(f"the store at {new.path} has a partition {moved.to!r} of its own.")
    twice = next((name for name in _ledgers(old, moved) if new.row(name) is not None), None)
    if twice is not None:
        raise StoreError(
            f"the store at {new.path} has a series {twice!r} of its own: events of it came there too early, or the "
            "store is a copy. Delete the series there, or give another directory."
        )

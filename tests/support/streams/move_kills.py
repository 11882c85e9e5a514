"""Workers and moves killed at random moments, against a store that nothing disturbs.

Each life is a process that does what operators do: it lets the owner of each partition read on, ends moves that were
begun, and moves partitions to other stores. It is killed with SIGKILL at a random moment and another one goes on. In
the end the stores together must hold, byte for byte, what one store holds that took in the log undisturbed.

That the harness sees mistakes is shown by planting them (`PLANTED`): `release-first` deletes at the source before the
target has the rows; `arrive-in-two` writes the target's position before its rows.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest import mock

from paramfilter_streams import FileLog, Pace, Partition, Rules, Store, Worker, moving
from paramfilter_streams.records import Commit
from tests.support.streams.draws import numbers
from tests.support.streams.kills import MEMORY, forked
from tests.support.streams.toy import HashResidents, messy_lines

STORES, PARTITIONS = ("a", "b", "c"), ("0", "1", "2", "3")

NUM_SERIES, NUM_STEPS, MESSAGES_A_BATCH = 24, 120, 8

LONGEST_LIFE = 0.06
"""Seconds of a process, from before it opens a store; a move takes some hundredths, a batch less."""

PLANTED = ("nothing", "release-first", "arrive-in-two")


class SharedLog(FileLog):
    """A directory of which a worker reads some partitions."""

    def __init__(self, path: Path, partitions: Sequence[str]):
        super().__init__(path)
        self._own = partitions

    @property
    def partitions(self) -> Sequence[str]:
        return self._own


def write_log(folder: Path, seed: int) -> int:
    """Write the events of a log, each series to one partition; return how many there are."""
    lines = messy_lines(seed, NUM_SERIES, NUM_STEPS)
    shares: dict[str, list[bytes]] = {name: [] for name in PARTITIONS}
    for one in lines:
        try:
            name = PARTITIONS[int(json.loads(one)["series"][1:]) % len(PARTITIONS)]
        except (ValueError, TypeError):
            name = PARTITIONS[0]
        shares[name].append(one)
    for name, some in shares.items():
        (folder / "log" / name).mkdir(parents=True)
        (folder / "log" / name / "0.jsonl").write_bytes(b"\n".join(some) + b"\n")
    return len(lines)


def opened(folder: Path, name: str) -> Store:
    return Store(folder / name, HashResidents().identity, walk_first=False)


def partitions(folder: Path, name: str) -> dict[str, Partition]:
    if not (folder / name / "data.mdb").exists():
        return {}
    with closing(opened(folder, name)) as store:
        return store.partitions()


def read_on(folder: Path, name: str, own: Sequence[str], num_batches: int | None) -> None:
    """Let a store's worker take in some batches, or all that there is."""
    residents, pace = HashResidents(), Pace(MESSAGES_A_BATCH, seconds_to_wait=0.0)
    worker = Worker(residents, SharedLog(folder / "log", own), opened(folder, name), rules=Rules(reorder=2), pace=pace)
    with closing(worker):
        if num_batches is None:
            worker.run(lambda: False, until_idle=True)
        else:
            batches = iter(range(num_batches))
            worker.run(lambda: next(batches, None) is None, until_idle=True)


def live(folder: Path, draw: Iterator[int], planted: str) -> None:
    """Read on, end what was begun, and move a partition, until all is read."""
    if next(draw) % 2:
        read_all(folder)
    books = {name: partitions(folder, name) for name in STORES}
    for name, book in books.items():
        for one, record in book.items():
            if record.leaving:
                _move(folder, name, _target_of(folder, record), one, planted)
    while not _is_done(folder):
        owners = read_all(folder)
        one = PARTITIONS[next(draw) % len(PARTITIONS)]
        others = [name for name in STORES if name != owners[one]]
        _move(folder, owners[one], others[next(draw) % len(others)], one, planted)


def read_all(folder: Path) -> dict[str, str]:
    """Let the owner of each partition take in two batches; return the owners."""
    books = {name: partitions(folder, name) for name in STORES}
    owners = {one: name for name, book in books.items() for one, record in book.items() if not record.is_gone}
    if not any(books.values()):
        owners = dict.fromkeys(PARTITIONS, STORES[0])
    for name in STORES:
        own = [one for one in PARTITIONS if owners.get(one) == name]
        if own:
            read_on(folder, name, own, 2)
    return owners


def _target_of(folder: Path, record: Partition) -> str:
    """Return the store that a move goes to."""
    for name in STORES:
        if record.leaving and (folder / name / "data.mdb").exists():
            with closing(opened(folder, name)) as store:
                if store.own_name() == record.leaving["store"]:
                    return name
    raise AssertionError("a move goes to a store that is not there")


def _move(folder: Path, source: str, target: str, partition: str, planted: str) -> None:
    with mock.patch.multiple(moving, **_mistake(planted)):
        moving.move(folder / source, folder / target, partition)


def _mistake(planted: str) -> dict[str, Any]:
    right = moving._arrive

    def release_first(old: Store, new: Store, record: Partition, moved: moving.Move) -> None:
        rows = [row for row in old.rows() if moved.has(row[0], row[1])]
        moving._release(old, record, moved)
        with mock.patch.object(old, "rows", lambda: rows):
            right(old, new, record, moved)

    def arrive_in_two(old: Store, new: Store, record: Partition, moved: moving.Move) -> None:
        new.commit(Commit([], {moved.to: replace(record, is_gone=False, leaving=None, num_series=0)}))
        right(old, new, record, moved)

    mistakes = {"nothing": right, "release-first": release_first, "arrive-in-two": arrive_in_two}
    return {"_arrive": mistakes[planted]}


def _is_done(folder: Path) -> bool:
    """Tell whether each partition has an owner that has read it to its end."""
    ends = {one: (folder / "log" / one / "0.jsonl").stat().st_size for one in PARTITIONS}
    reached = {
        one: record.offset for name in STORES for one, record in partitions(folder, name).items() if not record.is_gone
    }
    return reached == ends


def found(folder: Path, names: Sequence[str]) -> dict[str, Any]:
    """Return all that some stores hold together."""
    series, posteriors, books, aside = [], {}, {}, []
    for name in names:
        if not (folder / name / "data.mdb").exists():
            continue
        with closing(opened(folder, name)) as store:
            for one, ledger, state in store.rows():
                series.append((one, repr(ledger), state.hex()))
                posteriors[one] = sorted(store.posteriors(one))
            aside += store.quarantined()
            moved = {"source": "", "epoch": 0, "taken": {}}  # a file has its own inode, and moves are what differs
            books |= {one: vars(record) | moved for one, record in store.partitions().items() if not record.is_gone}
    return {"series": sorted(series), "posteriors": posteriors, "partitions": books, "quarantined": sorted(aside)}


def trial(folder: Path, seed: int, planted: str) -> tuple[int, int, int, list[str]]:
    """Go through one log with kills. Return how many kills, moves and events there were, and what differs."""
    for name in ("calm", "killed"):
        events = write_log(folder / name, seed)
    read_on(folder / "calm", STORES[0], PARTITIONS, None)
    wanted = found(folder / "calm", STORES[:1])
    draw = iter(numbers(seed + 2**33))
    kills, longest, reached = 0, LONGEST_LIFE, 0
    for life in itertools.count():
        own_draw = iter(numbers(seed + 2**34 + life))
        pid = forked(lambda own_draw=own_draw: live(folder / "killed", own_draw, planted))
        time.sleep(longest * (next(draw) / 2**32))
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        if os.WIFEXITED(status):
            break
        kills += 1
        before, reached = reached, _commits(folder / "killed")
        # On a machine that others keep busy a life may be too short for anything.
        longest = longest * 1.1 if reached == before else LONGEST_LIFE
    moves = sum(
        record.epoch for name in STORES for record in partitions(folder / "killed", name).values() if not record.is_gone
    )
    if os.WEXITSTATUS(status):
        return kills, moves, events, ["it could not start again"]
    seen = found(folder / "killed", STORES)
    return kills, moves, events, [name for name in wanted if seen[name] != wanted[name]]


def _commits(folder: Path) -> int:
    """Return how many commits all stores have had."""
    total = 0
    for name in STORES:
        if (folder / name / "data.mdb").exists():
            with closing(opened(folder, name)) as store:
                total += store._num_commits
    return total


def run(num_kills: int, planted: str = "nothing", longest: float = math.inf) -> dict[str, Any]:
    """Kill so many times, or for so many seconds, and count what differed."""
    row = {"planted": planted, "kills": 0, "moves": 0, "trials": 0, "events": 0, "trials_that_differ": 0}
    ways: dict[str, int] = {}
    began = time.perf_counter()
    while row["kills"] < num_kills and time.perf_counter() - began < longest:
        folder = Path(tempfile.mkdtemp(prefix="move-kills-", dir=MEMORY if MEMORY.exists() else None))
        try:
            kills, moves, events, differing = trial(folder, row["trials"], planted)
        finally:
            shutil.rmtree(folder)
        more = {"kills": kills, "moves": moves, "trials": 1, "events": events, "trials_that_differ": bool(differing)}
        row |= {name: row[name] + number for name, number in more.items()}
        for one in differing:
            ways[one] = ways.get(one, 0) + 1
    return row | {"what_differs": ways, "kills_a_second": round(row["kills"] / (time.perf_counter() - began), 1)}

"""Workers killed at random moments, against one that never is.

The worker is the real one, with the real store and a log of files; only its states are hashes (see `toy`), so that a
process can be forked, killed with SIGKILL at a random moment and forked again some dozens of times a second. After each
trial (a log taken to its end) states, posteriors, counts, quarantine and outputs are compared with those of a run that
nothing disturbs, byte for byte.

With `lost-disks`, a process takes snapshots meanwhile and is killed with the worker. After some kills the store is
deleted, and the last snapshot restored.

That the harness sees mistakes is shown by planting them (`STORES`): `offset-first` commits the offsets before the
states; `no-sync` does not sync, on a disk that loses at each kill all that was not synced (`forgetful-disk` is the
right store on such a disk).
"""

from __future__ import annotations

import contextlib
import math
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from paramfilter.errors import StoreError
from paramfilter_streams import FileLog, Output, Pace, Rules, Store, Worker, snapshots
from paramfilter_streams.records import Commit
from tests.support.streams.draws import numbers
from tests.support.streams.toy import HashResidents, messy_lines

LONGEST_LIFE = 0.1
"""Of a process, as a share of the time that the whole log takes."""

MEMORY = Path("/dev/shm")
"""A kill loses nothing that was written, synced or not, so the trials need no disk."""

NUM_SERIES, NUM_STEPS, MESSAGES_A_BATCH = 12, 240, 16


class OffsetFirst(Store):
    """The mistake of committing where to go on before what has been done."""

    def commit(self, commit: Commit) -> None:
        super().commit(Commit([], commit.partitions))
        super().commit(commit)


class ForgetfulDisk(Store):
    """A right store on a disk that keeps only what was synced: the harness puts `synced` back after each kill."""

    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        self._has_been_synced()

    def _has_been_synced(self) -> None:
        shutil.copy(self.path / "data.mdb", self.path / "synced.new")
        os.replace(self.path / "synced.new", self.path / "synced")


class NoSync(ForgetfulDisk):
    """The mistake of not syncing, but for every tenth commit, as an operating system does it now and then."""

    commits = 0

    def _opened(self, largest_bytes: int) -> Any:
        return self._lmdb.open(str(self.path), map_size=largest_bytes, max_dbs=8, sync=False)

    def _has_been_synced(self) -> None:
        self.commits += 1
        if self.commits % 10 == 1:
            super()._has_been_synced()


STORES: dict[str, type[Store]] = {
    "nothing": Store,
    "offset-first": OffsetFirst,
    "forgetful-disk": ForgetfulDisk,
    "no-sync": NoSync,
    "lost-disks": Store,
}

KILLS_A_DISK = 10
"""One kill in so many also takes the disk, with `lost-disks`."""


class FileSink:
    """Appends outputs to a file, after a line that the last kill cut in two."""

    def __init__(self, path: Path):
        self.file = path.open("ab", buffering=0)
        if self.file.tell() and not path.read_bytes().endswith(b"\n"):
            self.file.write(b"\n")

    def write(self, outputs: Sequence[Output]) -> None:
        self.file.write(b"".join(one.line + b"\n" for one in outputs))

    def close(self) -> None:
        self.file.close()


class BookLog(FileLog):
    """Notes what it is told to be durable."""

    def acknowledge(self, positions: Any) -> None:
        book = self.path.parent / "acknowledged"
        with (self.path.parent / "acknowledged.new").open("w") as file:
            file.write(str(max(positions.values())))
        os.replace(self.path.parent / "acknowledged.new", book)


def write_log(folder: Path, seed: int) -> None:
    (folder / "log").mkdir(parents=True)
    (folder / "log" / "0.jsonl").write_bytes(b"\n".join(messy_lines(seed, NUM_SERIES, NUM_STEPS)) + b"\n")


def opened(folder: Path, store_kind: type[Store]) -> Worker:
    """Return a worker on the log and the store of a folder."""
    residents, pace = HashResidents(), Pace(MESSAGES_A_BATCH, seconds_to_wait=0.0)
    store = store_kind(folder / "store", residents.identity, walk_first=False)
    return Worker(residents, BookLog(folder / "log"), store, FileSink(folder / "outputs"), Rules(reorder=2), pace)


def live(folder: Path, store_kind: type[Store]) -> Worker:
    """Take the log to its end, or as far as one comes."""
    worker = opened(folder, store_kind)
    worker.run(lambda: False, until_idle=True)
    return worker


def work(folder: Path, store_kind: type[Store]) -> dict[str, Any]:
    """Take the log to its end, and return everything that is durable."""
    worker = live(folder, store_kind)
    found = {
        "series": [[name, repr(ledger), state.hex()] for name, ledger, state in worker.store.rows()],
        "posteriors": {name: worker.latest(name) for name in sorted(worker.residents.names)},
        # Each log is a file of its own, so its inode differs.
        "partitions": {name: vars(one) | {"source": ""} for name, one in worker.store.partitions().items()},
        "quarantined": [repr(one) for one in worker.store.quarantined()],
        # An output may be repeated, and a kill may have cut a line in two: the repeat is whole.
        "outputs": sorted({one for one in (folder / "outputs").read_bytes().split(b"\n") if one.endswith(b"}")}),
    }
    worker.close()
    return found


def forked(action: Callable[[], Any]) -> int:
    """Run something in a fork, which ends without any tidying up."""
    pid = os.fork()
    if pid:
        return pid
    try:
        action()
        os._exit(0)
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
        os._exit(1)


def trial(folder: Path, seed: int, planted: str) -> tuple[int, int, list[str]]:
    """Go through one log with kills. Return how many there were, how many events, and what differs in the end."""
    for name in ("calm", "killed"):
        write_log(folder / name, seed)
    began = time.perf_counter()
    wanted = work(folder / "calm", Store)
    usual = time.perf_counter() - began
    draw, kills, lost, reached = iter(numbers(seed + 2**32)), 0, False, 0
    longest = usual * LONGEST_LIFE
    while True:
        pid = forked(lambda: live(folder / "killed", STORES[planted]))
        others = [forked(lambda: take_snapshots(folder / "killed"))] if planted == "lost-disks" else []
        # From before the store is open to some dozen commits later.
        time.sleep(longest * (next(draw) / 2**32))
        for one in (pid, *others):
            os.kill(one, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        for one in others:
            os.waitpid(one, 0)
        if os.WIFEXITED(status):
            break
        kills += 1
        if others and next(draw) % KILLS_A_DISK == 0:
            lose_disk(folder / "killed")
        if (folder / "killed" / "store" / "synced").exists():
            shutil.copy(folder / "killed" / "store" / "synced", folder / "killed" / "store" / "data.mdb")
        lost |= has_lost(folder / "killed")
        before, reached = reached, durable_offset(folder / "killed")
        # On a machine that others keep busy a life may be too short for anything.
        longest = longest * 1.1 if reached == before else usual * LONGEST_LIFE
    differing = ["acknowledged but lost"] if lost else []
    if os.WEXITSTATUS(status):
        differing.append("it could not start again")
    else:
        found = work(folder / "killed", Store)  # all is done by now, so this takes in nothing
        differing += [name for name in wanted if found[name] != wanted[name]]
    return kills, wanted["partitions"]["."]["received"], differing


def take_snapshots(folder: Path) -> None:
    """Take snapshots until killed."""
    while True:
        with contextlib.suppress(StoreError):  # there is no store yet, or nothing in it
            snapshots.take(folder / "store", str(folder / "kept"), keep=2)


def lose_disk(folder: Path) -> None:
    """Delete a store, and restore the last snapshot if there is one."""
    shutil.rmtree(folder / "store", ignore_errors=True)
    (folder / "acknowledged").unlink(missing_ok=True)  # what came after the snapshot is read again, and told again
    if snapshots.listed(str(folder / "kept")):
        snapshots.restore(str(folder / "kept"), folder / "store")


def has_lost(folder: Path) -> bool:
    """Tell whether the log has been told of more than the store holds."""
    told = folder / "acknowledged"
    return told.exists() and durable_offset(folder) < int(told.read_text())


def durable_offset(folder: Path) -> int:
    """Return how far a store has come."""
    store = Store(folder / "store", HashResidents().identity, walk_first=False)
    partitions = store.partitions()
    store.close()
    return partitions["."].offset if partitions else 0


def run(num_kills: int, planted: str, longest: float = math.inf) -> dict[str, Any]:
    """Kill so many times, or for so many seconds, and count what differed."""
    kills = events = trials = bad = 0
    ways: dict[str, int] = {}
    began = time.perf_counter()
    while kills < num_kills and time.perf_counter() - began < longest:
        folder = Path(tempfile.mkdtemp(prefix="kills-", dir=MEMORY if MEMORY.exists() else None))
        try:
            more, received, differing = trial(folder, trials, planted)
        finally:
            shutil.rmtree(folder)
        kills, events, trials, bad = kills + more, events + received, trials + 1, bad + bool(differing)
        for one in differing:
            ways[one] = ways.get(one, 0) + 1
    return {
        "planted": planted,
        "kills": kills,
        "trials": trials,
        "events": events,
        "trials_that_differ": bad,
        "what_differs": ways,
        "kills_a_second": round(kills / (time.perf_counter() - began), 1),
    }

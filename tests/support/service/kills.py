"""Workers killed between any two writes, against one that never is.

A life is a worker that processes a log into a store. Before one of the statements that it sends to SQLite, chosen at
random, the files of its store are copied as they are: that is what a process leaves that is killed at this point, since
the kernel keeps what was written. The next life begins with the copy. When the log has been processed, every table is
compared with that of a worker that nothing disturbed.

That the harness sees mistakes is shown by planting two (`STORES`): states that are committed before the positions, and
positions before the states. `running` has processes that are killed with SIGKILL.
"""

import shutil
import tempfile
import time
from pathlib import Path
from typing import Any

from paramfilter.tables import Rules
from paramfilter_service.store import Commit, Store
from paramfilter_service.worker import Batch, Worker
from tests.support.service.lines import messy_lines, numbers
from tests.support.service.working import ListLog, content, run, small_table

NUM_SERIES, NUM_STEPS = 8, 40

RULES = Rules(reorder=2)

LONGEST_LIFE = 60
"""Statements, counting those that write many rows once."""

MEMORY = Path("/dev/shm")
"""A kill loses nothing that was written, synced or not, so the trials need no disk."""


class StateFirst(Store):
    """The mistake of committing what has been done before where to continue."""

    def _put(self, table: str, **columns: Any) -> None:
        if table == "positions":
            self._sql.commit()
        super()._put(table, **columns)


class OffsetFirst(Store):
    """The mistake of committing where to continue before what has been done."""

    def _write(self, batch: Commit) -> None:
        nothing = Commit(batch.states[:0], batch.outputs[:0], [], batch.positions, batch.counts)
        super()._write(nothing)
        self._sql.commit()
        super()._write(batch)


STORES: dict[str, type[Store]] = {"nothing": Store, "state-first": StateFirst, "offset-first": OffsetFirst}


def life(folder: Path, image: Path, lines: list[bytes], events: int, statements: int, kind: type[Store]) -> bool:
    """Work until a statement, and leave an image of the store as it is then; tell whether it came to that."""
    store, last, left = kind(str(folder / "fleet.db")), "", statements
    worker = Worker(small_table(RULES), ListLog(lines, 7), store, Batch(messages=5, events=events, wait=0.0))

    def count(statement: str) -> None:
        nonlocal left, last
        left -= statement[:30] != last  # rows of one table are one statement
        last = statement[:30]
        if left == 0 and not image.exists():
            image.mkdir()
            for name in ("fleet.db", "fleet.db-wal"):
                shutil.copy(folder / name, image / name)

    store._sql.set_trace_callback(count)
    try:
        while not image.exists() and worker.work_once():
            pass
    finally:
        worker.close()
    return image.exists()


def trial(folder: Path, seed: int, planted: str) -> tuple[int, int, list[str]]:
    """Process one log with kills; return how many there were, how many events, and what differs in the end."""
    lines, draw = messy_lines(seed, NUM_SERIES, NUM_STEPS), numbers(seed + 2**32)
    (folder / "calm").mkdir(parents=True)
    run(Worker(small_table(RULES), ListLog(lines, 7), Store(str(folder / "calm" / "fleet.db"))))
    place, kills = folder / "0", 0
    place.mkdir()
    while life(
        place, folder / str(kills + 1), lines, 1 + next(draw) % 60, 1 + next(draw) % LONGEST_LIFE, STORES[planted]
    ):
        shutil.rmtree(place)
        kills += 1
        place = folder / str(kills)
    wanted, found = content(folder / "calm" / "fleet.db"), content(place / "fleet.db")
    return kills, len(lines), [name for name in wanted if found[name] != wanted[name]]


def kill(num_kills: int, planted: str = "nothing", first_seed: int = 0) -> dict[str, Any]:
    """Kill so many times, and count what differed."""
    kills = events = trials = bad = 0
    ways: dict[str, int] = {}
    began = time.perf_counter()
    while kills < num_kills:
        folder = Path(tempfile.mkdtemp(prefix="kills-", dir=MEMORY if MEMORY.exists() else None))
        try:
            more, received, differing = trial(folder, first_seed + trials, planted)
        finally:
            shutil.rmtree(folder)
        kills, events, trials, bad = kills + more, events + received, trials + 1, bad + bool(differing)
        for one in differing:
            ways[one] = ways.get(one, 0) + 1
    row = {"planted": planted, "kills": kills, "logs": trials, "events": events, "logs_that_differ": bad}
    return {**row, "what_differs": ways, "kills_a_second": round(kills / (time.perf_counter() - began), 1)}

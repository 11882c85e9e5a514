"""Random actions and faults against a worker, and a plain account of what must come of them.

A seed draws one action after another: events are appended to a log (in order, ahead, again, too late, missing, poison),
batches of any size are worked on, committed or not, the disk is full for a while, the worker dies between two batches,
before a commit is written or right after. There may be room in memory for fewer series than there are. Each time a
worker starts, what its store holds must be what `expected` says of the log up to the store's offset, in every state,
count, posterior and quarantined line. `expected` reads the log from its start with nothing but dicts and shares no code
with the worker.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import struct
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from paramfilter_streams import Limits, Message, Pace, Position, Rules, Store, Worker
from paramfilter_streams.records import Commit
from paramfilter_streams.store import DiskFullError
from tests.support.streams.draws import numbers
from tests.support.streams.kills import MEMORY
from tests.support.streams.toy import DIGEST, HashResidents, line

NUM_SERIES, KEEP, REMEMBERED = 5, 8, 64
POISON = (b"", b"{", b'{"series": "s0"}', b'{"series": "s0", "seq": 1, "y": 1e999}')


def expected(lines: Sequence[bytes], rules: Rules) -> dict[str, Any]:
    """Say what comes of some lines, read from the first to the last."""
    fates: Counter[str] = Counter()
    taken: dict[str, list[float | None]] = {}  # what each step of a series had; None if nothing came
    waiting: dict[str, dict[int, float]] = {}
    aside: list[bytes] = []
    filled = 0
    for one in lines:
        if one in POISON:
            fates["quarantined"] += 1
            aside.append(one)
            continue
        said = json.loads(one)
        name, number, y = said["series"], said["seq"], float("nan") if said["y"] is None else said["y"]
        steps, held = taken.setdefault(name, []), waiting.setdefault(name, {})
        if number <= len(steps):
            age = len(steps) - number
            was_empty = None in steps[:-REMEMBERED] if age >= REMEMBERED else steps[number - 1] is None
            fates["late" if was_empty else "duplicate"] += 1
            aside += [one] * was_empty
        elif number in held:
            fates["duplicate"] += 1
        elif number - len(steps) - 1 > rules.longest_gap:
            fates["quarantined"] += 1
            aside.append(one)
        else:
            held[number] = y
            while len(steps) + 1 in held or len(held) > rules.reorder:
                y = held.pop(len(steps) + 1, None)
                steps.append(y)
                filled += y is None
                if y is not None:
                    fates["missing" if y != y else "applied"] += 1
    return {
        "states": {name: _state(name, steps) for name, steps in taken.items()},
        "waiting": {name: sorted(held) for name, held in waiting.items()},
        "posteriors": {name: _posteriors(name, steps) for name, steps in taken.items()},
        "counts": {name: fates[name] for name in ("applied", "missing", "duplicate", "late", "quarantined")},
        "received": len(lines),
        "filled": filled,
        "aside": aside,
    }


def _state(name: str, steps: Sequence[float | None]) -> bytes:
    """Return a chain of hashes over all steps."""
    digest = hashlib.blake2b(name.encode(), digest_size=DIGEST).digest()
    for count, y in enumerate(steps, start=1):
        seen = struct.pack("<Qd", count, float("nan") if y is None else y)
        digest = hashlib.blake2b(digest + seen, digest_size=DIGEST).digest()
    return digest


def _posteriors(name: str, steps: Sequence[float | None]) -> list[tuple[int, str, float]]:
    """Return the number, the fate and the first figure of the last steps."""
    found = []
    for number in range(max(1, len(steps) - KEEP + 1), len(steps) + 1):
        y = steps[number - 1]
        fate = "filled" if y is None else "missing" if y != y else "applied"
        found.append((number, fate, int.from_bytes(_state(name, steps[:number])[:4], "big") / 2**32))
    return found


class GrowingLog:
    """Lines in memory, one a message."""

    partitions, lag = ("p",), None

    def __init__(self):
        self.lines: list[bytes] = []
        self.acknowledged = 0

    def read(self, positions: Mapping[str, Position], at_most: int, wait: float) -> list[Message]:
        start = positions["p"].offset
        some = self.lines[start : start + at_most]
        return [Message("p", start + number, one) for number, one in enumerate(some, start=1)]

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        self.acknowledged = positions["p"]

    def close(self) -> None:
        """Do nothing: it is the same log for the next worker."""


class Death(BaseException):
    """Ends a worker where it stands."""


class MortalStore(Store):
    """A store whose disk may be full, and whose owner may die before a commit or right after it."""

    has_room, dies = True, ""

    def commit(self, commit: Commit) -> None:
        if not self.has_room:
            raise DiskFullError("there is no room")
        if self.dies == "before":
            raise Death
        super().commit(commit)
        if self.dies == "after":
            raise Death


class Simulation:
    """One worker after another on one log and one store.

    Args:
        folder: Where the store is.
        seed: Of the actions.
    """

    def __init__(self, folder: Path, seed: int):
        self.folder, self.draw = folder, iter(numbers(seed))
        self.rules = Rules(reorder=self.pick(5), longest_gap=10)
        self.log, self.done, self.checks = GrowingLog(), Counter[str](), 0
        self.sent = dict.fromkeys((f"s{number}" for number in range(NUM_SERIES)), 0)
        self.worker = self.opened()

    def pick(self, below: int) -> int:
        return next(self.draw) % below

    def opened(self) -> Worker:
        residents = HashResidents(room=(1, 2, 4, 1000)[self.pick(4)], row_bytes=DIGEST + 8)
        store = MortalStore(self.folder / "store", residents.identity, keep=KEEP, walk_first=False)
        worker = Worker(residents, self.log, store, None, self.rules, Pace(seconds_to_wait=0.0), Limits(1000))
        worker.recover()
        return worker

    def act(self) -> None:
        """Do one thing."""
        actions = (self.send, self.send, self.send, self.work, self.work, self.commit, self.fill_disk, self.die)
        action = actions[self.pick(len(actions))]
        self.done[action.__name__] += 1
        action()

    def send(self) -> None:
        """Append some events."""
        for _ in range(1 + self.pick(20)):
            name, luck = f"s{self.pick(NUM_SERIES)}", self.pick(20)
            if not luck:
                self.log.lines.append(POISON[self.pick(len(POISON))])
                continue
            ahead = 1 if luck < 14 else self.pick(4) if luck < 17 else self.pick(14) if luck == 17 else -self.pick(80)
            number = max(1, self.sent[name] + ahead)
            self.sent[name] = max(self.sent[name], number) if ahead <= 4 else self.sent[name]
            self.log.lines.append(line(name, number, self.pick(2**20) / 2**20 if self.pick(10) else None))

    def work(self) -> None:
        """Take in a batch, to be committed soon or not."""
        self.worker.pace = Pace(1 + self.pick(60), (0.0, 1e9)[self.pick(2)], 0.0)
        self.worker.work_once()

    def commit(self) -> None:
        """Commit, if there is room."""
        try:
            self.worker.commit()
        except DiskFullError:
            assert self.worker.cannot_commit

    def fill_disk(self) -> None:
        """Take the room on the disk, or give it back."""
        store: Any = self.worker.store
        store.has_room = not store.has_room

    def die(self) -> None:
        """End the worker in one of three ways, and look at what it left."""
        store: Any = self.worker.store
        store.dies = ("", "before", "after")[self.pick(3)]
        try:
            self.worker.work_once()
            if self.pick(2):
                self.worker.commit()
        except (Death, DiskFullError):
            pass
        self.worker.close()
        self.worker = self.opened()
        self.check()

    def check(self) -> None:
        """Compare what is durable with what must come of the log up to there."""
        partition = self.worker.store.partitions().get("p")
        durable = 0 if partition is None else partition.offset
        assert self.log.acknowledged <= durable, "the log has heard of what is not there"
        wanted = expected(self.log.lines[:durable], self.rules)
        rows = list(self.worker.store.rows())
        found = {
            "states": {name: state[8 : 8 + DIGEST] for name, _, state in rows},
            "waiting": {name: sorted(ledger.held) for name, ledger, _ in rows},
            "posteriors": {name: self._said(name) for name, _, _ in rows},
            "counts": wanted["counts"] if partition is None else partition.counts,
            "received": 0 if partition is None else partition.received,
            "filled": 0 if partition is None else partition.filled,
            "aside": [one.raw for one in self.worker.store.quarantined()],
        }
        differing = [name for name in wanted if found[name] != wanted[name]]
        assert not differing, f"{differing} differ after {durable} lines"
        self.checks += 1

    def _said(self, name: str) -> list[tuple[int, str, float]]:
        return [(one.sequence, one.fate, one.figures["mean:hash"]) for one in self.worker.latest(name)]


def simulate(seed: int, num_actions: int) -> Simulation:
    """Do so many things; the message of an error names the seed."""
    folder = Path(tempfile.mkdtemp(prefix="actions-", dir=MEMORY if MEMORY.exists() else None))
    simulation = Simulation(folder, seed)
    try:
        for _ in range(num_actions):
            simulation.act()
        simulation.die()
    except AssertionError as error:
        raise AssertionError(f"seed {seed}: {error}") from error
    finally:
        simulation.worker.close()
        shutil.rmtree(folder)
    return simulation

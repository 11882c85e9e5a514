"""A worker on lines in memory, and everything that its store holds."""

import functools
from pathlib import Path
from typing import Any

import numpyro.distributions as dist

import paramfilter as pf
from paramfilter.tables import Rules, StateTable
from paramfilter_service.logs import Log, Message, Position
from paramfilter_service.store import Store, reading
from paramfilter_service.worker import Batch, Worker


@functools.cache
def small_table(rules: Rules = Rules()) -> StateTable:
    """Return a table whose filter compiles quickly; one for all tests with the same rules."""
    model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5)
    return StateTable(pf.storvik_filter(model, 4), rules=rules, forecasts=True)


class ListLog(Log, tag="list"):
    """Lines in memory, in messages of a given size."""

    lines: list[bytes]
    size: int = 1

    @property
    def partitions(self) -> list[str]:
        return ["p"]

    def read(self, positions: dict[str, Position], at_most: int, wait: float) -> list[Message]:
        firsts = range(positions["p"].offset, len(self.lines), self.size)[:at_most]
        parts = [(first, self.lines[first : first + self.size]) for first in firsts]
        return [Message("p", Position(first), b"\n".join(part), Position(first + len(part))) for first, part in parts]


def opened(path: Path, log: Log, table: StateTable | None = None, **batch: Any) -> Worker:
    """Return a worker on the store at a path."""
    return Worker(table or small_table(), log, Store(str(path)), Batch(**{"wait": 0.0, **batch}))


def run(worker: Worker) -> Worker:
    """Take the log to its end, and close everything."""
    try:
        while worker.work_once():
            pass
    finally:
        worker.close()
    return worker


CONTENT = {
    "states": 'SELECT series, "group", seq, epoch, ledger, state, checksum FROM states ORDER BY series',
    "outputs": "SELECT * FROM steps ORDER BY series, seq",
    "latest": "SELECT * FROM latest ORDER BY series",
    "positions": "SELECT * FROM positions ORDER BY partition",
    "counts": "SELECT * FROM counts WHERE name != 'commits' ORDER BY name",
    "quarantine": "SELECT * FROM quarantine ORDER BY number",
    "about": "SELECT * FROM about ORDER BY name",
}


def content(path: Path) -> dict[str, Any]:
    """Return all that a store holds, but for the number of commits and the order in which series came into it."""
    with reading(path) as connection:
        return {name: connection.execute(question).fetchall() for name, question in CONTENT.items()}

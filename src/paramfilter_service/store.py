"""What is durable: states, positions in the log, posteriors, counts and quarantine, in one SQLite file.

A batch is one transaction: after any crash the file holds the states of a batch together with the position after it,
or neither. The file is in WAL mode, so others may read it, copy it (`backup`) or replicate it (Litestream) meanwhile:

    python -m sqlite3 fleet.db "SELECT seq, phi_mean, phi_sd FROM steps WHERE series = 'oslo' ORDER BY seq"
    python -m sqlite3 fleet.db "SELECT series, phi_mean, phi_sd FROM latest ORDER BY ess LIMIT 10"

A series has a number in the order of arrival, and outputs are ordered by slot (`seq` modulo their number) and series.
Series that arrive together are therefore written together, on few pages, however many series there are.

SQLite has checksums in its write-ahead log, not over the pages of the file; each state has one of its own here.
"""

import contextlib
import fcntl
import json
import os
import sqlite3
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import msgspec
import pyarrow as pa

from paramfilter.errors import StoreError
from paramfilter_service.logs import Position

PASSES = {"SQLITE_FULL", "SQLITE_IOERR_WRITE", "SQLITE_IOERR_SHMSIZE", "SQLITE_BUSY", "SQLITE_BUSY_SNAPSHOT"}
"""Errors that pass when the disk has room again (a quota is an error of writing), or another program is done."""

SCHEMA, OUTPUTS = (Path(__file__).with_name(f"{name}.sql").read_text() for name in ("schema", "outputs"))


class StoreUnavailableError(StoreError):
    """The disk is full, or another program holds the store: the same commit can be tried again."""


class Commit(NamedTuple):
    """What one transaction writes.

    Attributes:
        states: Rows of states that have changed.
        outputs: Outputs of the steps.
        aside: Events to keep: how each ended, why, and its line.
        positions: Where to continue in each partition of the batch.
        counts: All counts, after the batch.
    """

    states: pa.Table
    outputs: pa.Table
    aside: Sequence[tuple[str, str, bytes]]
    positions: dict[str, Position]
    counts: dict[str, int]


class Store(msgspec.Struct, forbid_unknown_fields=True, dict=True, eq=False):
    """The file of one service, which is its only writer.

    Args:
        path: The file; its directory must exist.
        keep: How many of the last outputs of a series are kept.
        keep_quarantined: How many of the last quarantined lines are kept.
    """

    path: str
    keep: int = 64
    keep_quarantined: int = 1000

    def open(self, empty: pa.Table, outputs: list[str]) -> None:
        """Open the file, or make it.

        Args:
            empty: A table of no states, whose schema says what the states belong to.
            outputs: The names of the columns of outputs, without the series and its number.
        """
        with self._named_errors(), contextlib.ExitStack() as opened:
            fcntl.flock(opened.enter_context(open(f"{self.path}-owner", "ab")), fcntl.LOCK_EX | fcntl.LOCK_NB)
            self._sql = sqlite3.connect(self.path, isolation_level="IMMEDIATE", check_same_thread=False)
            opened.enter_context(contextlib.closing(self._sql))
            self._sql.executescript(SCHEMA)
            self._prepare(outputs)
            self._schema, given = empty.schema, empty.schema.metadata or {}
            self._about = {key.decode(): value.decode() for key, value in given.items()}
            self._about |= dict(self._sql.execute("SELECT name, value FROM about"))
            with self._sql:
                self._put("about", name=list(self._about), value=list(self._about.values()))
            self._open = opened.pop_all()

    def _prepare(self, columns: list[str]) -> None:
        """Make the table of outputs with these columns; if it has others, its history begins again."""
        slots = ", ".join(map(str, range(self.keep)))
        script = OUTPUTS.format(columns=", ".join(f'"{name}"' for name in columns), slots=slots, keep=self.keep)
        version = zlib.crc32(script.encode()) >> 1
        if self._sql.execute("PRAGMA user_version").fetchone() != (version,):
            self._sql.executescript(f"{script}; PRAGMA user_version = {version}")

    def states(self, names: pa.Array) -> pa.Table:
        """Return the rows of some series; a series without a state has none."""
        # CROSS JOIN looks each name up; SQLite might read the whole table else.
        asked = "SELECT s.* FROM json_each(?) AS j CROSS JOIN states AS s ON s.series = j.value"
        with self._named_errors():
            found = self._sql.execute(asked, [json.dumps(names.to_pylist())])
            rows, columns = found.fetchall(), [name for name, *_ in found.description]
        content = dict(zip(columns, zip(*rows, strict=True) if rows else [()] * len(columns), strict=True))
        for name, one, other in zip(content["series"], content["checksum"], _checksums(content), strict=True):
            if one != other:
                raise StoreError(f"the state of {name!r} in {self.path} is damaged; restore a backup.")
        self._ids = dict(zip(content["series"], content["id"], strict=True))
        arrays = [pa.array(content[field.name], field.type) for field in self._schema]
        return pa.table(arrays, schema=self._schema.with_metadata(self._about))

    def progress(self) -> tuple[dict[str, Position], dict[str, int]]:
        """Return where to continue in each partition, and all counts."""
        with self._named_errors():
            rows = self._sql.execute("SELECT partition, offset, source, line FROM positions")
            counts = self._sql.execute("SELECT name, number FROM counts")
            return {name: Position(*place) for name, *place in rows}, dict(counts)

    def commit(self, batch: Commit) -> None:
        """Write a batch, whole or not at all.

        Raises:
            StoreUnavailableError: Nothing was written; try again.
            StoreError: Another process has written since, or the disk failed.
        """
        with self._named_errors(), self._sql:
            fence = "UPDATE counts SET number = number + 1 WHERE name = 'commits' AND number = ?"
            if not self._sql.execute(fence, [batch.counts["commits"] - 1]).rowcount:
                raise StoreError(f"another process has written to {self.path}. Let one service own it.")
            self._write(batch)

    def close(self) -> None:
        """Close the file and let another process own it; a second call does nothing."""
        self._open.close()

    def _write(self, batch: Commit) -> None:
        states, outputs = ({name: table[name].to_pylist() for name in table.column_names} for table in batch[:2])
        ((last,),) = self._sql.execute("SELECT coalesce(max(id), 0) FROM states")
        new = [name for name in states["series"] if name not in self._ids]
        ids = self._ids | {name: last + number for number, name in enumerate(new, start=1)}
        self._put("states", id=[ids[name] for name in states["series"]], **states, checksum=_checksums(states))
        owners = [ids[name] for name in outputs.pop("series")]
        self._put("outputs", slot=[seq % self.keep for seq in outputs["seq"]], id=owners, **outputs)
        self._put("quarantine", **dict(zip(("fate", "reason", "line"), zip(*batch.aside, strict=True), strict=False)))
        oldest = "(SELECT max(number) FROM quarantine) - ?"
        self._sql.execute(f"DELETE FROM quarantine WHERE number <= {oldest}", [self.keep_quarantined])
        places = dict(zip(Position._fields, zip(*batch.positions.values(), strict=True), strict=True))
        self._put("positions", partition=list(batch.positions), **places)
        self._put("counts", name=list(batch.counts), number=list(batch.counts.values()))

    def _put(self, table: str, **columns: Sequence[Any]) -> None:
        """Insert rows, or replace those with the same key."""
        if columns:
            names, marks = ", ".join(f'"{name}"' for name in columns), ", ".join("?" * len(columns))
            new = ", ".join(f'excluded."{name}"' for name in columns)
            into = f"INSERT INTO {table} ({names}) VALUES ({marks}) ON CONFLICT DO UPDATE SET ({names}) = ({new})"
            self._sql.executemany(into, zip(*columns.values(), strict=True))

    @contextlib.contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except BlockingIOError as error:
            raise StoreError(f"another process owns the store: it holds {self.path}-owner. Stop it first.") from error
        except (sqlite3.Error, OSError) as error:
            kind = StoreUnavailableError if getattr(error, "sqlite_errorname", "") in PASSES else StoreError
            again = "What was not committed is read again from the log."
            raise kind(f"the store {self.path} cannot be used: {error}. {again}") from error


@contextlib.contextmanager
def reading(path: str | os.PathLike) -> Iterator[sqlite3.Connection]:
    """Open a store to read the last commit, while a service may be writing."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(os.fspath(path))}?mode=ro", uri=True)) as connection:
            yield connection
    except sqlite3.Error as error:
        raise StoreError(f"the store {path} cannot be read: {error}.") from error


def backup(path: str | os.PathLike, target: str | os.PathLike) -> None:
    """Copy the last commit of a store to a new file by SQLite's backup; a service may be writing meanwhile."""
    if Path(target).exists():
        raise StoreError(f"there is something at {target} already; name a new file.")
    with reading(path) as source, contextlib.closing(sqlite3.connect(target)) as copy:
        Path(target).chmod(0o600)
        source.backup(copy)


def _checksums(states: Mapping[str, Sequence[Any]]) -> list[int]:
    """Return the CRC-32 of each row of states, over its numbers and its bytes."""
    rows = zip(*(states[name] for name in ("seq", "epoch", "ledger", "state")), strict=True)
    numbers = lambda *one: zlib.crc32(b"%d %d" % one)
    return [zlib.crc32(state, zlib.crc32(ledger or b"", numbers(*rest))) for *rest, ledger, state in rows]

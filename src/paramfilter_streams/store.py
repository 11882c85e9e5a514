"""Where a stream's states are kept: state rows, posteriors and the offsets that led to them, in one atomic batch.

The store is a directory with an LMDB file and a lock. Whoever opens it owns it until it ends, however it ends, since
the kernel gives the lock back. A commit is one transaction: all of it is there after a crash, or none.

Each record carries a checksum over its key and content, and the file's first record says to what it belongs: the
filter's fingerprint, the layout of a row, the seed. A store that is torn, flipped, cut short or foreign is refused,
with what was found. A damaged tree can bring down whoever walks it, so a process of its own walks it first
(`store_walk`).

Commits are numbered, and each names the one before it. If a lock is lost, for example because its file was removed, two
processes may hold the store: the first to commit goes on, and the commit of the other is refused.

What LMDB was chosen over, and by which numbers, is in `docs/decisions/0025-the-state-store.md`.
"""

from __future__ import annotations

import errno
import fcntl
import itertools
import os
import struct
import subprocess
import sys
import threading
import uuid
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paramfilter.errors import StoreError, extra
from paramfilter.filters import first_difference
from paramfilter_streams.ordering import Ledger
from paramfilter_streams.records import (
    CHECKSUM,
    Commit,
    Partition,
    Quarantined,
    ledger_bytes,
    ledger_of,
    partition_bytes,
    partition_of,
    sealed,
)

EXTRA = "streaming"
"""The extra that brings lmdb and nats-py."""

FORMAT = 3
"""Number of this layout; a reader refuses numbers it does not know."""

LARGEST_BYTES = 1 << 40
"""Of address space, not of disk: the file is as large as what it holds."""

FULL_BELOW = 1 << 20
"""A disk with fewer bytes left is full: a write that was cut short has taken all but the odd page."""

TABLES = (b"about", b"series", b"partitions", b"posteriors", b"quarantine")

COMMITS = b"commits"
"""The table of one record, the number of the last commit. It alone depends on how a log was cut into commits."""

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Errors of a disk, or of a user's share of it, that has no room."""

RECORDS_AT_A_TIME = 4096
"""Records that a commit seals before it writes them."""

_NUMBER, _ID = b"number", b"id"

_SLOT = struct.Struct(">I")


class DiskFullError(StoreError):
    """A commit found no room; nothing of it was written, and it can be tried again."""


class Store:
    """The durable side of a stream. One process at a time owns it.

    Args:
        path: Its directory; made if it is not there.
        identity: What its rows belong to; a store that says something else is refused. Numbers in the fingerprint of a
            filter may differ by rounding, as they do on another processor. None accepts any store that is there.
        keep: How many of the last posteriors of a series are kept.
        keep_quarantined: How many of the last lines put aside are kept, for each partition.
        largest_bytes: How large the file may become.
        walk_first: Let a process of its own read the whole file first; False trusts the file's tree, and starts sooner.
    """

    def __init__(
        self,
        path: str | os.PathLike,
        identity: Mapping[str, str] | None,
        keep: int = 256,
        keep_quarantined: int = 10_000,
        largest_bytes: int = LARGEST_BYTES,
        walk_first: bool = True,
    ):
        self.path, self.keep, self.keep_quarantined = Path(path), keep, keep_quarantined
        self._lmdb = extra("lmdb", EXTRA)
        if identity is None and not (self.path / "data.mdb").exists():
            raise StoreError(f"there is no store at {self.path}.")
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._lock, self._in_use = _owned(self.path), threading.Lock()
        try:
            self._check_file(walk_first)
            self._environment = self._opened(largest_bytes)
            self._tables = {name: self._environment.open_db(name) for name in (*TABLES, COMMITS)}
            given = {} if identity is None else {"keep": str(keep), **identity}
            self._check_identity({"format": str(FORMAT), **given})
            with self._environment.begin() as transaction:
                self._num_commits = self._number(transaction)
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Give the store back; a commit that is under way is waited for."""
        with self._in_use:
            self._environment.close()
            os.close(self._lock)

    def commit(self, commit: Commit) -> None:
        """Make all of it durable, or nothing.

        Raises:
            DiskFullError: There is no room; try again later.
            StoreError: The disk failed. Whether the commit is there is not known: open the store again.
        """
        try:
            with self._in_use, self._environment.begin(write=True) as transaction:
                if self._number(transaction) != self._num_commits:
                    raise StoreError(
                        f"another process has written to the store at {self.path}, so this one must end: a store "
                        "has one owner. Was its file 'owner' removed? What is not committed will be read again."
                    )
                self._write(transaction, commit)
                number = str(self._num_commits + 1).encode()
                transaction.put(_NUMBER, sealed(_NUMBER, number), db=self._tables[COMMITS])
        except self._lmdb.Error as error:
            raise self._named(error) from error
        self._num_commits += 1

    def identity(self) -> dict[str, str]:
        """Return what the rows belong to, as `Store(identity=...)` takes it; empty if that was never said."""
        said = {key.decode(): content.decode() for key, content in self._all(b"about")}
        return {name: text for name, text in said.items() if name not in ("format", "keep")}

    def own_name(self) -> str:
        """Return a name that no other store has; it is drawn when it is first needed."""
        with self._in_use, self._environment.begin(write=True, db=self._tables[COMMITS]) as transaction:
            value = transaction.get(_ID)
            if value is None:
                value = sealed(_ID, uuid.uuid4().hex.encode())
                transaction.put(_ID, value)
        return self._unsealed(_ID, value).decode()

    def _number(self, transaction: Any) -> int:
        """Return the number of the last commit."""
        value = transaction.get(_NUMBER, db=self._tables[COMMITS])
        return 0 if value is None else int(self._unsealed(_NUMBER, value))

    def _write(self, transaction: Any, commit: Commit) -> None:
        def put(table: bytes, items: Iterable[tuple[bytes, bytes]]) -> None:
            with transaction.cursor(self._tables[table]) as cursor:
                for some in itertools.batched(items, RECORDS_AT_A_TIME):
                    cursor.putmulti([(key, sealed(key, content)) for key, content in some])

        for name in commit.deleted:
            transaction.delete(name.encode(), db=self._tables[b"series"])
            self._delete(transaction, b"posteriors", name.encode() + b"\0")
        for name in commit.emptied:
            self._delete(transaction, b"quarantine", name.encode())
        put(b"series", ((name.encode(), ledger_bytes(ledger) + state) for name, ledger, state in commit.rows))
        put(b"posteriors", ((self._slot(name, number), content) for name, number, content in commit.posteriors))
        put(b"quarantine", (self._put_aside(one) for one in commit.quarantined))
        put(b"partitions", ((name.encode(), partition_bytes(one)) for name, one in commit.partitions.items()))

    def _delete(self, transaction: Any, table: bytes, prefix: bytes) -> None:
        """Delete the records of one series or partition: those whose key is a prefix and the number of a slot."""
        with transaction.cursor(self._tables[table]) as cursor:
            found = cursor.set_range(prefix)
            while found and cursor.key().startswith(prefix):
                found = cursor.delete() if len(cursor.key()) == len(prefix) + _SLOT.size else cursor.next()

    def partitions(self) -> dict[str, Partition]:
        """Return how far each partition has been read."""
        with self.reading():
            return {name.decode(): partition_of(content) for name, content in self._all(b"partitions")}

    def rows(self) -> Iterator[tuple[str, Ledger, bytes]]:
        """Go through all series: their names, ledgers and states.

        Raises:
            StoreError: A record is damaged, or some are missing.
        """
        found = 0
        for name, content in self._all(b"series"):
            with self.reading():
                ledger, size = ledger_of(content)
                row = name.decode(), ledger, content[size:]
            yield row
            found += 1
        wanted = sum(one.num_series for one in self.partitions().values())
        if found != wanted:
            raise self._damaged(f"it holds {found} series and says that there are {wanted}")

    def row(self, name: str) -> tuple[Ledger, bytes] | None:
        """Return ledger and state of one series; None if there is no such series."""
        with self._environment.begin(db=self._tables[b"series"]) as transaction, self.reading():
            value = transaction.get(name.encode())
            if value is None:
                return None
            content = self._unsealed(name.encode(), value)
            ledger, size = ledger_of(content)
            return ledger, content[size:]

    def series(self) -> list[str]:
        """Return the names of all series."""
        with self._environment.begin(db=self._tables[b"series"]) as transaction, transaction.cursor() as cursor:
            return [name.decode() for name in cursor.iternext(values=False)]

    def posteriors(self, name: str) -> list[bytes]:
        """Return the last posteriors of a series; any order, none if there is no such series."""
        with self._environment.begin(db=self._tables[b"posteriors"]) as transaction, transaction.cursor() as cursor:
            prefix, found = name.encode() + b"\0", []
            for key, value in cursor if cursor.set_range(prefix) else ():
                if not key.startswith(prefix):
                    break
                found.append(self._unsealed(key, value))
            return found

    def posterior(self, name: str, sequence: int) -> bytes | None:
        """Return what stands in the place of one posterior: that one, or one that is `keep` steps older."""
        key = self._slot(name, sequence)
        with self._environment.begin(db=self._tables[b"posteriors"]) as transaction:
            value = transaction.get(key)
        return None if value is None else self._unsealed(key, value)

    def quarantined(self) -> list[Quarantined]:
        """Return the last lines that were put aside."""
        found = []
        with self.reading():
            for key, content in self._all(b"quarantine"):
                reason, _, raw = content[8:].partition(b"\0")
                (number,) = struct.unpack(">Q", content[:8])
                found.append(Quarantined(key[: -_SLOT.size].decode(), number, reason.decode(), raw))
        return sorted(found)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Refuse a record that has its checksum and still says what no commit would have written."""
        try:
            yield
        except (ValueError, TypeError, LookupError, struct.error, RecursionError) as error:
            raise self._damaged(f"a record cannot be read ({type(error).__name__}: {error})") from error

    def _slot(self, name: str, sequence: int) -> bytes:
        return name.encode() + b"\0" + _SLOT.pack(sequence % self.keep)

    def _put_aside(self, one: Quarantined) -> tuple[bytes, bytes]:
        key = one.partition.encode() + _SLOT.pack(one.number % self.keep_quarantined)
        return key, struct.pack(">Q", one.number) + one.reason.encode() + b"\0" + one.raw

    def _all(self, table: bytes) -> Iterator[tuple[bytes, bytes]]:
        with self._environment.begin(db=self._tables[table]) as transaction, transaction.cursor() as cursor:
            for key, value in cursor:
                yield key, self._unsealed(key, value)

    def _unsealed(self, key: bytes, value: bytes) -> bytes:
        content = value[CHECKSUM.size :]
        if len(value) < CHECKSUM.size or value[: CHECKSUM.size] != CHECKSUM.pack(zlib.crc32(content, zlib.crc32(key))):
            raise self._damaged(f"the checksum of {key[:40]!r} does not match")
        return content

    def _check_file(self, walk_first: bool) -> None:
        """Refuse a file that is too short for what it says of itself, or that cannot be walked to the end."""
        file = self.path / "data.mdb"
        if not file.exists():
            return
        size = file.stat().st_size
        if size < 2 * os.sysconf("SC_PAGE_SIZE"):
            raise self._damaged("its file has been cut short")
        if not walk_first:
            return
        walk = subprocess.run(
            [sys.executable, "-I", str(Path(__file__).with_name("store_walk.py")), str(self.path)],
            capture_output=True,
            text=True,
            check=False,
        )
        if walk.returncode:
            raise self._damaged(
                walk.stderr.strip().rpartition("\n")[2] or f"walking it ended by signal {-walk.returncode}"
            )

    def _opened(self, largest_bytes: int) -> Any:
        try:
            return self._lmdb.open(
                str(self.path), map_size=largest_bytes, max_dbs=len(TABLES) + 1, subdir=True, mode=0o600, lock=True
            )
        except self._lmdb.Error as error:
            raise self._named(error) from error

    def _check_identity(self, identity: dict[str, str]) -> None:
        found = {key.decode(): value.decode() for key, value in self._all(b"about")}
        if not found and identity.keys() > {"format"}:
            if any(True for _ in self._all(b"series")):
                raise self._damaged("it does not say what it belongs to")
            with self._environment.begin(write=True, db=self._tables[b"about"]) as transaction:
                for name, text in identity.items():
                    transaction.put(name.encode(), sealed(name.encode(), text.encode()))
            return
        self.keep = int(found.get("keep", self.keep))
        differing = [name for name, text in identity.items() if not _is_same(name, found.get(name), text)]
        if differing:
            raise StoreError(
                f"the store at {self.path} was made with another {' and '.join(differing)}; give another "
                "directory, or build the filter as it was."
            )

    def _named(self, error: Exception) -> StoreError:
        """Say in our words what LMDB says."""
        text = str(error)
        if isinstance(error, self._lmdb.MapFullError) or _is_full(text) or self._is_cut_short(text):
            return DiskFullError(f"there is no room for the store at {self.path} ({text}).")
        return StoreError(
            f"the store at {self.path} failed: {text}. What is not committed will be read again from the log."
        )

    def _is_cut_short(self, text: str) -> bool:
        """Tell whether a write ended early for want of room, which LMDB calls an input/output error."""
        disk = os.statvfs(self.path)
        return os.strerror(errno.EIO) in text and disk.f_bavail * disk.f_frsize < FULL_BELOW

    def _damaged(self, what: str) -> StoreError:
        return StoreError(
            f"the store at {self.path} is damaged: {what}. Put a copy of the directory in its place, or "
            "begin a new one and read the log from its start."
        )


def _is_same(name: str, found: str | None, own: str) -> bool:
    """Tell whether two texts mean the same; those of a filter hold numbers, which may be rounded in another way."""
    if name != "filter" or found is None or found == own:
        return found == own
    try:
        return first_difference(found, own) is None
    except ValueError:  # no fingerprint of the library's
        return False


def _is_full(text: str) -> bool:
    return any(os.strerror(number) in text for number in FULL)


def _owned(path: Path) -> int:
    """Lock a directory for as long as this process lives."""
    descriptor = os.open(path / "owner", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        raise StoreError(
            f"the store at {path} belongs to another process that is running; each has one owner."
        ) from None
    return descriptor

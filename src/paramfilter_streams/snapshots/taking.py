"""Take a snapshot of a store, while its owner goes on writing to it.

1. LMDB sends its file through a pipe, as the last commit left it.
2. Each chunk is compared with the same place of the snapshot before; those that have changed go into a new pack.
3. The image is written after the pack. Then what no kept image needs is removed.

A file in the store remembers the last snapshot that was taken of it, or restored. Snapshots of another store are not
added to, and neither are those that another copy of this store has added to since: the old machine, which was thought
dead, learns so that it has been replaced.
"""

from __future__ import annotations

import fcntl
import json
import os
import threading
import time
from array import array
from collections.abc import Generator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from paramfilter.errors import StoreError, extra
from paramfilter_streams.records import CHECKSUM
from paramfilter_streams.snapshots.folders import Folder, folder_at, read_all
from paramfilter_streams.snapshots.images import (
    CHUNK,
    DIGEST,
    IMAGE,
    PACK,
    SEAL,
    About,
    Image,
    digest_of,
    name_of,
    numbers_of,
    unpacked,
)

EXTRA = "streaming"
"""The extra that brings lmdb."""

REMEMBERED = "snapshots.json"
"""The file of a store that names the last snapshot of it."""

MOST_PACKED = 3
"""Packs may hold so many times the chunks of a store; then all are written anew, and old packs can go."""


class Taken(NamedTuple):
    """What taking a snapshot came to.

    Attributes:
        number: Of the snapshot.
        made_at: When it was begun, in seconds since 1970.
        seconds: How long it took.
        size: Bytes of the store's file.
        written: Bytes of the chunks that had changed.
    """

    number: int
    made_at: float
    seconds: float
    size: int
    written: int


def take(store: str | os.PathLike, target: str, keep: int = 3) -> Taken:
    """Take a snapshot of a store.

    Args:
        store: Its directory; a worker may be using it.
        target: A directory, or an address such as `s3://bucket/fleet`.
        keep: How many snapshots are kept.

    Raises:
        StoreError: The target holds snapshots of another store, or another copy of this store has added to them.
    """
    if keep < 1:
        raise StoreError(f"at least one snapshot must be kept, got keep={keep}.")
    store, folder, began = Path(store), folder_at(target), time.time()
    with _remembering(store) as memory:
        before = _last(folder, memory, store, target)
        environment = _opened(store)
        try:
            pages = _Pages(environment, before)
            about = _told(environment, before, began)
            pack = name_of(PACK, about.number)
            with closing(pages.changed(pack)) as chunks:
                folder.write(pack, chunks)
        finally:
            environment.close()
        image = pages.image(about)
        content = image.packed()
        memory.note(content[-SEAL:])
        folder.write(name_of(IMAGE, about.number), [content])
        memory.note(content[-SEAL:], is_written=True)
        _prune(folder, keep)
    seconds = time.time() - began
    return Taken(about.number, began, seconds, image.about.size, pages.num_changed * CHUNK)


class _Pages:
    """The chunks of a store, compared with those of the snapshot before."""

    def __init__(self, environment: Any, before: Image | None):
        self._environment = environment
        packs = {} if before is None else dict(before.about.packs)
        num_chunks = 0 if before is None else len(before.places) // 2
        is_old = before is not None and sum(packs.values()) < MOST_PACKED * num_chunks
        self._before, self._packs = (before if is_old else None), (packs if is_old else {})
        self._digests, self._places = bytearray(), array("I")
        self._size = self.num_changed = 0

    def changed(self, pack: str) -> Generator[bytes]:
        """Yield the chunks that have changed, for the pack of this name."""
        before = b"" if self._before is None else self._before.digests
        own = len(self._packs)
        with closing(self._chunks()) as chunks:
            for chunk in chunks:
                start = len(self._digests)
                digest = digest_of(chunk)
                self._digests += digest
                if self._before is not None and before[start : start + DIGEST] == digest:
                    place = 2 * (start // DIGEST)
                    self._places.extend(self._before.places[place : place + 2])
                else:
                    self._places.extend((own, self.num_changed))
                    self.num_changed += 1
                    yield chunk
        self._packs[pack] = self.num_changed

    def image(self, about: About) -> Image:
        """Return the image, once all chunks have been gone through."""
        used = sorted(set(self._places[::2]))
        names = list(self._packs)
        packs = {names[one]: self._packs[names[one]] for one in used}
        renumbered = {old: new for new, old in enumerate(used)}
        for place in range(0, len(self._places), 2):
            self._places[place] = renumbered[self._places[place]]
        fields = {**vars(about), "size": self._size, "packs": packs}
        return Image(About(**fields), bytes(self._digests), self._places)

    def _chunks(self) -> Generator[bytes]:
        """Yield the file in chunks as one commit left it; a thread of LMDB's pushes it through a pipe."""
        ends, failures = os.pipe(), []

        def push() -> None:
            try:
                self._environment.copyfd(ends[1], compact=False)
            except Exception as error:
                failures.append(error)
            finally:
                os.close(ends[1])

        thread = threading.Thread(target=push)
        try:
            with open(ends[0], "rb", buffering=1 << 20) as pipe:
                thread.start()
                while chunk := pipe.read(CHUNK):
                    self._size += len(chunk)
                    yield chunk.ljust(CHUNK, b"\0")
        finally:
            thread.join()  # it ends, as nobody reads from the pipe any more
        if failures:
            raise StoreError(f"the store could not be copied: {failures[0]}.") from failures[0]


def _opened(store: Path) -> Any:
    lmdb = extra("lmdb", EXTRA)
    if not (store / "data.mdb").exists():
        raise StoreError(f"there is no store at {store}.")
    try:
        environment = lmdb.open(str(store), readonly=True, max_dbs=16)
    except lmdb.Error as error:
        raise StoreError(f"the store at {store} cannot be read: {error}.") from error
    environment.reader_check()  # a process that was killed while it copied would hold back pages for ever
    return environment


def _told(environment: Any, before: Image | None, began: float) -> About:
    """Return what can be said of a snapshot before its chunks are read."""
    try:
        tables = {name: environment.open_db(name, create=False) for name in (b"about", b"partitions")}
    except extra("lmdb", EXTRA).Error as error:
        raise StoreError("nothing has been committed to the store yet, so there is nothing to take.") from error
    found = {}
    with environment.begin() as transaction:
        for name, table in tables.items():
            records = transaction.cursor(table)
            found[name] = {key.decode(): value[CHECKSUM.size :].decode() for key, value in records}
    partitions = {name: json.loads(text) for name, text in found[b"partitions"].items()}
    kept = {name: {one: told[one] for one in ("offset", "received")} for name, told in partitions.items()}
    return About(1 if before is None else before.about.number + 1, began, 0, {}, kept, found[b"about"])


class _Memory:
    """Which snapshot was the last of a store; and the one that was being written, if its process died."""

    def __init__(self, path: Path):
        self._path = path
        text = path.read_text()
        self._seals: dict[str, str] = json.loads(text) if text else {}

    def knows(self, seal: bytes) -> bool:
        return seal.hex() in self._seals.values()

    def note(self, seal: bytes, is_written: bool = False) -> None:
        """Remember a snapshot that is about to be written, or that is."""
        self._seals = {"last": seal.hex()} if is_written else {**self._seals, "next": seal.hex()}
        partial = self._path.with_suffix(".partial")
        with partial.open("w") as file:
            json.dump(self._seals, file)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(self._path)


@contextmanager
def _remembering(store: Path) -> Iterator[_Memory]:
    """Read what a store remembers of its snapshots; one process at a time may add to them."""
    if not store.is_dir():
        raise StoreError(f"there is no store at {store}.")
    lock = os.open(store / "snapshots.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise StoreError(f"a snapshot of the store at {store} is being taken by another process.") from None
        (store / REMEMBERED).touch(0o600)
        yield _Memory(store / REMEMBERED)
    finally:
        os.close(lock)


def remember(store: Path, seal: bytes) -> None:
    """Let a store that was restored add to the snapshots that it came from."""
    with _remembering(store) as memory:
        memory.note(seal, is_written=True)


def _last(folder: Folder, memory: _Memory, store: Path, target: str) -> Image | None:
    """Return the last snapshot, if there is one and it is of this store."""
    numbers = numbers_of(folder.names())
    if not numbers:
        return None
    name = name_of(IMAGE, numbers[-1])
    content = read_all(folder, name)
    image = unpacked(name, content)
    if not memory.knows(content[-SEAL:]):
        raise StoreError(
            f"the last snapshot in {target} was not taken of the store at {store}: it is of another store, or this "
            "store has been restored elsewhere and goes on there. Stop this service, or give it another place for its "
            "snapshots."
        )
    return image


def _prune(folder: Folder, keep: int) -> None:
    """Remove the snapshots before the last ones, and whatever the last ones do not need."""
    names = folder.names()
    kept = {name_of(IMAGE, number) for number in numbers_of(names)[-keep:]}
    needed = {pack for name in kept for pack in unpacked(name, read_all(folder, name)).about.packs}
    for name in names:
        if name.startswith((IMAGE, PACK)) and name not in kept | needed:
            folder.remove(name)

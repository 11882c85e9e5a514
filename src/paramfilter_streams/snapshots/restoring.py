"""Make a store of a snapshot. Every chunk is checked against its digest before the store is there under its name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from paramfilter.errors import StoreError
from paramfilter_streams.snapshots.folders import Folder, folder_at, read_all
from paramfilter_streams.snapshots.images import (
    CHUNK,
    IMAGE,
    SEAL,
    About,
    Image,
    digest_of,
    name_of,
    numbers_of,
    unpacked,
)
from paramfilter_streams.snapshots.taking import remember

MOST_AT_ONCE = 256
"""Chunks that are read at once, where they stand one after another."""


def listed(target: str) -> list[About]:
    """Return what is said of the snapshots in a directory or object store, the newest last; no chunk is read."""
    folder = folder_at(target)
    names = (name_of(IMAGE, number) for number in numbers_of(folder.names()))
    return [unpacked(name, read_all(folder, name)).about for name in names]


def restore(target: str, path: str | os.PathLike, number: int | None = None) -> About:
    """Make a store of a snapshot.

    Args:
        target: The directory or object store with the snapshots.
        path: Where the store will be; there must be nothing yet.
        number: Of the snapshot; None takes the newest. An older one is never taken without being asked for.

    Raises:
        StoreError: There is no such snapshot, it is torn or damaged, or there is a store already.
    """
    folder, path = folder_at(target), Path(path)
    numbers = numbers_of(folder.names())
    wanted = number if number is not None else max(numbers, default=None)
    if wanted is None or wanted not in numbers:
        raise StoreError(f"there is no such snapshot in {target}; there are {numbers or 'none'}.")
    if path.exists():
        raise StoreError(f"there is something at {path} already; move it away, or restore to another path.")
    name = name_of(IMAGE, wanted)
    content = read_all(folder, name)
    image = unpacked(name, content)
    partial = path.with_name(path.name + ".partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, mode=0o700)
    try:
        left = image.about.size
        with open(partial / "data.mdb", "wb", opener=lambda name, flags: os.open(name, flags, 0o600)) as file:
            for chunk in _chunks(folder, image):
                left -= file.write(chunk[:left])
            os.fsync(file.fileno())
        if left:
            raise StoreError(f"{name} is damaged: it is {left} bytes shorter than it says. Restore another snapshot.")
        remember(partial, content[-SEAL:])
        partial.rename(path)
    except BaseException:
        shutil.rmtree(partial)
        raise
    return image.about


def _chunks(folder: Folder, image: Image) -> Iterator[bytes]:
    """Yield all chunks in order, checked; those that stand one after another in a pack are read together."""
    for pack, first, digests in _runs(image):
        with folder.opened(pack) as file:
            file.seek(first * CHUNK)
            content = file.read(len(digests) * CHUNK)
        for number, digest in enumerate(digests):
            chunk = content[number * CHUNK : (number + 1) * CHUNK]
            if digest_of(chunk) != digest:
                raise StoreError(f"{pack} is torn or damaged at chunk {first + number}. Restore another snapshot.")
            yield chunk


def _runs(image: Image) -> Iterator[tuple[str, int, list[bytes]]]:
    pack, first, digests = "", 0, []
    for name, place, digest in image.chunks():
        if digests and (name != pack or place != first + len(digests) or len(digests) == MOST_AT_ONCE):
            yield pack, first, digests
            digests = []
        if not digests:
            pack, first = name, place
        digests.append(digest)
    if digests:
        yield pack, first, digests

"""Where snapshots are kept: a directory, or a path of an object store that pyarrow can reach.

A file is there as a whole or not at all under its name. In a directory, each file is synced to the disk before the next
is written.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from paramfilter.errors import StoreError, extra

EXTRA = "backfill"
"""The extra that brings pyarrow."""

PARTIAL = ".partial"
"""Ends the name of a file that is being written."""


@runtime_checkable
class Folder(Protocol):
    """A place with files that are written once."""

    def names(self) -> list[str]:
        """Return the names of all files."""
        ...

    def write(self, name: str, blocks: Iterable[bytes]) -> None:
        """Write a file; when this returns, it is safe."""
        ...

    def opened(self, name: str) -> Any:
        """Return a file to read from, with `read` and `seek`, as a context."""
        ...

    def remove(self, name: str) -> None:
        """Remove a file."""
        ...


def folder_at(target: str) -> Folder:
    """Return the folder of a path, or of an address such as `s3://bucket/fleet`."""
    return ArrowFolder(target) if "://" in target else LocalFolder(Path(target))


def read_all(folder: Folder, name: str) -> bytes:
    """Return what a file holds."""
    with folder.opened(name) as file:
        return file.read()


class LocalFolder:
    """A directory.

    Args:
        path: Made if it is not there, when something is written.
    """

    def __init__(self, path: Path):
        self.path = path

    def names(self) -> list[str]:
        """Return the names of all files."""
        return sorted(os.listdir(self.path)) if self.path.is_dir() else []

    def write(self, name: str, blocks: Iterable[bytes]) -> None:
        """Write a file, sync it, and only then give it its name."""
        self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
        partial = self.path / (name + PARTIAL)
        with open(partial, "wb", opener=_private) as file:
            file.writelines(blocks)
            file.flush()
            os.fsync(file.fileno())
        partial.rename(self.path / name)
        descriptor = os.open(self.path, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)

    def opened(self, name: str) -> Any:
        """Return a file to read from."""
        return _existing(lambda: (self.path / name).open("rb"), name)

    def remove(self, name: str) -> None:
        """Remove a file."""
        (self.path / name).unlink()


class ArrowFolder:
    """A path of a file system that pyarrow knows, such as S3 or Google Cloud Storage.

    An object appears when it is complete. What a process that died has left of one is in no image's list of packs.

    Args:
        uri: Such as `s3://bucket/fleet?region=eu-north-1`; credentials are those of the environment.
    """

    def __init__(self, uri: str):
        self._arrow = extra("pyarrow.fs", EXTRA)
        self._files, self._path = self._arrow.FileSystem.from_uri(uri)

    def names(self) -> list[str]:
        """Return the names of all files."""
        selector = self._arrow.FileSelector(self._path, allow_not_found=True)
        return sorted(one.base_name for one in self._files.get_file_info(selector) if one.is_file)

    def write(self, name: str, blocks: Iterable[bytes]) -> None:
        """Write a file."""
        if not isinstance(self._files, self._arrow.S3FileSystem):  # there a directory is no more than a name
            self._files.create_dir(self._path)
        with self._files.open_output_stream(f"{self._path}/{name}") as file:
            for block in blocks:
                file.write(block)

    def opened(self, name: str) -> Any:
        """Return a file to read from."""
        return _existing(lambda: self._files.open_input_file(f"{self._path}/{name}"), name)

    def remove(self, name: str) -> None:
        """Remove a file."""
        self._files.delete_file(f"{self._path}/{name}")


@contextmanager
def _existing(open_file: Callable[[], Any], name: str) -> Any:
    try:
        file = open_file()
    except FileNotFoundError as error:
        raise StoreError(f"{name} is missing among the snapshots. Restore another snapshot.") from error
    with file:
        yield file


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)

"""Versions of a table of states in a folder: of each batch only the rows that it changed, and all rows now and then.

    parts/000000000012-4f0c21a1-18240.parquet  rows, sorted; the name holds a checksum and the size of the content
    versions/000000000012-9b31f807-310.json    which parts make version 12, and which groups are read from each

A part is written first and a version names it, so a version is there whole or not at all. Its name depends on its
content: a batch that is done again writes what is there. A writer that finds another version than its own, after it has
written that, removes its own and is refused, so that of two drivers at most one goes on. This needs no more of a file
system than that a listing shows what was written before.
"""

from __future__ import annotations

import contextlib
import json
import os
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import feather, fs, parquet

from paramfilter.checkpoint import write_atomically
from paramfilter.errors import DataError, StoreError
from paramfilter.tables.rows import merged, pc
from paramfilter.tables.table import StateTable

DIGITS = 12

WRITERS = {
    "parquet": lambda rows, sink: parquet.write_table(rows, sink, compression="none", use_dictionary=False),
    "arrow": lambda rows, sink: feather.write_feather(rows, sink, compression="uncompressed"),
}
"""The last bits of numbers in states are random, so compression makes them hardly smaller."""


class Versions:
    """The versions of a table's states, by the number of the batch that made them.

    Args:
        folder: A path, or a URI such as `s3://bucket/states`.
        table: The table that the states belong to.
        filesystem: Of pyarrow; None takes it from `folder`.
        compact_every: A version holds all rows at least so often, and when as many have changed as there are.
        keep: How many versions before the newest can be read.
        format: Of the parts, "parquet" or "arrow".

    Example:
        >>> import tempfile, paramfilter as pf
        >>> store = Versions(tempfile.mkdtemp(), StateTable(pf.sir_filter(pf.models.linear_gaussian(), 16)))
        >>> store.newest(), len(store.read())
        (-1, 0)
    """

    def __init__(
        self,
        folder: str | os.PathLike,
        table: StateTable,
        filesystem: Any = None,
        compact_every: int = 16,
        keep: int = 2,
        format: str = "parquet",
    ):
        if format not in WRITERS:
            raise DataError(f"format must be one of {[*WRITERS]}, got {format!r}.")
        self.table, self.compact_every, self.keep, self.format = table, compact_every, keep, format
        if filesystem is None:
            uri = str(folder) if "://" in str(folder) else Path(folder).absolute().as_uri()
            filesystem, folder = fs.FileSystem.from_uri(uri)
        self._local = Path(folder) if isinstance(filesystem, fs.LocalFileSystem) else None
        self._files = fs.SubTreeFileSystem(str(folder), filesystem)
        for name in ("attempts", "parts", "versions"):
            filesystem.create_dir(f"{folder}/{name}")

    def newest(self) -> int:
        """Return the number of the newest version; -1 if there is none."""
        return _number(self.name())

    def name(self, number: int | None = None) -> str:
        """Return the name of a version, which depends on its content; of the newest, and empty if there is none."""
        names = self._listed("versions")
        number = max(map(_number, names), default=-1) if number is None else number
        mine = [name for name in names if _number(name) == number]
        if len(mine) != 1 and number != -1:
            found = f"is there {len(mine)} times, as {mine}; remove one" if mine else "is not there"
            raise StoreError(f"version {number} of the states {found}. The versions are {sorted(names)}.")
        return "".join(mine)

    def position(self) -> Any:
        """Return the position that the newest version was committed with; None if there is no version."""
        return self._manifest(self.name()).get("position")

    def parts(self) -> list[dict[str, Any]]:
        """Return the parts of the newest version, as `put` returned them."""
        return self._parts(self.name())

    def is_due(self, name: str, num_changed: int = 1) -> bool:
        """Return whether the version behind one with this name is better written whole than as its changed rows."""
        parts = self._parts(name)
        deltas = {_number(part["name"]) for part in parts if not part["whole"]}
        changed, whole = (sum(part["rows"] for part in parts if part["whole"] == kind) for kind in (False, True))
        return len(deltas) + 1 >= self.compact_every or changed + num_changed >= whole

    def read(self, number: int | None = None, groups: Iterable[int] | None = None, since: int = -1) -> pa.Table:
        """Return the states of a version.

        Args:
            number: Of the version; None is the newest, -1 is the one of no series before the first.
            groups: Of which to read the states; None reads all.
            since: Number of an older version whose states you have. What is returned is to be merged into them.
        """
        return self._read(self.name(number), groups=groups, since=since)

    def write(self, number: int, changed: pa.Table, states: pa.Table | None = None) -> None:
        """Write the version of a batch: the newest one with these rows changed.

        Args:
            number: Of the batch; greater than that of the newest version, unless the batch is done again.
            changed: Rows that `advance` returned.
            states: All rows, these among them; None reads them when a version is to hold all.
        """
        before = self._before(number)
        if is_whole := self.is_due(before, len(changed)):
            changed = merged(self._read(before), changed) if states is None else states
        self.commit(number, [self.put(number, changed, range(self.table.groups) if is_whole else None)])

    def put(self, number: int, rows: pa.Table, whole: Iterable[int] | None = None, attempt: str = "") -> dict[str, Any]:
        """Write a part of a version, in a task of an engine, and return what `commit` needs of it, which JSON can hold.

        Args:
            number: The number of the version.
            rows: Changed rows.
            whole: Groups of which `rows` are all, so that older parts are not read for them any more; None if of none.
            attempt: A name that the driver gives its tasks, for `put_by`: not each engine brings back what they return.
        """
        sink = pa.BufferOutputStream()
        WRITERS[self.format](self.table.require_own(rows).sort_by("series").combine_chunks(), sink)
        content = sink.getvalue()
        name = f"{number:0{DIGITS}}-{_digest(content)}.{self.format}"
        self._write(f"parts/{name}", content)
        groups = sorted(pc.unique(rows["group"]).to_pylist() if whole is None else whole)
        part = {"name": name, "whole": whole is not None, "rows": len(rows), "groups": groups, "all": len(groups)}
        part["bytes"] = len(content)
        if attempt:
            self._write(f"attempts/{number:0{DIGITS}}-{attempt}-{name}", json.dumps(part).encode())
        return part

    def put_by(self, number: int, attempt: str) -> list[dict[str, Any]]:
        """Return what tasks have put for an attempt."""
        mine = [name for name in self._listed("attempts") if name.startswith(f"{number:0{DIGITS}}-{attempt}-")]
        return [json.loads(self._content(f"attempts/{name}").to_pybytes()) for name in mine]

    def commit(
        self, number: int, parts: Iterable[dict[str, Any]], position: Any = None, before: str | None = None
    ) -> str:
        """Make a version of parts, on those of the version before; in the driver, once all of them are written.

        Args:
            number: Of the version.
            parts: What `put` returned.
            position: Where the log continues behind the events of this version, as JSON can hold it.
            before: Name of the version that the parts were made from; None is the one before `number`.

        Returns:
            The name of the version.

        Raises:
            StoreError: Another driver has written this version or a later one.
        """
        new = sorted(parts, key=lambda part: part["name"])
        replaced = {group for part in new if part["whole"] for group in part["groups"]}
        before = self._before(number) if before is None else before
        for part in (old := self._parts(before)):
            part["groups"] = [group for group in part["groups"] if group not in replaced]
        parts = [part for part in old if part["groups"]] + new
        content = json.dumps({"before": before, "parts": parts, "position": position}).encode()
        path = f"{number:0{DIGITS}}-{_digest(content)}.json"
        self._write(f"versions/{path}", content)
        newest = max((one for one in self._listed("versions") if one != path), default="")
        if newest != before:
            self._remove(f"versions/{path}")
            raise StoreError(
                f"version {number} cannot follow {before!r}, because another driver has written {newest!r}. Stop one "
                "of the two; then start again from store.newest()."
            )
        if replaced:
            self._clean()
        return path

    def _clean(self) -> None:
        """Remove versions that are not kept, and parts that no version names."""
        listed = sorted(self._listed("versions"))
        kept = listed[-self.keep - 1 :]
        named = {part["name"] for path in kept for part in self._parts(path)}
        gone = [f"versions/{path}" for path in listed if path not in kept]
        for folder in ("attempts", "parts"):
            gone += [f"{folder}/{name}" for name in self._listed(folder) if name not in named and name < kept[-1]]
        for path in gone:
            self._remove(path)

    def _before(self, number: int) -> str:
        return max((path for path in self._listed("versions") if _number(path) < number), default="")

    def _listed(self, folder: str) -> list[str]:
        names = (file.base_name for file in self._files.get_file_info(fs.FileSelector(folder)))
        return [name for name in names if not name.startswith(".")]  # a file that is being written has a dot

    def _parts(self, path: str) -> list[dict[str, Any]]:
        return self._manifest(path).get("parts", [])

    def _manifest(self, path: str) -> dict[str, Any]:
        return json.loads(self._content(f"versions/{path}").to_pybytes()) if path else {}

    def _read(self, path: str, groups: Iterable[int] | None = None, since: int = -1) -> pa.Table:
        states = self.table.empty()
        for part in reversed(self._parts(path)):  # so that only older rows are copied
            wanted = part["groups"] if groups is None else sorted({*part["groups"]} & {*groups})
            if wanted and _number(part["name"]) > since:
                content = self._content(f"parts/{part['name']}")
                if _digest(content) not in part["name"]:
                    raise StoreError(f"the part {part['name']} of the states is damaged. Restore it from a copy.")
                kind = parquet if part["name"].endswith("parquet") else feather
                rows = self.table.require_own(kind.read_table(pa.BufferReader(content)))
                if len(wanted) < part["all"]:
                    rows = rows.filter(pc.is_in(rows["group"], value_set=pa.array(wanted, pa.int32())))
                states = merged(rows, states)
        return states

    def _content(self, path: str) -> pa.Buffer:
        with self._files.open_input_file(path) as file:
            return file.read_buffer()

    def _write(self, path: str, content: Any) -> None:
        if self._local is not None:
            write_atomically(self._local / path, content)
        else:
            with self._files.open_output_stream(path) as file:
                file.write(content)

    def _remove(self, path: str) -> None:
        with contextlib.suppress(FileNotFoundError):  # another driver has removed it
            self._files.delete_file(path)


def _number(path: str) -> int:
    return int(path[:DIGITS] or -1)


def _digest(content: Any) -> str:
    return f"{zlib.crc32(content):08x}-{len(content)}"

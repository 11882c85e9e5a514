"""Versions that are a Delta table too: `parts` in their folder is one, for whatever reads Delta.

The versions stay the truth and the fence. When one is committed, the Delta log is told which files now hold the states,
with the version's number as its transaction. A driver that dies between the two leaves the Delta table one version
behind, and the next version brings it up to date, as it does after an OPTIMIZE. VACUUM removes no version.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

from paramfilter.errors import extra
from paramfilter.tables import StateTable, Versions

APPLICATION = "paramfilter"
"""Whose transactions the numbers of versions are, in the Delta log."""


class DeltaVersions(Versions):
    """Versions whose parts are a Delta table.

    A series has a row in each part that changed it; the newest is in the file with the greatest name. With
    `compact_every=1` each version is written whole, and the table has one row a series.

    Args:
        folder: A path, or a URI such as `s3://bucket/states`.
        table: The table that the states belong to.
        storage_options: Of `deltalake`, such as the keys of a bucket.
        more: Options of `Versions`; the format is Parquet.
    """

    def __init__(self, folder: str, table: StateTable, storage_options: dict[str, str] | None = None, **more: Any):
        super().__init__(folder, table, **more)
        self._where = {"table_uri": f"{str(folder).rstrip('/')}/parts", "storage_options": storage_options}

    def commit(
        self, number: int, parts: Iterable[dict[str, Any]], position: Any = None, before: str | None = None
    ) -> str:
        """Make a version, then tell the Delta log."""
        name = super().commit(number, parts, position, before)
        self.publish()
        return name

    def publish(self) -> None:
        """Let the Delta table hold the files of the newest version."""
        deltalake, transaction = extra("deltalake", "delta"), extra("deltalake.transaction", "delta")
        schema = pa.schema(
            [field.with_type(pa.binary()) if field.name == "state" else field for field in self.table.state_schema]
        )
        delta = deltalake.DeltaTable.create(**self._where, schema=schema, mode="ignore")
        there = {uri.rsplit("/", 1)[1] for uri in delta.file_uris()}
        parts = {part["name"]: part for part in self.parts() if part["rows"]}
        now = int(time.time() * 1000)
        added = [
            transaction.AddAction(name, part["bytes"], {}, now, True, json.dumps({"numRecords": part["rows"]}))
            for name, part in parts.items()
            if name not in there
        ]
        removed = [transaction.RemoveAction(name, True, now) for name in there - parts.keys()]
        number = transaction.Transaction(APPLICATION, self.newest())
        properties = transaction.CommitProperties(app_transactions=[number])
        delta.create_write_transaction(added + removed, "append", schema, commit_properties=properties)

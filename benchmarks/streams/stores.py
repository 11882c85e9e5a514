"""Embedded stores for state rows: what a batch costs, and what damage does: `python -m benchmarks.streams.stores`.

A batch is a thousand rows of 17 KB and one record of offsets, all or nothing, synced. Measured are CPU and wall time
a row, reading all rows back, and the size on disk, for rows that are written again and again in another order. Then
single bits of the files are flipped, and files are cut short: does the store refuse, crash, or give wrong rows? Each
row carries the checksum that `streaming.store` gives it. Kept in `results/stores.json`.
"""

from __future__ import annotations

import argparse
import collections
import json
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Iterable
from pathlib import Path

import lmdb
import rocksdict
from tests.support.streams.draws import numbers

from benchmarks.tables import put_row

ROW_BYTES, ROWS, BATCH = 17_000, 10_000, 1_000
OFFSETS = b"offsets"


class Lmdb:
    def __init__(self, path: Path):
        self.environment = lmdb.open(str(path), map_size=1 << 36)

    def write(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        with self.environment.begin(write=True) as transaction, transaction.cursor() as cursor:
            cursor.putmulti(rows)

    def read(self) -> Iterable[tuple[bytes, bytes]]:
        with self.environment.begin() as transaction:
            yield from transaction.cursor()

    def close(self) -> None:
        self.environment.close()


class Rocks:
    def __init__(self, path: Path):
        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        self.database = rocksdict.Rdict(str(path), options)
        self.synced = rocksdict.WriteOptions()
        self.synced.sync = True

    def write(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        batch = rocksdict.WriteBatch(raw_mode=True)
        for key, value in rows:
            batch.put(key, value)
        self.database.write(batch, self.synced)

    def read(self) -> Iterable[tuple[bytes, bytes]]:
        yield from self.database.items()

    def close(self) -> None:
        self.database.close()


class Sqlite:
    def __init__(self, path: Path):
        path.mkdir(exist_ok=True)
        self.connection = sqlite3.connect(path / "db", isolation_level=None)
        self.connection.execute("pragma journal_mode=wal")
        self.connection.execute("pragma synchronous=full")
        self.connection.execute("create table if not exists rows (name blob primary key, row blob) without rowid")

    def write(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        self.connection.execute("begin immediate")
        self.connection.executemany("insert or replace into rows values (?, ?)", rows)
        self.connection.execute("commit")

    def read(self) -> Iterable[tuple[bytes, bytes]]:
        yield from self.connection.execute("select name, row from rows")

    def close(self) -> None:
        self.connection.close()


STORES = {"lmdb": Lmdb, "rocksdb": Rocks, "sqlite": Sqlite}


def sealed(key: bytes, content: bytes) -> bytes:
    return zlib.crc32(content, zlib.crc32(key)).to_bytes(4, "little") + content


def batches(num_batches: int, num_rows: int, row_bytes: int, batch: int) -> Iterable[list[tuple[bytes, bytes]]]:
    """Yield batches of rows in another order each time, contents that do not compress, and the offsets."""
    draw = iter(numbers(0))
    for number in range(num_batches):
        first, stride = next(draw), 7919
        names = sorted({b"series-%08d" % ((first + place * stride) % num_rows) for place in range(batch)})
        noise = b"".join(next(draw).to_bytes(4, "little") for _ in range(row_bytes // 4 // 8)) * 8
        rows = [(name, sealed(name, noise[place % 64 :] + noise[: place % 64])) for place, name in enumerate(names)]
        yield [*rows, (OFFSETS, sealed(OFFSETS, b"%d" % number))]


def cost(name: str, num_batches: int) -> dict:
    folder = Path(tempfile.mkdtemp(prefix="stores-"))
    try:
        store, wall, cpu, rows = STORES[name](folder / name), 0.0, 0.0, 0
        for batch in batches(num_batches, ROWS, ROW_BYTES, BATCH):
            began = time.perf_counter(), time.process_time()
            store.write(batch)
            wall, cpu, rows = (
                wall + time.perf_counter() - began[0],
                cpu + time.process_time() - began[1],
                rows + len(batch),
            )
        began = time.perf_counter()
        found = sum(1 for _ in store.read())
        seconds = time.perf_counter() - began
        store.close()
        size = sum(file.stat().st_size for file in (folder / name).rglob("*") if file.is_file())
    finally:
        shutil.rmtree(folder)
    return {
        "rows_of_bytes": ROW_BYTES,
        "cpu_microseconds_a_row": round(1e6 * cpu / rows, 1),
        "wall_microseconds_a_row": round(1e6 * wall / rows, 1),
        "microseconds_to_read_a_row": round(1e6 * seconds / found, 1),
        "megabytes_on_disk_for_each_of_data": round(size / (found * ROW_BYTES), 2),
    }


def damage(name: str, num_flips: int) -> dict:
    """Flip bits and cut files, one at a time, and let a process of its own read the store."""
    folder = Path(tempfile.mkdtemp(prefix="damage-", dir="/dev/shm"))
    ends: collections.Counter = collections.Counter()
    try:
        store = STORES[name](folder / "whole")
        for batch in batches(12, 60, 1200, 40):
            store.write(batch)
        store.close()
        files = [file for file in (folder / "whole").rglob("*") if file.stat().st_size and file.name != "lock.mdb"]
        draw = iter(numbers(1))
        sizes = [file.stat().st_size for file in files]
        for number in range(num_flips):
            shutil.copytree(folder / "whole", folder / "hurt")
            place = next(draw) % sum(sizes)
            which = next(index for index in range(len(files)) if place < sum(sizes[: index + 1]))
            file, place = folder / "hurt" / files[which].relative_to(folder / "whole"), place - sum(sizes[:which])
            content = bytearray(file.read_bytes())
            if number % 8:
                content[place] ^= 1 << next(draw) % 8
            else:
                del content[place:]
            file.write_bytes(content)
            ends[judged(name, folder / "hurt")] += 1
            shutil.rmtree(folder / "hurt")
    finally:
        shutil.rmtree(folder)
    return {"damaged": num_flips, "ends": dict(ends.most_common())}


READ = """
import sys, zlib
from pathlib import Path
from benchmarks.streams.stores import STORES, OFFSETS, batches
truth = {}
history = []
for batch in batches(12, 60, 1200, 40):
    truth |= dict(batch)
    history.append(dict(truth))
try:
    found = dict(STORES[sys.argv[1]](Path(sys.argv[2])).read())
except Exception:
    sys.exit(3)
if any(zlib.crc32(row[4:], zlib.crc32(key)).to_bytes(4, "little") != row[:4] for key, row in found.items()):
    sys.exit(4)
sys.exit(0 if found == truth else 5 if found in history else 6)
"""

ENDS = {
    0: "no effect",
    3: "refused by the store",
    4: "refused by our checksum",
    5: "an earlier commit, whole",
    6: "a mixture or a part",
}


def judged(name: str, path: Path) -> str:
    code = subprocess.run([sys.executable, "-c", READ, name, str(path)], capture_output=True, check=False).returncode
    return ENDS.get(code, f"the process died by signal {-code}")


def main() -> None:
    """Measure all of them."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--flips", type=int, default=100)
    options = parser.parse_args()
    for name in STORES:
        row = {"store": name, **cost(name, options.batches), **damage(name, options.flips)}
        print(json.dumps(row), flush=True)
        put_row("stores", {"rows_a_batch": BATCH, "synced": True}, row, ("store",))


if __name__ == "__main__":
    main()

"""Walk an LMDB store from end to end, in a process of its own: `python -I store_walk.py DIRECTORY`.

LMDB trusts its file. A flipped bit in a page of the tree can send it anywhere, and a process that maps a file which
was cut short dies by a signal. So this program reads every record once before the owner does. It imports nothing of
the package, and so starts at once.
"""

from __future__ import annotations

import importlib
import sys
import zlib


def main(path: str) -> None:
    """Read all records of all tables."""
    lmdb = importlib.import_module("lmdb")
    environment = lmdb.open(path, readonly=True, lock=False, max_dbs=16, map_size=1 << 40)
    # The file must be as long as its own account of itself: beyond its end, reading is a signal and not an error.
    pages, page_size = environment.info()["last_pgno"] + 1, environment.stat()["psize"]
    with open(f"{path}/data.mdb", "rb") as file:
        if file.seek(0, 2) < pages * page_size:
            sys.exit("its file has been cut short")
    with environment.begin() as transaction:
        names = [name for name, _ in transaction.cursor()]
    for name in names:
        table = environment.open_db(name, create=False)
        with environment.begin(db=table) as transaction:
            previous, count = None, 0
            for key, value in transaction.cursor():
                if previous is not None and key <= previous:
                    sys.exit("its records are not in order")
                if value[:4] != zlib.crc32(value[4:], zlib.crc32(key)).to_bytes(4, "little"):
                    sys.exit("a checksum does not match")
                previous, count = key, count + 1
            if count != transaction.stat(table)["entries"]:
                sys.exit("records are missing")


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Exception as error:
        sys.exit(f"it cannot be read ({type(error).__name__}: {error})")

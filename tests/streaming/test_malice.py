"""What is forged is refused: records with right checksums that no commit would have written, and anything pickled."""

import json
import struct
import subprocess
import sys

import pytest
from tests.support.streams.toy import HashResidents, line

from paramfilter.errors import StoreError
from paramfilter_streams import FileLog, Store, Worker
from paramfilter_streams.records import sealed

SIZE = 2**31
PARTITION = {"offset": 1, "counts": dict.fromkeys(("applied", "missing", "duplicate", "late", "quarantined"), 0)}
HEAD = struct.Struct("<BQQ?I")
BOMB = b"cos\nsystem\n(S'exit 3'\ntR."
"""Leaves the process if it is unpickled."""

FORGED = {
    "a ledger that is cut off": (b"series", b"oslo", b"\x01"),
    "a partition's name that is not there": (b"series", b"oslo", HEAD.pack(255, 1, 0, False, 0)),
    "events that wait, and are not there": (b"series", b"oslo", HEAD.pack(1, 1, 0, False, SIZE) + b"p"),
    "brackets without end": (b"series", b"oslo", HEAD.pack(1, 1, 0, False, 60_000) + b"p" + b"[" * 60_000),
    "an event of two fields": (b"series", b"oslo", HEAD.pack(1, 1, 0, False, 13) + b'p[["oslo", 2]]'),
    "something pickled in place of events": (b"series", b"oslo", HEAD.pack(1, 1, 0, False, len(BOMB)) + b"p" + BOMB),
    "a name that is no text": (b"series", b"\xff\xfe", HEAD.pack(1, 1, 0, False, 0) + b"p"),
    "a partition that is pickled": (b"partitions", b"p", BOMB),
    "a partition with more to say": (b"partitions", b"p", json.dumps(PARTITION | {"path": "/etc"}).encode()),
    "an offset that is a text": (b"partitions", b"p", json.dumps(PARTITION | {"offset": "1"}).encode()),
    "an offset before the beginning": (b"partitions", b"p", json.dumps(PARTITION | {"offset": -1}).encode()),
    "series without number": (b"partitions", b"p", json.dumps(PARTITION | {"num_series": 10**300}).encode()),
    "counts of something else": (b"partitions", b"p", json.dumps(PARTITION | {"counts": {"lost": 1}}).encode()),
}


@pytest.fixture
def filled(tmp_path):
    """A worker whose store holds one series."""
    (tmp_path / "log" / "p").mkdir(parents=True)
    (tmp_path / "log" / "p" / "0.jsonl").write_bytes(line("oslo", 1, 0.5) + b"\n")
    worker = opened(tmp_path)
    worker.run(lambda: False, until_idle=True)
    yield worker
    worker.close()


def opened(path):
    residents = HashResidents()
    return Worker(residents, FileLog(path / "log"), Store(path / "store", residents.identity))


def forge(store, table, key, content):
    with store._environment.begin(write=True, db=store._tables[table]) as transaction:
        transaction.put(key, sealed(key, content))


@pytest.mark.parametrize("what", FORGED)
def test_a_forged_record_is_refused(filled, what):
    forge(filled.store, *FORGED[what])
    with pytest.raises(StoreError):
        filled.recover()


@pytest.mark.parametrize("content", [b"", b"\x09" + bytes(20), b"\x00\x01\x00\x00\x00" + bytes(7), BOMB])
def test_a_forged_posterior_is_refused(filled, content):
    forge(filled.store, b"posteriors", b"oslo\0\0\0\0\0", content)
    with pytest.raises(StoreError, match="cannot be read"):
        filled.latest("oslo")


PLANTED = {
    "import pickle": "pickle",
    "from pickle import loads": "pickle",
    "import cloudpickle": "cloudpickle",
    "import numpy as np\nnp.load('x')": "numpy.load",
    "import marshal": "marshal",
    "import shelve": "shelve",
    "import joblib": "joblib",
    "print(eval('1'))": "S307",
}


@pytest.mark.parametrize("code", PLANTED)
def test_what_unpickles_cannot_be_written_here(code):
    """The linter that guards every commit finds it."""
    command = [sys.executable, "-m", "ruff", "check", "--stdin-filename", "src/paramfilter/streaming/planted.py", "-"]
    done = subprocess.run(command, input=f'"""Read."""\n\n{code}\n', capture_output=True, text=True, check=False)
    assert done.returncode == 1 and PLANTED[code] in done.stdout


def test_nothing_is_unpickled_while_a_worker_reads(filled, tmp_path):
    """Python tells whoever asks of each thing that is unpickled; a worker's life has none."""
    heard = []
    sys.addaudithook(lambda event, _: heard.append(event) if event.startswith(("pickle.", "marshal.loads")) else None)
    filled.close()
    with (tmp_path / "log" / "p" / "0.jsonl").open("ab") as file:
        file.write(BOMB + b"\n" + line("oslo", 2, 0.5) + b"\n")
    again = opened(tmp_path)
    heard.clear()
    again.run(lambda: False, until_idle=True)
    assert again.latest("oslo")[-1].sequence == 2 and len(again.store.quarantined()) == BOMB.count(b"\n") + 1
    assert heard == []

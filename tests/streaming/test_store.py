"""A store is one owner's, is whole or refused, and its commits are all or nothing."""

import errno
import json
import os
import subprocess
import sys
import zlib

import pytest
from tests.support.streams.draws import numbers

import paramfilter as pf
from paramfilter.errors import StoreError
from paramfilter.filters.fingerprint import BEHAVIOUR
from paramfilter_streams import Event, Partition, Quarantined, Store
from paramfilter_streams.ordering import Ledger
from paramfilter_streams.records import Commit
from paramfilter_streams.store import DiskFullError

IDENTITY = {"filter": "sir", "layout": "x", "seed": "0"}
EVENT = Event("s1", 9, [0.5], None, None)


def fill(path, num_series=40, **options):
    store = Store(path, IDENTITY, **options)
    for round_ in range(1, 4):
        rows = [(f"s{one}", Ledger("p", round_, 5, True, {9: EVENT}), bytes([one]) * 900) for one in range(num_series)]
        posteriors = [(f"s{one}", round_, b"posterior %d" % round_) for one in range(num_series)]
        store.commit(Commit(rows, {"p": Partition(round_, num_series=num_series)}, posteriors))
    return store


def content(store):
    posteriors = {name: store.posteriors(name) for name, *_ in store.rows()}
    return list(store.rows()), posteriors, {name: vars(one) for name, one in store.partitions().items()}


def test_what_was_committed_comes_back(tmp_path):
    store = fill(tmp_path, keep=2)
    before = content(store)
    assert before[0][3] == ("s11", Ledger("p", 3, 5, True, {9: EVENT}), bytes([11]) * 900)
    assert sorted(before[1]["s1"]) == [b"posterior 2", b"posterior 3"], "two are kept, and s1 is not s11"
    store.commit(Commit([], {}, [], [Quarantined("p", 0, "no JSON", b"\x00{"), Quarantined("p", 1, "late", b"x")]))
    store.close()
    store = Store(tmp_path, IDENTITY, keep=2)
    assert content(store) == before
    assert store.quarantined() == [Quarantined("p", 0, "no JSON", b"\x00{"), Quarantined("p", 1, "late", b"x")]
    assert oct(os.stat(tmp_path / "data.mdb").st_mode)[-3:] == "600"
    store.close()


def test_two_owners_are_impossible(tmp_path):
    store = fill(tmp_path)
    with pytest.raises(StoreError, match="another process that is running"):
        Store(tmp_path, IDENTITY)
    store.close()
    Store(tmp_path, IDENTITY).close()


@pytest.mark.parametrize("name", ["filter", "layout", "seed", "format"])
def test_a_store_of_another_filter_is_refused(tmp_path, name):
    fill(tmp_path).close()
    with pytest.raises(StoreError, match=f"made with another {name}"):
        Store(tmp_path, {**IDENTITY, name: "other"})


def test_numbers_of_a_fingerprint_may_be_rounded_in_another_way(tmp_path):
    made_by = lambda value: {**IDENTITY, "filter": json.dumps({"model": "m", BEHAVIOUR: [-12.345678, value]})}
    Store(tmp_path, made_by(-1.5)).close()
    Store(tmp_path, made_by(-1.500002)).close()
    with pytest.raises(StoreError, match="made with another filter"):
        Store(tmp_path, made_by(-1.51))


ON_AN_OLD_PROCESSOR = """
import paramfilter as pf
print(pf.sir_filter(pf.models.stochastic_volatility(), 16).fingerprint)
"""


def test_a_store_can_be_taken_to_another_processor(tmp_path):
    """XLA compiles for a processor without AVX, whose sums are rounded in another way."""
    environment = {**os.environ, "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"}
    command = [sys.executable, "-c", ON_AN_OLD_PROCESSOR]
    there = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.strip()
    here = pf.sir_filter(pf.models.stochastic_volatility(), 16).fingerprint
    Store(tmp_path, {**IDENTITY, "filter": there}).close()
    Store(tmp_path, {**IDENTITY, "filter": here}).close()


@pytest.mark.parametrize("foreign", [b"", b"x", b"SQLite format 3\x00" * 1000, bytes(16384), b"\x80\x04\x95" * 9000])
def test_a_foreign_file_is_refused(tmp_path, foreign):
    (tmp_path / "data.mdb").write_bytes(foreign)
    with pytest.raises(StoreError, match="damaged"):
        Store(tmp_path, IDENTITY)


def test_a_store_that_was_cut_short_is_refused(tmp_path):
    fill(tmp_path).close()
    whole = (tmp_path / "data.mdb").read_bytes()
    for share in (0.1, 0.5, 0.9, 0.999):
        (tmp_path / "data.mdb").write_bytes(whole[: int(share * len(whole))])
        with pytest.raises(StoreError, match="damaged"):
            Store(tmp_path, IDENTITY)


def test_a_flipped_bit_is_refused_or_without_effect(tmp_path):
    """Twenty copies of a small store, one bit flipped in each."""
    store = fill(tmp_path)
    before = content(store)
    store.close()
    whole = (tmp_path / "data.mdb").read_bytes()
    draw, refused = iter(numbers(0)), 0
    rows = [place for place in range(len(whole) - 900) if whole[place : place + 900] == bytes([7]) * 900]
    places = [rows[-1] + 100, *(next(draw) % len(whole) for _ in range(20))]
    for place in places:
        flipped = bytearray(whole)
        flipped[place] ^= 1 << next(draw) % 8
        (tmp_path / "data.mdb").write_bytes(flipped)
        try:
            store = Store(tmp_path, IDENTITY)
        except StoreError:
            refused += 1
            continue
        assert content(store) == before, f"byte {place}"
        store.close()
    assert refused


def test_a_row_that_stands_in_for_another_is_refused(tmp_path):
    store = fill(tmp_path)
    with store._environment.begin(write=True, db=store._tables[b"series"]) as transaction:
        transaction.put(b"s1", transaction.get(b"s2"))
    with pytest.raises(StoreError, match=r"checksum of b's1'"):
        list(store.rows())
    store.close()


def test_missing_rows_are_missed(tmp_path):
    store = fill(tmp_path)
    with store._environment.begin(write=True, db=store._tables[b"series"]) as transaction:
        transaction.delete(b"s1")
    with pytest.raises(StoreError, match="39 series and says that there are 40"):
        list(store.rows())
    store.close()


def test_a_full_disk_is_named_and_the_store_stays_as_it_was(tmp_path):
    store = fill(tmp_path, largest_bytes=1 << 20)
    before = content(store)
    rows = [(f"s{one}", Ledger("p", 9), bytes(10_000)) for one in range(200)]
    with pytest.raises(DiskFullError, match="no room"):
        store.commit(Commit(rows, {"p": Partition(9, num_series=200)}))
    assert content(store) == before
    store.close()


def test_a_quota_that_is_used_up_is_a_full_disk(tmp_path, monkeypatch):
    store = fill(tmp_path)

    def refuse(transaction, commit):
        raise store._lmdb.Error(f"mdb_txn_commit: {os.strerror(errno.EDQUOT)}")

    monkeypatch.setattr(store, "_write", refuse)
    with pytest.raises(DiskFullError, match=r"no room.*quota"):
        store.commit(Commit([], {}))
    store.close()


TAKE_OVER = """
import sys
from paramfilter_streams import Partition, Store
from paramfilter_streams.records import Commit
store = Store(sys.argv[1], {"filter": "sir", "layout": "x", "seed": "0"})
store.commit(Commit([], {"p": Partition(77, num_series=40)}))
store.close()
"""


def test_two_processes_that_both_hold_a_store_cannot_both_write(tmp_path):
    store = fill(tmp_path)
    (tmp_path / "owner").unlink()  # the lock with it
    subprocess.run([sys.executable, "-c", TAKE_OVER, str(tmp_path)], check=True)
    with pytest.raises(StoreError, match="another process has written"):
        store.commit(Commit([], {"p": Partition(5, num_series=40)}))
    assert store.partitions()["p"].offset == 77, "what the other one wrote stays"
    store.close()


def test_checksums_are_over_key_and_content(tmp_path):
    store = fill(tmp_path)
    with store._environment.begin(db=store._tables[b"series"]) as transaction:
        value = transaction.get(b"s1")
    assert int.from_bytes(value[:4], "little") == zlib.crc32(b"s1" + value[4:])
    store.close()

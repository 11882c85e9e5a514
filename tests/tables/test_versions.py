"""A version is there whole or not at all, and two drivers cannot both write one."""

import itertools
import threading
from collections import Counter

import pyarrow as pa
import pytest
from pyarrow import fs
from tests.servers.fetch import s3_server
from tests.servers.running import S3Server

import paramfilter as pf
from paramfilter.errors import DataError, StoreError
from paramfilter.tables import StateTable, Versions, group_of, merged

TABLE = StateTable(pf.sir_filter(pf.models.linear_gaussian(), 16), groups=8)
STATES = {name: TABLE.started([name])[0].tobytes() for name in ("a", "b", "c", "d")}


def rows(seq, *names):
    """Return rows that say by their `seq` when they were changed."""
    columns = [group_of(names, 8), names, [seq] * len(names), [0] * len(names), [None] * len(names)]
    return pa.table([*columns, [STATES[name] for name in names]], schema=TABLE.state_schema)


def seen(states):
    return dict(sorted(zip(states["series"].to_pylist(), states["seq"].to_pylist(), strict=True)))


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_a_version_is_the_one_before_with_the_changed_rows(tmp_path, format):
    store = Versions(tmp_path, TABLE, compact_every=3, format=format)
    assert store.newest() == -1 and store.read().equals(TABLE.empty())
    states = TABLE.empty()
    for number, names in enumerate(("ab", "bc", "d", "a", "ad", "c", "b", "b")):
        changed = rows(number, *names)
        store.write(number, changed)
        states = merged(states, changed)
        assert store.newest() == number and seen(store.read()) == seen(states)
    assert seen(Versions(tmp_path, TABLE).read(6)) == {"a": 4, "b": 6, "c": 5, "d": 4}
    assert store.read().schema.equals(TABLE.state_schema, check_metadata=True)
    with pytest.raises(StoreError, match="version 1 of the states is not there"):
        store.read(1)
    assert {path.name[:12] for path in (tmp_path / "parts").iterdir()} == {f"{number:012}" for number in (4, 5, 6, 7)}


def test_groups_are_read_from_the_parts_that_hold_them(tmp_path):
    store = Versions(tmp_path, TABLE)
    store.write(0, rows(0, *"abcd"))
    groups = {name: int(group) for name, group in zip("abcd", rows(0, *"abcd")["group"].to_pylist(), strict=True)}
    mine = [groups["a"], groups["b"]]
    rest = sorted({*range(8)} - {*mine})
    store.commit(1, [store.put(1, rows(1, "a", "b"), mine), store.put(1, rows(1, "c"))])
    assert seen(store.read(groups=mine)) == {"a": 1, "b": 1} | {
        n: 1 if n == "c" else 0 for n in "cd" if groups[n] in mine
    }
    assert seen(store.read(groups=rest)) == {n: {"c": 1, "d": 0}[n] for n in "cd" if groups[n] in rest}
    assert seen(store.read()) == {"a": 1, "b": 1, "c": 1, "d": 0}


def test_a_batch_that_is_done_again_writes_the_same_version(tmp_path):
    store = Versions(tmp_path, TABLE, compact_every=2)
    for number in range(5):
        store.write(number, rows(number, "a", "b"))
    listed = sorted(path.name for path in tmp_path.rglob("*"))
    Versions(tmp_path, TABLE, compact_every=2).write(4, rows(4, "a", "b"))
    assert sorted(path.name for path in tmp_path.rglob("*")) == listed


def test_a_second_driver_is_refused(tmp_path):
    first, second = Versions(tmp_path, TABLE), Versions(tmp_path, TABLE)
    first.write(0, rows(0, "a"))
    with pytest.raises(StoreError, match="another driver"):
        second.write(0, rows(0, "b"))
    first.write(1, rows(1, "a"))
    with pytest.raises(StoreError, match="another driver"):
        second.write(0, rows(0, "a"))
    assert seen(second.read()) == {"a": 1}


class Stepped(Versions):
    """Waits before each look at the folder, and each change of it, until it is let on."""

    def __init__(self, *arguments):
        self.may_go_on, self.has_stopped, self.is_refused = threading.Semaphore(0), threading.Semaphore(0), None
        super().__init__(*arguments)

    def _listed(self, folder):
        self._wait()
        return super()._listed(folder)

    def _write(self, path, content):
        self._wait()
        super()._write(path, content)

    def _remove(self, path):
        self._wait()
        super()._remove(path)

    def _wait(self):
        self.has_stopped.release()
        self.may_go_on.acquire()

    def run(self, rows):
        try:
            self.write(1, rows)
            self.is_refused = False
        except StoreError:
            self.is_refused = True
        self.has_stopped.release()


@pytest.mark.parametrize("every", [6, pytest.param(1, marks=pytest.mark.slow)])
def test_of_two_drivers_at_once_at_most_one_goes_on(tmp_path, every):
    """Go through orders of the calls of two drivers, and let both end."""
    outcomes = Counter()
    for number, early in enumerate([*itertools.combinations(range(10), 5)][::every]):
        Versions(tmp_path / str(number), TABLE).write(0, rows(0, "a"))
        drivers = [Stepped(tmp_path / str(number), TABLE) for _ in range(2)]
        threads = [
            threading.Thread(target=one.run, args=(rows(1, name),)) for one, name in zip(drivers, "ab", strict=True)
        ]
        for thread, driver in zip(threads, drivers, strict=True):
            thread.start()
            driver.has_stopped.acquire()
        for turn in [*(int(turn not in early) for turn in range(10)), *[0, 1] * 4]:
            if drivers[turn].is_refused is None:
                drivers[turn].may_go_on.release()
                drivers[turn].has_stopped.acquire()
        for thread in threads:
            thread.join()
        won = [name for name, driver in zip("ab", drivers, strict=True) if not driver.is_refused]
        outcomes[len(won)] += 1
        end = seen(Versions(tmp_path / str(number), TABLE).read())
        assert len(won) <= 1 and end == {"a": 0} | {name: 1 for name in won}
    assert outcomes[0] and outcomes[1], "both ways of ending have been seen"


def test_a_part_that_was_changed_is_refused(tmp_path):
    store = Versions(tmp_path, TABLE, format="arrow")
    store.write(0, rows(0, "a"))
    (part,) = (tmp_path / "parts").iterdir()
    content = bytearray(part.read_bytes())
    content[len(content) // 2] ^= 1
    part.write_bytes(content)
    with pytest.raises(StoreError, match="damaged"):
        store.read()


def test_another_table_is_refused(tmp_path):
    Versions(tmp_path, TABLE).write(0, rows(0, "a"))
    with pytest.raises(StoreError, match="groups 8 there, 16 here"):
        Versions(tmp_path, StateTable(TABLE.filter, groups=16)).read()
    with pytest.raises(DataError, match="format must be"):
        Versions(tmp_path, TABLE, format="orc")


def test_a_file_system_of_pyarrow_will_do(tmp_path):
    files = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    store = Versions("states", TABLE, files)
    store.write(0, rows(0, "a"))
    assert seen(store.read()) == {"a": 0} and seen(Versions((tmp_path / "states").as_uri(), TABLE).read()) == {"a": 0}


@pytest.mark.skipif(not s3_server().exists(), reason="NOT TESTED, no S3 server here: python -m tests.servers.fetch")
def test_an_object_store_holds_versions_and_refuses_a_second_driver(tmp_path):
    with S3Server(tmp_path) as server:
        login = {"access_key": server.ACCESS, "secret_key": server.SECRET, "region": "us-east-1"}
        files = fs.S3FileSystem(endpoint_override=server.address, scheme="http", **login)
        first, second = (Versions("bucket/states", TABLE, files, compact_every=2) for _ in range(2))
        for number in range(6):
            first.write(number, rows(number, "a", "b"))
        with pytest.raises(StoreError, match="another driver"):
            second.write(5, rows(5, "a"))
        second.write(6, rows(6, "c"))
        assert seen(first.read()) == {"a": 5, "b": 5, "c": 6} and first.newest() == 6
        assert len(first._listed("versions")) == 4

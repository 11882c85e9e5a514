"""Snapshots of a running store hold one commit, write what has changed, and are refused if torn, stale or foreign."""

import json
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.support.streams.service import records
from tests.support.streams.toy import HashResidents, line
from typer.testing import CliRunner

import paramfilter as pf
from paramfilter.errors import StoreError
from paramfilter_streams import FileLog, Pace, Store, Worker, operations, snapshots
from paramfilter_streams.commands import app
from paramfilter_streams.snapshots.folders import ArrowFolder, LocalFolder, folder_at, read_all
from paramfilter_streams.snapshots.images import CHUNK
from paramfilter_streams.snapshots.schedule import Schedule, Snapshots

NUM_SERIES = 60


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "log").mkdir()
    return tmp_path


def opened(folder, store="store", **pace):
    residents = HashResidents()
    kept = Store(folder / store, residents.identity, keep=8, walk_first=False)
    return Worker(residents, FileLog(folder / "log"), kept, pace=Pace(**pace))


def send(folder, *steps, num_series=NUM_SERIES, name="1.jsonl"):
    with (folder / "log" / name).open("ab") as file:
        file.writelines(line(f"s{one}", step, step / 8) + b"\n" for step in steps for one in range(num_series))


def work(folder, store="store"):
    worker = opened(folder, store)
    worker.run(lambda: False, until_idle=True)
    worker.close()


def take(folder, store="store", target="kept", keep=3):
    """Take a snapshot as the service does: LMDB opens a store once in a process."""
    command = [sys.executable, "-I", "-m", "paramfilter_streams.snapshots", folder / store, folder / target, str(keep)]
    done = subprocess.run([str(one) for one in command], capture_output=True, text=True, check=False)
    if done.returncode:
        raise StoreError(done.stderr)
    return json.loads(done.stdout)


def test_a_lost_store_goes_on_from_a_snapshot_like_one_that_was_not_lost(folder):
    send(folder, *range(1, 6))
    worker = opened(folder)
    worker.run(lambda: False, until_idle=True)
    take(folder)
    send(folder, *range(6, 10))
    worker.run(lambda: False, until_idle=True)
    worker.close()
    wanted = records(folder / "store")
    (folder / "store").rename(folder / "lost")
    operations.restore(folder / "kept", folder / "store")
    assert records(folder / "store") != wanted, "the snapshot is older"
    work(folder)
    assert records(folder / "store") == wanted


def test_a_snapshot_writes_what_has_changed_and_old_ones_are_removed(folder):
    send(folder, *range(1, 9))
    work(folder)
    first = take(folder)
    assert first["written"] >= first["size"] > 10 * CHUNK
    send(folder, 9, num_series=1)
    work(folder)
    second = take(folder)
    assert 0 < second["written"] < first["size"] / 3
    wanted = records(folder / "store")
    for step in range(10, 40):
        send(folder, step)
        work(folder)
        last = snapshots.take(folder / "store", str(folder / "kept"), keep=2)
    kept = sum(one.stat().st_size for one in (folder / "kept").iterdir())
    assert [one.number for one in snapshots.listed(str(folder / "kept"))] == [31, 32]
    assert kept < 5 * last.size, "packs that nobody needs are removed, and all is written anew in time"
    assert wanted != records(folder / "store")
    snapshots.restore(str(folder / "kept"), folder / "again")
    assert records(folder / "again") == records(folder / "store")


def test_a_snapshot_while_commits_go_on_holds_one_of_them(folder):
    send(folder, *range(1, 200))
    worker, is_enough = opened(folder, messages=7, seconds_to_wait=0.01), threading.Event()
    worker.recover()
    worker.work_once()
    worker.commit()
    thread = threading.Thread(target=worker.run, args=(is_enough.is_set,))
    thread.start()
    try:
        taken = [take(folder, keep=9) for _ in range(3)]
    finally:
        is_enough.set()
        thread.join()
        worker.close()
    found = []
    for one in taken:
        operations.restore(folder / "kept", folder / f"again-{one['number']}", one["number"])
        (partition,) = operations.inspect(folder / f"again-{one['number']}")["partitions"].values()
        found.append(partition["received"])
    assert found[0] > 0 and found == sorted(found)
    work(folder, "again-1")
    work(folder)
    assert records(folder / "again-1") == records(folder / "store")


@pytest.mark.parametrize("kind", ["snapshot-", "chunks-"])
@pytest.mark.parametrize("harm", ["cut", "flip", "missing"])
def test_a_torn_snapshot_is_refused(folder, kind, harm):
    send(folder, 1, 2)
    work(folder)
    take(folder)
    (victim,) = (folder / "kept").glob(f"{kind}*")
    content = victim.read_bytes()
    middle = len(content) // 2
    if harm == "missing" and kind == "snapshot-":
        victim.rename(victim.with_name(victim.name + ".partial"))  # as its writer was killed
    elif harm == "missing":
        victim.unlink()
    else:
        victim.write_bytes(
            content[:middle] + (b"" if harm == "cut" else bytes([content[middle] ^ 1]) + content[middle + 1 :])
        )
    with pytest.raises(StoreError, match=r"torn or damaged|missing|no such snapshot"):
        operations.restore(folder / "kept", folder / "again")
    assert not (folder / "again").exists() and not (folder / "again.partial").exists()


def test_an_older_snapshot_must_be_asked_for_and_is_not_added_to(folder):
    for step in (1, 2):
        send(folder, step)
        work(folder)
        take(folder)
    operations.restore(folder / "kept", folder / "old", 1)
    with pytest.raises(StoreError, match="not taken of the store"):
        snapshots.take(folder / "old", str(folder / "kept"))
    operations.restore(folder / "kept", folder / "new")
    assert snapshots.take(folder / "new", str(folder / "kept")).number == 3
    with pytest.raises(StoreError, match="restored elsewhere"):
        snapshots.take(folder / "store", str(folder / "kept"))


def test_snapshots_of_another_store_are_not_added_to(folder):
    send(folder, 1)
    for store in ("store", "other"):
        work(folder, store)
    take(folder)
    with pytest.raises(StoreError, match="it is of another store"):
        take(folder, "other")


def test_a_snapshot_older_than_what_the_log_holds_stops_the_worker(folder):
    send(folder, 1, 2)
    work(folder)
    take(folder)
    send(folder, 3, name="2.jsonl")
    work(folder)
    send(folder, 4, name="3.jsonl")
    for name in ("1.jsonl", "2.jsonl"):
        (folder / "log" / name).unlink()
    operations.restore(folder / "kept", folder / "again")
    with pytest.raises(pf.errors.DataError, match="log"):
        work(folder, "again")


def test_a_process_that_died_while_it_took_a_snapshot_leaves_the_last_one_good(folder):
    send(folder, 1)
    work(folder)
    take(folder)
    send(folder, 2)
    work(folder)
    program = (
        "import os, sys\nfrom paramfilter_streams.snapshots import taking\n"
        "real = taking._prune if sys.argv[3] == 'after' else None\n"
        "if real is None:\n"
        "    taking.name_of = lambda kind, number, real=taking.name_of: "
        "os._exit(9) if (kind, number) == ('snapshot-', 2) else real(kind, number)\n"
        "else:\n    taking._prune = lambda *_: os._exit(9)\n"
        "taking.take(sys.argv[1], sys.argv[2])"
    )
    for when, wanted in (("before", [1]), ("after", [1, 2])):
        command = [sys.executable, "-c", program, str(folder / "store"), str(folder / "kept"), when]
        assert subprocess.run(command, check=False).returncode == 9
        assert [one.number for one in snapshots.listed(str(folder / "kept"))] == wanted
    assert take(folder)["number"] == 3
    operations.restore(folder / "kept", folder / "again")
    assert records(folder / "again") == records(folder / "store")


def test_a_disk_that_is_full_fails_the_snapshot_and_not_the_store(folder, monkeypatch):
    send(folder, 1, 2)
    work(folder)

    def full(self, name, blocks):
        next(iter(blocks))
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(LocalFolder, "write", full)
    with pytest.raises(OSError, match="No space"):
        snapshots.take(folder / "store", str(folder / "kept"))
    monkeypatch.undo()
    assert snapshots.take(folder / "store", str(folder / "kept")).number == 1


def test_pyarrow_reaches_other_places(folder):
    send(folder, 1, 2)
    work(folder)
    target = f"file://{folder}/far/away"
    assert isinstance(folder_at(target), ArrowFolder)
    assert [snapshots.take(folder / "store", target, keep=1).number for _ in range(2)] == [1, 2]
    assert [one.number for one in snapshots.listed(target)] == [2]
    operations.restore(target, folder / "again")
    assert records(folder / "again") == records(folder / "store")
    with pytest.raises(StoreError, match="missing among"):
        read_all(folder_at(target), "snapshot-7")


def test_operators_take_list_and_restore_snapshots(folder):
    def called(*arguments):
        return CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False).stdout

    send(folder, 1)
    work(folder)
    assert json.loads(called("snapshot", folder / "store", folder / "kept"))["number"] == 1
    (one,) = map(json.loads, called("snapshots", folder / "kept").splitlines())
    assert one["partitions"]["."]["received"] == NUM_SERIES and one["made_at"].endswith("Z")
    called("restore", folder / "kept", folder / "again", "--number", 1)
    assert records(folder / "again") == records(folder / "store")
    for call, words in [
        (lambda: operations.restore(folder / "kept", folder / "again"), "already"),
        (lambda: operations.restore(folder / "kept", folder / "more", 7), "no such snapshot"),
        (lambda: operations.restore(folder / "nowhere", folder / "more"), "no such snapshot"),
        (lambda: snapshots.take(folder / "nowhere", str(folder / "kept")), "no store at"),
        (lambda: snapshots.take(folder / "store", str(folder / "kept"), keep=0), "at least one"),
    ]:
        with pytest.raises(StoreError, match=words):
            call()


def test_a_service_takes_snapshots_and_counts_those_that_fail(folder):
    send(folder, 1)
    work(folder)
    schedule = Schedule(folder / "store", Snapshots(str(folder / "kept"), seconds=0.2))
    with schedule.running():
        while schedule.last is None or schedule.last.number < 2:
            time.sleep(0.05)
    assert schedule.num_failures == 0
    bad = Schedule(folder / "nowhere", Snapshots(str(folder / "kept")))
    assert bad.take() is None and bad.num_failures == 1
    with pytest.raises(pf.errors.DataError, match="seconds above 0"):
        Snapshots(str(folder / "kept"), seconds=0)


def test_taking_a_snapshot_needs_no_jax():
    program = "import sys, paramfilter_streams.snapshots.taking; print('jax' in sys.modules, 'lmdb' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False False"


def test_paths_of_snapshots_are_private(folder):
    send(folder, 1)
    work(folder)
    take(folder)
    operations.restore(folder / "kept", folder / "again")
    for path in (folder / "kept", folder / "again", *(folder / "kept").iterdir(), folder / "again" / "data.mdb"):
        assert not Path(path).stat().st_mode & 0o077, path

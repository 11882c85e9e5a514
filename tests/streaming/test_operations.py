"""What an operator can see and set right, and what a backup holds."""

import importlib
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.support.streams.service import records
from tests.support.streams.toy import HashResidents, line
from typer.testing import CliRunner

from paramfilter.errors import StoreError
from paramfilter_streams import FileLog, Rules, Store, Worker, operations
from paramfilter_streams.commands import app


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "log").mkdir()
    return tmp_path


def opened(folder, reorder=0):
    residents = HashResidents()
    store = Store(folder / "store", residents.identity, walk_first=False)
    return Worker(residents, FileLog(folder / "log"), store, rules=Rules(reorder=reorder))


def send(folder, *events, name="1.jsonl"):
    with (folder / "log" / name).open("ab") as file:
        file.writelines(line("a", one, 0.5) + b"\n" for one in events)


def work(folder, reorder=0):
    worker = opened(folder, reorder)
    worker.run(lambda: False, until_idle=True)
    partition, state = worker.committed["."], worker.residents.states["a"]
    worker.close()
    return partition, state


def called(*arguments):
    """Return what a command prints."""
    result = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def called_apart(*arguments):
    """Return what a command prints in a process of its own: LMDB opens a store once in a process."""
    program = "import sys; from paramfilter_streams.commands import main; main(sys.argv[1:])"
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_store_can_be_looked_at_while_a_worker_runs(folder):
    send(folder, 1, 2, 4)
    worker = opened(folder, reorder=2)
    worker.run(lambda: False, until_idle=True)
    (found,) = json.loads(called_apart("inspect", folder / "store"))["partitions"].values()
    assert found["received"] == 3 and found["counts"]["applied"] == 2 and found["waiting"] == 1
    worker.close()
    series = json.loads(called("inspect", folder / "store", "--series", "a"))
    assert series == {"series": "a", "partition": ".", "last_step": 2, "waiting": [4]}
    (folder / "log" / "1.jsonl").open("ab").write(b"poison\n")
    work(folder, reorder=2)
    (aside,) = map(json.loads, called("quarantine", folder / "store").splitlines())
    assert aside["raw"] == "poison" and aside["reason"] == "an event is JSON in UTF-8"


@pytest.mark.parametrize(("keep", "num_steps"), [((), 3), (("--keep-state",), 5)])
def test_a_series_behind_a_gap_that_is_too_long_can_go_on(folder, keep, num_steps):
    send(folder, 1, 2, 5001, 5002)
    partition, _ = work(folder)
    assert partition.counts["quarantined"] == 2
    called("reset", folder / "store", "--series", "a", "--next", 5003, *keep)
    send(folder, 5003, 5004, 5005, 4000)
    partition, (count, _) = work(folder)
    assert partition.counts["applied"] == 5 and partition.counts["late"] == 1 and count == num_steps


def test_a_producer_that_begins_again_at_1_can_be_followed(folder):
    send(folder, *range(1, 71))
    work(folder)
    called("reset", folder / "store", "--series", "a")
    send(folder, 1, 2, 3)
    partition, (count, _) = work(folder)
    assert partition.counts["applied"] == 73 and partition.counts["duplicate"] == 0 and count == 3


def test_a_producer_with_a_new_epoch_goes_on_like_one_that_counts_on(folder):
    in_epoch = lambda epoch, number, y: json.dumps({"series": "a", "seq": number, "y": y, "epoch": epoch}).encode()
    numbered = [(4, 1), (4, 2), (4, 3), (6, 1), (6, 2), (4, 3), (6, 2), (6, 4)]
    for name, lines in {
        "epochs": [in_epoch(*one, 0.1 * place) for place, one in enumerate(numbered)],
        "counted": [line("a", step, 0.1 * place) for place, step in enumerate([1, 2, 3, 4, 5, 3, 5, 7])],
    }.items():
        (folder / name / "log").mkdir(parents=True)
        for part in (lines[:4], lines[4:]):  # a worker begins in the middle of an epoch
            with (folder / name / "log" / "1.jsonl").open("ab") as file:
                file.writelines(one + b"\n" for one in part)
            found = work(folder / name)
        assert found[0].waiting == 0
        if name == "epochs":
            state, late = found[1], found[0].counts["late"]
            called("reset", folder / name / "store", "--series", "a", "--next", 6, "--keep-state")
    assert state == found[1] and late == 1
    with (folder / "epochs" / "log" / "1.jsonl").open("ab") as file:
        file.write(in_epoch(6, 6, 0.0) + b"\n")
    assert work(folder / "epochs")[0].counts["applied"] == 7, "an operator gives numbers of the present epoch"


def test_events_that_wait_are_counted_when_a_series_goes_past_them(folder):
    send(folder, 1, 3, 9)
    work(folder, reorder=3)
    called("reset", folder / "store", "--series", "a", "--next", 8, "--keep-state")
    send(folder, 8)
    partition, _ = work(folder, reorder=3)
    assert partition.counts == {"applied": 3, "missing": 0, "duplicate": 0, "late": 1, "quarantined": 0}
    assert partition.waiting == 0


def test_a_partition_whose_log_is_gone_can_go_on_with_what_is_left(folder):
    send(folder, *range(1, 11))
    work(folder)
    (folder / "log" / "1.jsonl").unlink()
    send(folder, *range(8, 21), name="2.jsonl")
    called("reset", folder / "store", "--partition", ".")
    partition, (count, _) = work(folder)
    assert count == 20 and partition.counts["duplicate"] == 3 and partition.filled == 0


def test_a_backup_of_a_running_store_goes_on_like_the_store(folder):
    send(folder, *range(1, 11))
    worker = opened(folder)
    worker.run(lambda: False, until_idle=True)
    called_apart("backup", folder / "store", folder / "copy")
    send(folder, *range(11, 21))
    worker.run(lambda: False, until_idle=True)
    worker.close()
    wanted = records(folder / "store")
    (folder / "store").rename(folder / "lost")
    called("restore", folder / "copy", folder / "store")
    assert work(folder)[1][0] == 20 and records(folder / "store") == wanted


def test_a_backup_that_is_damaged_is_not_restored(folder):
    send(folder, 1)
    work(folder)
    operations.backup(folder / "store", folder / "copy")
    content = (folder / "copy" / "data.mdb").read_bytes()
    (folder / "copy" / "data.mdb").write_bytes(content[: len(content) // 2])
    with pytest.raises(StoreError, match="damaged"):
        operations.restore(folder / "copy", folder / "again")
    assert not (folder / "again").exists()


def test_what_is_not_there_is_named(folder):
    send(folder, 1)
    work(folder)
    store = folder / "store"
    for call, words in [
        (lambda: operations.inspect(folder / "nowhere"), "no store at"),
        (lambda: operations.reset_series(folder / "nowhere", "a", 1), "no store at"),
        (lambda: operations.inspect(store, "b"), "no series 'b'"),
        (lambda: operations.reset_series(store, "b", 1), "no series 'b'"),
        (lambda: operations.reset_partition(store, "east"), "no partition 'east'"),
    ]:
        with pytest.raises(StoreError, match=words):
            call()
    worker = opened(folder)
    with pytest.raises(StoreError, match="another process"):
        operations.reset_partition(store, ".")
    worker.close()


def test_the_command_is_installed():
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["paramfilter.services"]["streams"].partition(":")
    assert callable(getattr(importlib.import_module(module), name))

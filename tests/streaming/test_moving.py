"""Partitions and key groups that move between stores: nothing is lost or doubled, wherever the move is killed."""

import json
import shutil
import subprocess
import sys
from contextlib import closing
from dataclasses import replace

import pytest
from tests.support.streams.toy import HashResidents, messy_lines
from typer.testing import CliRunner

from paramfilter.errors import DataError, StoreError
from paramfilter_streams import FileLog, Pace, Rules, Store, Worker, moving
from paramfilter_streams.commands import app
from paramfilter_streams.groups import NUM_GROUPS, key_group, moves_between, partition_number
from paramfilter_streams.records import Partition, partition_bytes, partition_of

LINES = messy_lines(seed=3, num_series=24, num_steps=15)
HALF = len(LINES) // 2


class OwnFiles(FileLog):
    """A directory of which a worker reads some partitions."""

    def __init__(self, path, partitions):
        super().__init__(path)
        self._own = partitions

    @property
    def partitions(self):
        return self._own


class Log:
    """A log in files, and workers that share its partitions."""

    def __init__(self, folder, num_partitions=2):
        self.folder, self.num_partitions = folder, num_partitions
        self.add_partitions(num_partitions)

    def add_partitions(self, number):
        self.num_partitions = number
        for one in range(number):
            (self.folder / "log" / str(one)).mkdir(parents=True, exist_ok=True)
            (self.folder / "log" / str(one) / "1.jsonl").touch()

    def send(self, lines):
        """Send each event to the partition of its key group; what is no event, to the first."""
        for one in lines:
            try:
                place = partition_number(json.loads(one)["series"], self.num_partitions)
            except (ValueError, TypeError):
                place = 0
            with (self.folder / "log" / str(place) / "1.jsonl").open("ab") as file:
                file.write(one + b"\n")

    def worker(self, name, partitions, reorder=3):
        residents = HashResidents()
        store = Store(self.folder / name, residents.identity, walk_first=False)
        log = OwnFiles(self.folder / "log", partitions)
        return Worker(residents, log, store, rules=Rules(reorder=reorder), pace=Pace(16, seconds_to_wait=0.0))

    def work(self, name, *partitions):
        """Take in all that is there; return what is durable."""
        with closing(self.worker(name, partitions)) as worker:
            worker.run(lambda: False, until_idle=True)
        return self.found(name)

    def found(self, *names):
        """Return all that some stores hold together; it must be the same however it is shared out."""
        series, posteriors, partitions, aside = {}, {}, {}, []
        for name in names:
            store = Store(self.folder / name, HashResidents().identity, walk_first=False)
            for one, ledger, state in store.rows():
                assert one not in series, f"{one} is in two stores"
                series[one] = repr(ledger), state
                posteriors[one] = sorted(store.posteriors(one))
            aside += store.quarantined()
            partitions |= {key: as_if_never_moved(one) for key, one in store.partitions().items() if not one.is_gone}
            store.close()
        return series, posteriors, partitions, sorted(aside)


def as_if_never_moved(partition):
    return replace(partition, epoch=0, given=(), taken={}, source="")


@pytest.fixture
def log(tmp_path):
    log = Log(tmp_path)
    log.send(LINES[:HALF])
    return log


def wanted(tmp_path, num_partitions=2):
    """Return what comes of the log if nothing moves."""
    calm = Log(tmp_path / "calm", num_partitions)
    calm.send(LINES[:HALF])
    calm.work("a", *map(str, range(num_partitions)))
    calm.send(LINES[HALF:])
    return calm.work("a", *map(str, range(num_partitions)))


def test_a_partition_goes_on_in_another_store(log, tmp_path):
    log.work("a", "0", "1")
    assert moving.move(tmp_path / "a", tmp_path / "b", "1") > 0
    log.send(LINES[HALF:])
    log.work("a", "0")
    log.work("b", "1")
    assert log.found("a", "b") == wanted(tmp_path)


def test_a_partition_travels_in_a_store_and_comes_back(log, tmp_path):
    log.work("a", "0", "1")
    for source, target in [("a", "parcel"), ("elsewhere", "b"), ("b", "a")]:
        moving.move(tmp_path / source, tmp_path / target, "1")
        if target == "parcel":
            shutil.copytree(tmp_path / "parcel", tmp_path / "elsewhere")
    log.send(LINES[HALF:])
    log.work("a", "0", "1")
    assert log.found("a") == wanted(tmp_path)


class Killed(BaseException):
    pass


def dying(at, before):
    """Return a kind of store of which all together die at a commit."""
    count = iter(range(100))

    class DyingStore(Store):
        def commit(self, commit):
            dies = next(count) == at
            if dies and before:
                raise Killed
            super().commit(commit)
            if dies:
                raise Killed

    return DyingStore


@pytest.mark.parametrize("before", [True, False])
@pytest.mark.parametrize("at", [0, 1, 2])
@pytest.mark.parametrize("groups", [None, range(43, 64)])
def test_a_move_that_is_killed_can_be_ended(log, tmp_path, monkeypatch, at, before, groups):
    log.work("a", "0", "1")
    offset = reached(tmp_path / "a", "0")

    def move():
        if groups is None:
            return moving.move(tmp_path / "a", tmp_path / "b", "0")
        return moving.move_groups(tmp_path / "a", tmp_path / "b", "0", "2", groups, offset)

    wanted = log.found("a")
    monkeypatch.setattr(moving, "Store", dying(at, before))
    with pytest.raises(Killed):
        move()
    monkeypatch.undo()
    if (at, before) == (2, False):
        with pytest.raises(StoreError, match="moved before"):
            move()
    else:
        move()
    found = log.found("a", "b")
    assert log.found("b")[0]
    if groups is None:
        assert found == wanted
    else:
        assert {name: state for name, (_, state) in found[0].items()} == {
            name: state for name, (_, state) in wanted[0].items()
        }
        assert found[1] == wanted[1] and found[3] == wanted[3]
        assert sum(one.received for one in found[2].values()) == sum(one.received for one in wanted[2].values())


def reached(path, partition):
    store = Store(path, None, walk_first=False)
    offset = store.partitions()[partition].offset
    store.close()
    return offset


def test_neither_side_takes_events_of_a_partition_that_is_on_its_way(log, tmp_path, monkeypatch):
    log.work("a", "0", "1")
    monkeypatch.setattr(moving, "Store", dying(0, before=False))
    with pytest.raises(Killed):
        moving.move(tmp_path / "a", tmp_path / "b", "1")
    monkeypatch.undo()
    worker = log.worker("a", ["0", "1"])
    with pytest.raises(DataError, match="'1' was moved"):
        worker.run(lambda: False, until_idle=True)
    assert {partition_number(name, 2) for name in worker.residents.names} == {0}
    worker.close()


def test_an_owner_that_lost_its_lock_cannot_commit_after_a_move(log, tmp_path):
    stale = log.worker("a", ["0", "1"])
    stale.run(lambda: False, until_idle=True)
    log.send(LINES[HALF:])
    stale.pace = Pace(seconds_between_commits=1e9, seconds_to_wait=0.0)
    stale.work_once()
    (tmp_path / "a" / "owner").unlink()
    program = "import sys; from paramfilter_streams.moving import move; move(*sys.argv[1:])"
    subprocess.run([sys.executable, "-c", program, tmp_path / "a", tmp_path / "b", "1"], check=True)
    with pytest.raises(StoreError, match="another process has written"):
        stale.commit()
    stale.close()
    for name, partition in (("a", "0"), ("b", "1")):
        log.work(name, partition)
    assert log.found("a", "b") == wanted(tmp_path)


def test_a_log_with_more_partitions_keeps_the_state_of_each_series(log, tmp_path):
    log.work("a", "0")
    log.work("b", "1")
    ends = {name: reached(tmp_path / name, partition) for name, partition in (("a", "0"), ("b", "1"))}
    stores = ["a", "b", "c"]
    log.add_partitions(3)
    log.send(LINES[HALF:])  # producers need not wait for the move
    for before, after, groups in moves_between(2, 3):
        source, target = tmp_path / stores[before], tmp_path / stores[after]
        moving.move_groups(source, target, str(before), str(after), groups, ends[stores[before]])
    for number, name in enumerate(stores):
        log.work(name, str(number))
    found, calm = log.found(*stores), wanted(tmp_path)
    assert {name: state for name, (_, state) in found[0].items()} == {
        name: state for name, (_, state) in calm[0].items()
    }
    assert found[1] == calm[1]
    assert sum(one.received for one in found[2].values()) == len(LINES)
    for one in found[2].values():
        assert one.waiting >= 0
    assert {partition_number(name, 3) for name in found[0]} == {0, 1, 2}


def test_key_groups_move_within_a_store(log, tmp_path):
    log.work("a", "0", "1")
    log.add_partitions(3)
    for before, after, groups in moves_between(2, 3):
        end = reached(tmp_path / "a", str(before))
        moving.move_groups(tmp_path / "a", tmp_path / "a", str(before), str(after), groups, end)
    log.send(LINES[HALF:])
    log.work("a", "0", "1", "2")
    assert log.found("a")[1] == wanted(tmp_path)[1]


def test_groups_go_to_a_partition_and_come_back(log, tmp_path):
    log.work("a", "0", "1")
    before = log.found("a")
    end = reached(tmp_path / "a", "0")
    moving.move_groups(tmp_path / "a", tmp_path / "b", "0", "2", range(43, 64), end)
    moving.move_groups(tmp_path / "b", tmp_path / "a", "2", "0", range(43, 64), 0)
    assert log.found("a") == before
    assert log.found("b")[0] == {}


def test_a_move_of_groups_that_came_too_early_is_noticed_and_can_be_taken_back(log, tmp_path):
    log.work("a", "0", "1")
    log.send(LINES[HALF:])  # to the partition that the groups are about to leave
    moving.move_groups(tmp_path / "a", tmp_path / "b", "0", "2", range(64), drained_to=1)
    with pytest.raises(DataError, match=r"'0' holds an event of the series 's\d+', whose key group was moved"):
        log.work("a", "0", "1")
    moving.move_groups(tmp_path / "b", tmp_path / "a", "2", "0", range(64), drained_to=0)
    assert log.work("a", "0", "1") == wanted(tmp_path)


def test_a_log_with_more_partitions_moves_groups_to_the_new_ones_only():
    names = [f"series-{number}" for number in range(1000)]
    for before, after in [(1, 2), (2, 3), (3, 4), (8, 12)]:
        moves = moves_between(before, after)
        assert all(one.before < before <= one.after for one in moves)
        back = moves_between(after, before)
        assert {(one.after, one.before, one.groups) for one in back} == set(moves)
        new = {group: one.after for one in moves for group in one.groups}
        for name in names:
            expected = new.get(key_group(name), partition_number(name, before))
            assert partition_number(name, after) == expected
    for wrong in (0, NUM_GROUPS + 1):
        with pytest.raises(DataError, match="1 to 128"):
            moves_between(1, wrong)


def test_what_would_lose_or_double_is_refused(log, tmp_path):
    log.work("a", "0", "1")
    log.work("b", "1")
    calls = [
        (lambda: moving.move(tmp_path / "a", tmp_path / "b", "1"), "partition '1' of its own"),
        (lambda: moving.move(tmp_path / "a", tmp_path / "b", "7"), "no partition '7'"),
        (lambda: moving.move(tmp_path / "a", tmp_path / "a", "0"), "both the source and the target"),
        (lambda: moving.move(tmp_path / "nowhere", tmp_path / "b", "0"), "no store"),
        (lambda: moving.move_groups(tmp_path / "a", tmp_path / "c", "0", "2", [43], 10**9), "events of these key"),
        (lambda: moving.move_groups(tmp_path / "a", tmp_path / "c", "0", "2", [NUM_GROUPS], 1), "give key groups"),
        (
            lambda: moving.move_groups(tmp_path / "a", tmp_path / "b", "1", "2", range(64, 128), 1),
            "series .* of its own",
        ),
        (lambda: moving.cancel(tmp_path / "a", tmp_path / "b", "1"), "no move of '1'"),
    ]
    for call, words in calls:
        with pytest.raises(StoreError, match=words):
            call()
    moving.move(tmp_path / "a", tmp_path / "c", "1")
    with pytest.raises(StoreError, match="moved before"):
        moving.move(tmp_path / "a", tmp_path / "d", "1")


def test_a_move_goes_to_one_target_only(log, tmp_path, monkeypatch):
    log.work("a", "0", "1")
    monkeypatch.setattr(moving, "Store", dying(1, before=False))
    with pytest.raises(Killed):
        moving.move(tmp_path / "a", tmp_path / "b", "1")
    monkeypatch.undo()
    with pytest.raises(StoreError, match="another store than"):
        moving.move(tmp_path / "a", tmp_path / "c", "1")
    with pytest.raises(StoreError, match="has reached"):
        moving.cancel(tmp_path / "a", tmp_path / "b", "1")
    moving.move(tmp_path / "a", tmp_path / "b", "1")


@pytest.mark.parametrize("groups", [None, range(64, 128)])
def test_a_move_that_has_not_reached_its_target_can_be_given_up(log, tmp_path, monkeypatch, groups):
    log.work("a", "0", "1")
    monkeypatch.setattr(moving, "Store", dying(1, before=True))
    with pytest.raises(Killed):
        if groups is None:
            moving.move(tmp_path / "a", tmp_path / "b", "1")
        else:
            moving.move_groups(tmp_path / "a", tmp_path / "b", "1", "2", groups, 1)
    monkeypatch.undo()
    moving.cancel(tmp_path / "a", tmp_path / "b", "1")
    log.send(LINES[HALF:])
    log.work("a", "0", "1")
    assert log.found("a") == wanted(tmp_path)


def test_the_command_moves(log, tmp_path):
    log.work("a", "0", "1")
    said = [
        CliRunner().invoke(app, ["move", str(tmp_path / "a"), str(tmp_path / "b"), *arguments], catch_exceptions=False)
        for arguments in (
            ["--partition", "1"],
            ["--partition", "0", "--groups", "41,43-63", "--to", "2", "--drained-to", "1"],
            ["--partition", "0", "--groups", "43-63"],
            ["--partition", "0", "--groups", "4x", "--to", "2", "--drained-to", "1"],
        )
    ]
    assert [one.exit_code for one in said] == [0, 0, 2, 2]
    moved = sum(int(one.stdout.split()[0]) for one in said[:2])
    assert moved == len(log.found("b")[0])
    listed = CliRunner().invoke(app, ["groups", "2", "3"], catch_exceptions=False).stdout.splitlines()
    assert [json.loads(one)["before"] for one in listed] == [0, 1]


def test_records_that_have_not_moved_are_written_as_ever():
    assert b"epoch" not in partition_bytes(Partition())
    moved = Partition(epoch=2, given=(1, 2), taken={"p": 1}, leaving={"store": "x", "groups": [1], "to": "q"})
    assert partition_of(partition_bytes(moved)) == moved

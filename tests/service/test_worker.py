"""Whatever comes, in whatever pieces, however often the worker dies: the same bits, and every event accounted for."""

import contextlib
import copy
import os
import resource
import sqlite3
import subprocess
import time
import tracemalloc

import pytest
from tests.support.service.kills import RULES, kill
from tests.support.service.lines import line, messy_lines, numbers
from tests.support.service.working import ListLog, content, opened, run, small_table

import paramfilter as pf
from paramfilter.errors import StoreError
from paramfilter.tables import Fate, Rules
from paramfilter_service.file_log import FileLog
from paramfilter_service.logs import LogUnreachableError, Message, Position
from paramfilter_service.store import Store, backup
from paramfilter_service.worker import Batch, Worker, most_steps

LINES = messy_lines(seed=1, num_series=6, num_steps=30)
TABLE = lambda: small_table(RULES)  # compiled when the first test calls it


@pytest.fixture(scope="module")
def calm(tmp_path_factory):
    """What a store holds after all lines, if nothing disturbs the worker."""
    path = tmp_path_factory.mktemp("calm") / "fleet.db"
    run(opened(path, ListLog(LINES), TABLE()))
    return content(path)


def test_every_event_ends_in_one_of_five_ways(calm):
    counts = dict(calm["counts"])
    assert all(counts[fate] > 0 for fate in Fate), counts
    assert counts["received"] == len(LINES) and counts["series"] == 6
    waiting = counts["received"] - sum(counts[fate] for fate in Fate)
    assert 0 <= waiting <= 6 * RULES.reorder
    assert len(calm["quarantine"]) == counts["quarantined"] + counts["late"]
    assert {one for *_, one in calm["quarantine"]} <= set(LINES)
    steps = sum(seq for _, _, seq, *_ in calm["states"])
    assert steps == counts["applied"] + counts["missing"] + counts["filled"]


@pytest.mark.parametrize(("size", "events"), [(1, 7), (7, 3), (64, 50), (1000, 10_000)])
def test_a_log_cut_into_other_pieces_gives_the_same(calm, tmp_path, size, events):
    worker = run(opened(tmp_path / "fleet.db", ListLog(LINES, size), TABLE(), events=events))
    found = content(tmp_path / "fleet.db")
    assert worker._positions == {"p": Position(len(LINES))}
    assert found == calm


def test_order_and_repeats_do_not_matter_to_a_series_that_gets_all_its_events(tmp_path):
    in_order, draw = [line("a", number, number / 7) for number in range(1, 40)], numbers(4)
    messy = [one for _, one in sorted((place + next(draw) % 3, one) for place, one in enumerate(in_order * 2))]
    for name, lines in (("calm", in_order), ("messy", messy)):
        run(opened(tmp_path / name, ListLog(lines), TABLE()))
    calm, found = content(tmp_path / "calm"), content(tmp_path / "messy")
    assert found["states"] == calm["states"] and found["outputs"] == calm["outputs"]
    assert dict(found["counts"])["duplicate"] == 39


def test_a_batch_may_end_inside_a_message_and_a_worker_die_there(calm, tmp_path):
    path, lives, places = tmp_path / "fleet.db", 0, set()
    while True:
        worker = opened(path, ListLog(LINES, 50), TABLE(), events=17)
        lives += 1
        worker.work_once()
        places.add(worker._positions["p"].line)
        if not worker.work_once():
            break
        with contextlib.closing(worker):  # as if it had died: what it had read and not processed is read again
            pass
    worker.close()
    assert lives > 5 and len(places) > 5 and content(path) == calm


def test_a_message_that_was_read_in_part_and_is_gone_stops_the_worker(tmp_path):
    class Shorter(ListLog, tag="shorter"):
        def read(self, positions, at_most, wait):
            return [Message("p", Position(7), line("a", 7, 0.0), Position(8))]

    with contextlib.closing(opened(tmp_path / "fleet.db", ListLog(LINES, 50), TABLE(), events=17)) as worker:
        worker.work_once()
    with (
        contextlib.closing(opened(tmp_path / "fleet.db", Shorter([]), TABLE())) as worker,
        pytest.raises(pf.errors.DataError, match="no longer holds message 0, which was read in part"),
    ):
        worker.work_once()


def test_time_and_memory_of_a_batch_are_bounded_whatever_a_message_holds(tmp_path):
    """One message of 1 MB, each line 1,000 steps ahead of the one before: 30 million steps, if all were one batch."""
    lines, size = [], 0
    while size < 1_000_000:
        lines.append(b'{"series":"a","seq":%d,"y":1}' % (1 + 1001 * len(lines)))
        size += len(lines[-1]) + 1
    table = copy.copy(TABLE())  # has what is compiled already
    table.rules = Rules()
    worker = opened(tmp_path / "fleet.db", ListLog(lines, len(lines)), table, steps=5000)
    worker.work_once()
    tracemalloc.start()
    before, began = worker.counts["filled"], time.process_time()
    num_lines = worker.work_once()
    seconds, (_, peak) = time.process_time() - began, tracemalloc.get_traced_memory()
    tracemalloc.stop()
    worker.close()
    assert 0 < worker.counts["filled"] - before <= 5000 and num_lines == (worker.counts["filled"] - before) // 1000
    assert peak < 60e6 and seconds < 20, (peak, seconds)
    with sqlite3.connect(tmp_path / "fleet.db") as connection:
        assert connection.execute("SELECT offset, line FROM positions").fetchone() == (0, worker.counts["received"])


@pytest.mark.parametrize("seed", range(4))
def test_the_bound_of_a_batch_is_never_too_low_and_is_exact_for_events_in_order(tmp_path, seed):
    lines, draw = messy_lines(seed + 10, 5, 30), numbers(seed)
    lines += [line("s0", 1 + one, 0.5, epoch=1 + one // 5) for one in range(20)]
    worker = opened(tmp_path / "fleet.db", ListLog(lines), TABLE(), events=9)
    advanced, bounds = TABLE().advance, []

    class Watched:
        def __getattr__(self, name):
            return getattr(TABLE(), name)

        def advance(self, states, events):
            found = advanced(states, events)
            bounds.append((len(found[1]), most_steps(RULES.longest_gap, states, events)))
            return found

    worker.table = Watched()
    while worker.work_once():
        worker.batch = Batch(events=1 + next(draw) % 40, wait=0.0)
    worker.close()
    assert len(bounds) > 5 and all(taken <= bound for taken, bound in bounds), bounds
    states, (events, _) = TABLE().empty(), worker._parser.table([line(name, 1, 0.5) for name in "abc"])
    assert most_steps(RULES.longest_gap, states, events) == 3


class Failing:
    """A table whose third batch fails."""

    calls = 0

    def __getattr__(self, name):
        return getattr(TABLE(), name)

    def advance(self, states, events):
        self.calls += 1
        if self.calls == 3:
            raise RuntimeError("RESOURCE_EXHAUSTED")
        return TABLE().advance(states, events)


def test_a_batch_that_fails_commits_nothing_and_may_be_tried_again(calm, tmp_path):
    worker = opened(tmp_path / "fleet.db", ListLog(LINES, 5), Failing(), events=40)
    for _ in range(2):
        worker.work_once()
    with pytest.raises(RuntimeError):
        worker.work_once()
    assert worker.counts["received"] == 80 and worker._positions["p"].offset == 80
    run(worker)
    assert content(tmp_path / "fleet.db") == calm


def test_kills_between_any_two_writes_change_nothing():
    """A few here; thousands, and processes killed with SIGKILL, by `python -m benchmarks.one_process kills`."""
    row = kill(25)
    assert row["kills"] >= 25 and row["logs_that_differ"] == 0, row


@pytest.mark.parametrize("planted", ["state-first", "offset-first"])
def test_the_harness_finds_what_is_planted(planted):
    assert kill(25, planted)["logs_that_differ"] > 0


def test_a_full_disk_is_waited_for(calm, tmp_path):
    """SQLite's own limit of the file's size is one way to be full; `RLIMIT_FSIZE` and a small tmpfs are others."""
    worker = opened(tmp_path / "fleet.db", ListLog(LINES, 10), TABLE(), events=40)
    worker.work_once()
    worker.store._sql.execute("PRAGMA max_page_count = 1")  # SQLite takes the present size
    durable = worker.counts["received"]
    for _ in range(20):
        worker.work_once()
    full = worker.counts["received"]
    assert worker.not_ready == "cannot write to the store" and durable <= full < len(LINES)
    assert worker._positions["p"].offset == full
    worker.store._sql.execute("PRAGMA max_page_count = 1000000")
    run(worker)
    assert not worker.not_ready and content(tmp_path / "fleet.db") == calm


@pytest.fixture
def small_disk(tmp_path):
    """A file system in memory with 1.5 MB, mounted as root."""
    folder = tmp_path / "disk"
    folder.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1500k", "tmpfs", folder], capture_output=True)
    if made.returncode:
        pytest.skip("needs the right to mount")
    yield folder
    subprocess.run(["umount", "--lazy", folder], check=True)


def test_a_real_disk_that_is_full_is_waited_for_and_a_read_only_one_is_an_error_of_ours(calm, small_disk):
    worker = opened(small_disk / "fleet.db", ListLog(LINES, 10), TABLE(), events=40)
    worker.work_once()
    (small_disk / "filler").write_bytes(b"x" * 1_200_000)
    for _ in range(20):
        worker.work_once()
    assert worker.not_ready == "cannot write to the store" and worker.counts["received"] < len(LINES)
    (small_disk / "filler").unlink()
    run(worker)
    assert not worker.not_ready and content(small_disk / "fleet.db") == calm
    subprocess.run(["mount", "-o", "remount,ro", small_disk], check=True)
    for name in ("fleet.db", "new.db"):
        with pytest.raises(StoreError, match="cannot be used"):
            opened(small_disk / name, ListLog(LINES), TABLE())


def test_a_write_that_is_cut_short_is_waited_for(calm, tmp_path):
    """The kernel refuses to let the file grow, as a quota does."""
    worker = opened(tmp_path / "fleet.db", ListLog(LINES, 10), TABLE(), events=40)
    worker.work_once()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((tmp_path / "fleet.db-wal").stat().st_size + 6000, hard))
    try:
        for _ in range(20):
            worker.work_once()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert worker.not_ready and worker.counts["received"] < len(LINES)
    run(worker)
    assert content(tmp_path / "fleet.db") == calm


def test_another_program_that_writes_is_waited_for(tmp_path, monkeypatch):
    worker = opened(tmp_path / "fleet.db", ListLog(LINES, 10), TABLE())
    worker.store._sql.execute("PRAGMA busy_timeout = 10")
    other = sqlite3.connect(tmp_path / "fleet.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    assert worker.work_once() == 0 and worker.not_ready
    other.execute("COMMIT")
    other.close()
    assert run(worker).counts["received"] == len(LINES)


def test_a_second_owner_is_refused_and_closing_twice_frees_no_lock_of_another(tmp_path):
    first, other = (opened(tmp_path / name, ListLog(LINES), TABLE()) for name in ("a.db", "b.db"))
    with pytest.raises(StoreError, match="another process owns the store"):
        opened(tmp_path / "a.db", ListLog(LINES), TABLE())
    first.close()
    third = opened(tmp_path / "c.db", ListLog(LINES), TABLE())  # gets the descriptors that the first one had
    first.close()
    for name in ("b.db", "c.db"):
        with pytest.raises(StoreError, match="another process owns the store"):
            opened(tmp_path / name, ListLog(LINES), TABLE())
    for worker in (other, third):
        worker.close()
        worker.close()


def test_two_processes_that_both_think_to_own_a_store_cannot_both_write(calm, tmp_path):
    path = tmp_path / "fleet.db"
    first = opened(path, ListLog(LINES, 10), TABLE(), events=40)
    first.work_once()
    os.unlink(f"{path}-owner")
    run(opened(path, ListLog(LINES, 10), TABLE()))
    with pytest.raises(StoreError, match="another process has written"):
        first.work_once()
    first.close()
    assert content(path) == calm


def test_a_store_of_another_filter_or_seed_is_refused(tmp_path):
    path = str(tmp_path / "fleet.db")
    run(opened(path, ListLog([line("a", 1, 0.5)]), TABLE()))
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE about SET value = '7' WHERE name = 'seed'")
    with pytest.raises(StoreError, match="seed 7 there, 0 here"):
        opened(path, ListLog([]), TABLE())


def test_a_file_that_is_no_store_is_refused(tmp_path):
    (tmp_path / "fleet.db").write_bytes(b"not a database, and longer than its header" * 100)
    with pytest.raises(StoreError, match="not a database"):
        opened(tmp_path / "fleet.db", ListLog([]), TABLE())


@pytest.mark.parametrize("change", ["seq = seq + 1", "epoch = 5", "ledger = x'00'", "state = zeroblob(length(state))"])
def test_a_damaged_state_is_refused(tmp_path, change):
    path = tmp_path / "fleet.db"
    run(opened(path, ListLog([line("a", 1, 0.5)]), TABLE()))
    with sqlite3.connect(path) as connection:
        connection.execute(f"UPDATE states SET {change}")
    with pytest.raises(StoreError, match=r"the state of 'a' .* is damaged"):
        run(opened(path, ListLog([line("a", 1, 0.5), line("a", 2, 0.5)]), TABLE()))


def test_the_last_outputs_of_each_series_and_the_last_quarantined_lines_are_kept(tmp_path):
    lines = [line("a", one, 0.1) for one in range(1, 11)] + [b"poison %d" % one for one in range(10)]
    store = Store(str(tmp_path / "fleet.db"), keep=4, keep_quarantined=3)
    run(Worker(TABLE(), ListLog(lines), store, Batch(events=3, wait=0.0)))
    found = content(tmp_path / "fleet.db")
    assert [seq for _, seq, *_ in found["outputs"]] == [7, 8, 9, 10] and len(found["latest"]) == 1
    assert [one for *_, one in found["quarantine"]] == [b"poison 7", b"poison 8", b"poison 9"]
    run(Worker(TABLE(), ListLog(lines), Store(str(tmp_path / "fleet.db"), keep=5)))  # the history begins again
    assert content(tmp_path / "fleet.db")["outputs"] == []


def test_a_backup_of_a_running_store_continues_like_the_store(calm, tmp_path):
    worker = opened(tmp_path / "fleet.db", ListLog(LINES, 10), TABLE(), events=100)
    worker.work_once()
    backup(tmp_path / "fleet.db", tmp_path / "copy.db")
    run(worker)
    run(opened(tmp_path / "copy.db", ListLog(LINES, 10), TABLE()))
    assert content(tmp_path / "copy.db") == content(tmp_path / "fleet.db") == calm
    for source, target in (("fleet.db", "copy.db"), ("nothing.db", "other.db")):
        with pytest.raises(StoreError):
            backup(tmp_path / source, tmp_path / target)


class AwayLog(ListLog, tag="away"):
    """A log that does not answer twice."""

    def read(self, positions, at_most, wait):
        self.size -= 1
        if self.size > 0:
            raise LogUnreachableError("no answer")
        self.size = 1
        return super().read(positions, at_most, wait)


def test_a_worker_is_ready_when_its_log_has_answered(tmp_path):
    worker = opened(tmp_path / "fleet.db", AwayLog(LINES, 3), TABLE())
    assert worker.not_ready == "starting"
    for _ in range(2):
        assert worker.work_once() == 0 and worker.not_ready == "waiting for the log" and worker.last_read is None
    assert run(worker).counts["received"] == len(LINES) and not worker.not_ready and worker.last_read is not None


def test_a_partition_whose_position_was_deleted_is_read_again_and_its_events_are_duplicates(calm, tmp_path):
    """The way out that messages name: `DELETE FROM positions`."""
    in_order = [line("a", one, 0.5) for one in range(1, 21)]
    run(opened(tmp_path / "fleet.db", ListLog(in_order), TABLE()))
    with sqlite3.connect(tmp_path / "fleet.db") as connection:
        connection.execute("DELETE FROM positions WHERE partition = 'p'")
    worker = run(opened(tmp_path / "fleet.db", ListLog([*in_order, line("a", 21, 0.5)]), TABLE()))
    assert worker.counts["duplicate"] == 20 and worker.counts["applied"] == 21


def test_files_are_worked_off_a_block_at_a_time(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "1.jsonl").write_bytes(b"\n".join(LINES) + b"\n")
    worker = run(opened(tmp_path / "fleet.db", FileLog(str(tmp_path / "log")), TABLE(), events=100))
    assert worker.counts["received"] == len(LINES) and worker.counts["commits"] == -(-len(LINES) // 100)

"""Whatever comes, in whatever pieces, however often the worker dies: the same states, every event accounted for."""

import dataclasses
import itertools
import os
import resource
import threading

import pytest
from tests.support.streams.draws import numbers
from tests.support.streams.toy import HashResidents, line, messy_lines

import paramfilter as pf
from paramfilter.errors import StoreError
from paramfilter_streams import Fate, LogUnreachableError, Message, Pace, PipeLog, Rules, Store, Worker

LINES = messy_lines(seed=1, num_series=6, num_steps=60)


class ListLog:
    """Lines in memory, in messages of a given size."""

    lag = None

    def __init__(self, lines, lines_a_message=1, partition="p"):
        self.lines, self.size, self.partitions = lines, lines_a_message, [partition]
        self.acknowledged = {}

    def read(self, positions, at_most, wait):
        found = []
        for name, position in positions.items():
            for start in range(position.offset, len(self.lines), self.size)[:at_most]:
                part = self.lines[start : start + self.size]
                found.append(Message(name, start + len(part), b"\n".join(part)))
        return found

    def acknowledge(self, positions):
        self.acknowledged |= positions

    def close(self):
        pass


class ListSink:
    def __init__(self):
        self.lines = []

    def write(self, outputs):
        self.lines += [one.line for one in outputs]

    def close(self):
        pass


class Killed(Exception):
    pass


def work(path, log, rules=Rules(reorder=3), pace=Pace(), sink=None, dies_after=None):
    """Go through a log; return all that the store holds in the end."""
    residents = HashResidents()
    store = Store(path, residents.identity)
    worker = Worker(residents, log, store, sink, rules, pace)
    try:
        worker.recover()
        assert worker.is_ready
        for number in itertools.count():
            if number == dies_after:
                raise Killed
            if not worker.work_once():
                break
        worker.commit()
        rows = [
            (name, dataclasses.asdict(ledger) | {"held": sorted(ledger.held)}, state)
            for name, ledger, state in store.rows()
        ]
        posteriors = {name: worker.latest(name) for name in residents.names}
        return rows, posteriors, {name: vars(one) for name, one in store.partitions().items()}, store.quarantined()
    finally:
        worker.close()


def test_every_event_ends_in_one_of_five_ways(tmp_path):
    rows, _, partitions, quarantined = work(tmp_path, ListLog(LINES), Rules(reorder=1))
    counts = partitions["p"]["counts"]
    waiting = sum(len(ledger["held"]) for _, ledger, _ in rows)
    assert partitions["p"]["received"] == len(LINES) == sum(counts.values()) + waiting
    assert all(counts[fate] > 0 for fate in Fate), counts
    assert len(quarantined) == counts["quarantined"] + counts["late"]
    assert {one.raw for one in quarantined} <= set(LINES)


def test_a_stream_cut_into_other_pieces_gives_the_same(tmp_path):
    wanted = work(tmp_path / "0", ListLog(LINES))
    for number, (size, messages) in enumerate([(7, 1), (1, 3), (64, 5), (1000, 1000)], start=1):
        found = work(tmp_path / str(number), ListLog(LINES, size), pace=Pace(messages))
        assert found == wanted


def test_order_repeats_and_holes_do_not_matter_to_a_series_that_gets_all_its_events(tmp_path):
    in_order = [line("a", number, number / 7) for number in range(1, 60)]
    draw = iter(numbers(4))
    messy = sorted(((place + next(draw) % 6, one) for place, one in enumerate(in_order * 2)), key=lambda pair: pair[0])
    wanted = work(tmp_path / "0", ListLog(in_order))
    found = work(tmp_path / "1", ListLog([one for _, one in messy]), Rules(reorder=8))
    assert found[0][0][2] == wanted[0][0][2]
    assert found[2]["p"]["counts"] == {"applied": 59, "missing": 0, "duplicate": 59, "late": 0, "quarantined": 0}


def test_whoever_dies_goes_on_from_the_last_commit(tmp_path):
    wanted_sink, sink = ListSink(), ListSink()
    wanted = work(tmp_path / "0", ListLog(LINES, 5), sink=wanted_sink)
    draw = iter(numbers(5))
    for _ in range(12):
        # Commits are far apart, so each death loses work that was done and not yet durable.
        with pytest.raises(Killed):
            every = 0.0 if next(draw) % 2 else 1e9
            work(tmp_path / "1", ListLog(LINES, 5), pace=Pace(2, every), sink=sink, dies_after=next(draw) % 4)
    assert work(tmp_path / "1", ListLog(LINES, 5), pace=Pace(7), sink=sink) == wanted
    assert set(sink.lines) == set(wanted_sink.lines), "outputs may be repeated, and are then the same"
    assert len(set(wanted_sink.lines)) == len(wanted_sink.lines)


def test_a_commit_holds_nothing_that_came_after_it_and_the_log_hears_when_it_is_durable(tmp_path, monkeypatch):
    residents = HashResidents()
    log, store = ListLog(LINES), Store(tmp_path, residents.identity)
    worker = Worker(residents, log, store, rules=Rules(reorder=3), pace=Pace(40, seconds_between_commits=1e9))
    may_write, commit = threading.Event(), store.commit
    monkeypatch.setattr(store, "commit", lambda one: may_write.wait() and commit(one))
    worker.work_once()  # the first batch is committed at once
    names, moved = sorted(residents.names), worker.partitions
    rows = zip(names, residents.rows(names), strict=True)
    wanted = [(name, repr(worker._presence.ledgers[name]), row.tobytes()) for name, row in rows]
    worker.work_once()
    assert worker.partitions["p"].offset == 80 and log.acknowledged == {}
    may_write.set()
    worker._settle()
    assert log.acknowledged == {"p": 40} and store.partitions() == moved
    assert [(name, repr(ledger), state) for name, ledger, state in store.rows()] == wanted
    worker.commit()
    assert log.acknowledged == {"p": 80} and store.partitions() == worker.partitions
    worker.close()


def test_only_what_has_changed_is_written(tmp_path, monkeypatch):
    residents = HashResidents()
    store = Store(tmp_path, residents.identity)
    worker = Worker(residents, ListLog([line("a", 1, 0.0), line("b", 1, 0.0), line("b", 2, 0.0)]), store, pace=Pace(2))
    worker.work_once()
    worker.commit()
    written = []
    monkeypatch.setattr(store, "commit", lambda commit: written.extend(name for name, _, _ in commit.rows))
    worker.work_once()
    worker.commit()
    assert written == ["b"]
    worker.close()


def test_a_series_stays_in_its_partition(tmp_path):
    log = ListLog([line("a", 1, 0.0), line("a", 2, 0.0)])
    log.partitions = ["p", "q"]
    _, _, partitions, quarantined = work(tmp_path, log)
    assert partitions["p"]["counts"]["applied"] == 2 and partitions["q"]["counts"]["quarantined"] == 2
    assert quarantined[0].reason == "the events of its series come from another partition"


def test_more_series_than_there_is_room_for_are_quarantined(tmp_path):
    residents = HashResidents(room=2)
    store = Store(tmp_path, residents.identity)
    worker = Worker(residents, ListLog([line(name, 1, 0.0) for name in "abcab"]), store)
    worker.run(lambda: False, until_idle=True)
    assert worker.partitions["p"].counts["quarantined"] == 1 and "room for 2" in store.quarantined()[0].reason
    worker.close()


def test_too_much_poison_stops_the_worker(tmp_path):
    residents = HashResidents()
    store = Store(tmp_path, residents.identity)
    worker = Worker(residents, ListLog([b"poison"] * 20 + [line("a", one, 0.0) for one in range(1, 1200)]), store)
    worker.pace = Pace(most_quarantined=0.01)
    with pytest.raises(pf.errors.DataError, match=r"of \d+ events were quarantined"):
        worker.run(lambda: False, until_idle=True)
    worker.close()


def test_a_full_disk_stops_reading_and_not_the_worker(tmp_path):
    residents = HashResidents(row_bytes=4000)
    store = Store(tmp_path, residents.identity, largest_bytes=1 << 20)
    lines = [line(f"s{one}", 1, 0.0) for one in range(400)]
    log = ListLog(lines)
    worker = Worker(residents, log, store, pace=Pace(100, seconds_to_wait=0.0))
    for _ in range(20):
        worker.work_once()
    assert "no room" in worker.cannot_commit
    durable = store.partitions()["p"].offset
    assert log.acknowledged == {"p": durable} and 100 <= durable < 400
    store._environment.set_mapsize(1 << 24)
    while worker.work_once() or store.partitions()["p"].offset < 400:
        pass
    worker.commit()
    assert not worker.cannot_commit and log.acknowledged == {"p": 400}
    assert len(list(store.rows())) == 400
    worker.close()


def test_a_disk_that_fails_ends_the_worker_and_another_goes_on(tmp_path):
    """The kernel cuts a write short, in the middle of a commit; `benchmarks.streams.disks` has disks that fail."""
    wanted = work(tmp_path / "calm", ListLog(LINES))
    residents = HashResidents()
    log, store = ListLog(LINES), Store(tmp_path / "tried", residents.identity)
    worker = Worker(residents, log, store, rules=Rules(reorder=3), pace=Pace(20))
    worker.work_once()
    worker.commit()
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, ((store.path / "data.mdb").stat().st_size + 6000, hard))
    try:
        with pytest.raises(StoreError, match="will be read again from the log"):
            worker.run(lambda: False, until_idle=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    worker.close()
    assert log.acknowledged["p"] < len(LINES)
    assert work(tmp_path / "tried", ListLog(LINES)) == wanted


def test_a_pipe_is_read_to_its_end(tmp_path):
    source, target = os.pipe()
    os.write(target, line("a", 1, 0.1) + b"\n" + line("a", 2, 0.2))
    os.close(target)
    _, _, partitions, _ = work(tmp_path, PipeLog(source), pace=Pace(seconds_to_wait=0.01))
    os.close(source)
    assert partitions["pipe"]["counts"]["applied"] == 2 and partitions["pipe"]["offset"] == 2


class AwayLog(ListLog):
    """A log that cannot be reached for some reads."""

    def __init__(self, lines, times_away):
        super().__init__(lines)
        self.times_away = times_away

    def read(self, positions, at_most, wait):
        self.times_away -= 1
        if self.times_away >= 0:
            raise LogUnreachableError("no answer")
        return super().read(positions, at_most, wait)


def opened(path, log, residents=None, **options):
    residents = residents or HashResidents()
    return Worker(residents, log, Store(path, residents.identity), **options)


def test_a_worker_is_ready_when_its_log_has_answered(tmp_path):
    worker = opened(tmp_path, AwayLog(LINES, 2), pace=Pace(seconds_to_wait=0.0))
    assert worker.not_ready == "starting"
    worker.recover()
    for _ in range(2):
        assert worker.work_once() == 0 and worker.not_ready == "waiting for the log" and worker.last_read is None
    worker.run(lambda: False, until_idle=True)
    assert not worker.not_ready and worker.committed["p"].received == len(LINES)
    worker.close()


class FailingResidents(HashResidents):
    """States of which a step fails once, in the middle of a batch."""

    steps_left = 60

    def step(self, names, ys, inputs):
        self.steps_left -= 1
        if not self.steps_left:
            raise RuntimeError("RESOURCE_EXHAUSTED")
        return super().step(names, ys, inputs)


class FailingSink(ListSink):
    """A sink whose second write fails."""

    writes = 0

    def write(self, outputs):
        self.writes += 1
        if self.writes == 2:
            raise TimeoutError("no answer")
        super().write(outputs)


@pytest.mark.parametrize(("residents", "sink"), [(FailingResidents(), None), (HashResidents(), FailingSink())])
def test_a_worker_that_has_failed_stays_failed_and_commits_nothing(tmp_path, residents, sink):
    in_order = [line("a", one, 0.5) for one in range(1, 201)]
    wanted = work(tmp_path / "calm", ListLog(in_order))
    worker = opened(tmp_path / "tried", ListLog(in_order), residents, sink=sink, pace=Pace(50))
    with pytest.raises((RuntimeError, TimeoutError)):
        worker.run(lambda: False, until_idle=True)
    worker._committer.close()  # waits for the commit of the first batch
    durable = worker.store.partitions()["p"].offset
    for go_on in (worker.work_once, worker.commit, lambda: worker.run(lambda: False, until_idle=True)):
        with pytest.raises(StoreError, match=r"has failed \((RuntimeError|TimeoutError).*new worker"):
            go_on()
    assert worker.store.partitions()["p"].offset == durable == 50
    worker.close()
    assert work(tmp_path / "tried", ListLog(in_order)) == wanted


def test_counts_that_are_shown_never_go_back(tmp_path):
    worker = opened(tmp_path, ListLog(LINES), pace=Pace(40, seconds_between_commits=1e9))
    worker.recover()
    for _ in range(3):
        worker.work_once()  # the first batch is committed at once, the others are not
    worker._settle()
    assert worker.partitions["p"].received == 120 and worker.committed["p"].received == 40
    worker._committer.close()
    worker.store.close()  # as if it had been killed
    again = opened(tmp_path, ListLog(LINES))
    again.recover()
    assert again.committed["p"].received == 40
    again.close()


def test_a_batch_with_many_filled_steps_is_cut_short_and_gives_the_same(tmp_path):
    gaps = [line("a", 900 * one, 0.5) for one in range(1, 9)]
    wanted = work(tmp_path / "whole", ListLog(gaps), Rules(), Pace(filled_steps=10**9))
    worker = opened(tmp_path / "cut", ListLog(gaps), pace=Pace(filled_steps=1000))
    worker.recover()
    assert [worker.work_once() for _ in range(4)] == [2, 2, 2, 2], "a batch ends once it has filled more than 1000"
    worker.commit()
    worker.close()
    assert work(tmp_path / "cut", ListLog(gaps), Rules(), Pace(filled_steps=1000)) == wanted

"""Series leave the memory and come back the same, end when they are idle or deleted, and are not too many."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.support.streams.draws import numbers
from tests.support.streams.toy import HashResidents, line, messy_lines
from typer.testing import CliRunner

import paramfilter as pf
from paramfilter.errors import DataError, StoreError
from paramfilter_streams import FileLog, FleetResidents, Limits, Message, Pace, Rules, Store, Worker, lifetime
from paramfilter_streams.commands import app

LINES = messy_lines(seed=6, num_series=30, num_steps=20)


class TimedLog:
    """Events in memory with the times at which the log got them, some a message."""

    lag, partitions = None, ("p",)

    def __init__(self, lines, times=None, lines_a_message=1):
        size = lines_a_message
        self.messages = [b"\n".join(lines[first : first + size]) for first in range(0, len(lines), size)]
        self.times = times

    def read(self, positions, at_most, wait):
        start = positions["p"].offset
        return [
            Message("p", number + 1, one, "", None if self.times is None else self.times[number])
            for number, one in list(enumerate(self.messages))[start : start + at_most]
        ]

    def acknowledge(self, positions):
        pass

    def close(self):
        pass


def opened(path, log, room=1000, limits=Limits(), pace=Pace()):
    residents = HashResidents(room=room)
    store = Store(path, residents.identity, walk_first=False)
    return Worker(residents, log, store, None, Rules(reorder=3), pace, limits)


def found(worker):
    rows = {name: (repr(ledger), state) for name, ledger, state in worker.store.rows()}
    return rows, {name: worker.latest(name) for name in rows}, worker.store.partitions(), worker.store.quarantined()


def work(*arguments, **options):
    """Go through a log; return all that the store holds, and how many series are in memory."""
    worker = opened(*arguments, **options)
    try:
        worker.run(lambda: False, until_idle=True)
        return found(worker), len(worker.residents.names)
    finally:
        worker.close()


@pytest.mark.parametrize(("room", "size", "every"), [(1, 1, 0.0), (3, 1, 1e9), (7, 5, 0.0), (12, 8, 1e9)])
def test_with_more_series_than_fit_into_memory_all_is_the_same(tmp_path, room, size, every):
    """Commits that are far apart leave rows that have left the memory and are not in the store."""
    wanted, _ = work(tmp_path / "0", TimedLog(LINES, lines_a_message=size))
    pace = Pace(16, seconds_between_commits=every)
    same, in_memory = work(tmp_path / "1", TimedLog(LINES, lines_a_message=size), room, Limits(100), pace)
    assert same == wanted and len(wanted[0]) == 30 and in_memory <= room


def test_a_worker_that_dies_with_series_out_of_memory_goes_on(tmp_path):
    wanted, _ = work(tmp_path / "0", TimedLog(LINES))
    draw = iter(numbers(8))
    while True:
        pace = Pace(8, seconds_between_commits=(0.0, 1e9)[next(draw) % 2])
        worker = opened(tmp_path / "1", TimedLog(LINES), 4, Limits(100), pace)
        worker.recover()
        if not [worker.work_once() for _ in range(1 + next(draw) % 12)][-1]:
            worker.commit()
            assert found(worker) == wanted
            worker.close()
            return
        worker.close()


def test_a_store_can_get_less_memory_and_more_again(tmp_path):
    half = len(LINES) // 2
    wanted, _ = work(tmp_path / "0", TimedLog(LINES))
    work(tmp_path / "1", TimedLog(LINES[:half]))
    work(tmp_path / "1", TimedLog(LINES[: half + 100]), 5, Limits(100))
    assert work(tmp_path / "1", TimedLog(LINES))[0] == wanted
    work(tmp_path / "2", TimedLog(LINES), 5, Limits(100))
    with pytest.raises(AssertionError, match="give more room"):
        work(tmp_path / "2", TimedLog(LINES), 5)


def test_a_message_with_more_series_than_there_is_room_for_is_refused(tmp_path):
    log = TimedLog([line(f"s{number}", 1, 0.5) for number in range(9)], lines_a_message=9)
    with pytest.raises(DataError, match="more than room=8 series"):
        work(tmp_path, log, 8, Limits(100))
    assert work(tmp_path / "again", log, 9, Limits(100))[0][2]["p"].counts["applied"] == 9


def test_filters_leave_the_memory_and_come_back_to_the_last_bit(tmp_path):
    filter = pf.sir_filter(pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5), 16)
    residents = FleetResidents(filter, room=16, seed=5, largest_batch=16)
    ys = np.asarray(jax.random.normal(jax.random.key(1), (40, 3)), float)
    lines = [line(f"s{number}", step + 1, float(ys[number, step])) for step in range(3) for number in range(40)]

    def states(path, some, limits):
        residents.drop(list(residents.names))
        worker = Worker(residents, TimedLog(some), Store(path, residents.identity), pace=Pace(8), limits=limits)
        worker.run(lambda: False, until_idle=True)
        worker.close()
        return {name: state for name, _, state in worker_rows(path, residents)}

    together = states(tmp_path / "0", lines, Limits(most_series=40))
    assert len(together) == 40 and len(residents.names) == 16
    for first in (0, 16, 32):
        names = {f"s{number}" for number in range(first, min(first + 16, 40))}
        some = [one for one in lines if one.split(b'"')[3].decode() in names]
        alone = states(tmp_path / str(first + 1), some, Limits())
        assert alone == {name: together[name] for name in names}


def worker_rows(path, residents):
    store = Store(path, residents.identity, walk_first=False)
    rows = list(store.rows())
    store.close()
    return rows


def test_a_tenant_has_a_quota(tmp_path):
    names = ["a.1", "a.2", "b.1", "a.3", "b.2", "a.vip.1", "a.vip.2", "c"]
    lines = [line(name, step, 0.5) for step in (1, 2) for name in names]
    limits = Limits(quotas={"a.": 2, "b.": 5, "a.vip.": 1})
    (rows, _, partitions, aside), _ = work(tmp_path, TimedLog(lines), limits=limits)
    assert sorted(rows) == ["a.1", "a.2", "a.vip.1", "b.1", "b.2", "c"]
    assert partitions["p"].counts["quarantined"] == 4
    assert {one.reason for one in aside} == {
        "the quota of 2 series for this prefix is used up",
        "the quota of 1 series for this prefix is used up",
    }
    lines += [line("a.1", 3, 0.5), line("a.4", 1, 0.5), line("d", 1, 0.5)]
    for room, most in ((1000, None), (2, 7)):  # counted again by another worker, in memory or not
        (rows, _, partitions, _), _ = work(tmp_path, TimedLog(lines), room, Limits(most, quotas=limits.quotas))
        assert len(rows) == 7 and partitions["p"].counts["quarantined"] == 5


def test_more_series_than_may_be_are_quarantined(tmp_path):
    lines = [line(f"s{number}", 1, 0.5) for number in range(9)]
    (rows, _, partitions, aside), _ = work(tmp_path, TimedLog(lines), 3, Limits(most_series=7))
    assert len(rows) == 7 and partitions["p"].counts["quarantined"] == 2
    assert aside[0].reason == "there is room for 7 series and no more"


IDLE = [line("a", step, 0.5) for step in range(1, 7)] + [line("b", 1, 0.5), line("a", 7, 0.25), line("a", 6, 0.5)]
TIMES = [0.0, 10.0, 20.0, 15.0, 131.0, 231.0, 300.0, 331.5, 500.0]


def count_of(state):
    return int.from_bytes(state[:8], "little")


@pytest.mark.parametrize("messages", [1, 3, 100])
@pytest.mark.parametrize("room", [1, 1000])
def test_a_series_that_was_idle_starts_from_the_prior(tmp_path, messages, room):
    """By the times of the log, so it does not matter how it is cut into batches, or when it is read."""
    limits = Limits(most_series=1000, forget_after=100.0)
    (rows, _, partitions, _), _ = work(tmp_path, TimedLog(IDLE, TIMES), room, limits, Pace(messages))
    assert partitions["p"].counts == {"applied": 8, "missing": 0, "duplicate": 1, "late": 0, "quarantined": 0}
    ledger, state = rows["a"]
    assert count_of(state) == 1, (
        "the pauses before 5 (111 s after 3) and 7 (100.5 s) are too long, that before 6 is not"
    )
    assert "sequence=7" in ledger and "seen=331.5" in ledger
    fresh, _ = work(tmp_path / "fresh", TimedLog([line("a", 1, 0.25)]))
    assert state == fresh[0]["a"][1]


def test_forgetting_idle_states_changes_nothing_that_is_forgotten_anyway(tmp_path):
    limits = Limits(forget_after=100.0)
    wanted, _ = work(tmp_path / "0", TimedLog(IDLE, TIMES), limits=limits)
    work(tmp_path / "1", TimedLog(IDLE[:7], TIMES), limits=limits)
    assert lifetime.forget_idle(tmp_path / "1", 100.0, now=330.0) == 0
    assert lifetime.forget_idle(tmp_path / "1", 100.0, now=331.2) == 1
    assert lifetime.forget_idle(tmp_path / "1", 100.0, now=331.2) == 0
    store = Store(tmp_path / "1", None, walk_first=False)
    assert store.row("a")[1] == b"" and store.posteriors("a") == [] and store.posteriors("b")
    store.close()
    same, _ = work(tmp_path / "1", TimedLog(IDLE, TIMES), limits=limits)
    assert same[0] == wanted[0] and same[2:] == wanted[2:]
    assert same[1]["a"] == wanted[1]["a"][-1:]


def test_a_log_without_times_cannot_forget(tmp_path):
    with pytest.raises(DataError, match="does not say when"):
        work(tmp_path, TimedLog(IDLE), limits=Limits(forget_after=100.0))


def test_a_series_that_is_deleted_begins_anew(tmp_path):
    (tmp_path / "log").mkdir()
    file = tmp_path / "log" / "1.jsonl"
    file.write_bytes(b"".join(line(*one, 0.5) + b"\n" for one in [("a", 1), ("a", 3), ("b", 1), ("ab", 1)]))
    before, _ = work(tmp_path / "store", FileLog(tmp_path / "log"))
    assert CliRunner().invoke(app, ["delete", str(tmp_path / "store"), "--series", "a"]).exit_code == 0
    with file.open("ab") as more:
        more.write(line("a", 1, 0.25) + b"\n")
    (rows, posteriors, partitions, aside), _ = work(tmp_path / "store", FileLog(tmp_path / "log"))
    assert rows["b"] == before[0]["b"] and rows["ab"] == before[0]["ab"] and posteriors["ab"] == before[1]["ab"]
    assert [one.sequence for one in posteriors["a"]] == [1] and count_of(rows["a"][1]) == 1
    assert [one.reason for one in aside] == ["an operator deleted its series"]
    assert partitions["."].waiting == 0 and partitions["."].num_series == 3
    with pytest.raises(StoreError, match="no series 'c'"):
        lifetime.delete_series(tmp_path / "store", "c")
    assert CliRunner().invoke(app, ["delete", str(tmp_path / "store"), "--idle", "5"]).stdout == "0 series forgotten\n"
    assert CliRunner().invoke(app, ["delete", str(tmp_path / "store")]).exit_code == 2


def test_limits_are_numbers():
    for wrong in ({"most_series": -1}, {"forget_after": "1 h"}, {"quotas": {"a": True}}):
        with pytest.raises(DataError, match="numbers"):
            Limits(**wrong)

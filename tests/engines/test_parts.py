"""Versions are made in parts: by any number of workers, any number of times, by one driver."""

import contextlib
import functools

import pyarrow as pa
import pytest
from tests.engines.fleet import batches, in_order, log, make_versions, table, undisturbed

from paramfilter.errors import StoreError
from paramfilter.tables import group_of
from paramfilter_engines.parts import Batch, Driver, Worker

NUM_SERIES, NUM_STEPS, ROWS = 30, 12, 60


def work(workers, batch, events):
    """Do all parts of a batch, each by one of the workers, and return their rows."""
    series = events["series"].to_pylist()
    part = [group_part(name, batch.parts) for name in series]
    mine = lambda number: events.filter(pa.array([one == number for one in part]))
    return pa.concat_tables(
        [workers[number % len(workers)].work(batch, number, mine(number)) for number in range(batch.parts)]
    )


def group_part(name, parts):
    return group_of(name, table().groups) * parts // table().groups


@pytest.fixture
def make(tmp_path):
    return functools.partial(make_versions, tmp_path)


def test_groups_are_cut_into_ranges_that_fit_the_formula_of_a_part():
    for parts in (1, 2, 3, 7, 32, 40):
        batch = Batch(0, parts, "", False, False)
        for part in range(parts):
            assert {group * parts // 32 for group in batch.range_of(part, 32)} <= {part}
        assert sum(len(batch.range_of(part, 32)) for part in range(parts)) == 32


def test_any_number_of_parts_and_workers_gives_the_states_and_rows_of_one_batch(make):
    versions, rows = make(), []
    workers = [Worker(make, ranges_kept=kept) for kept in (0, 2)]
    for number, events in enumerate(batches(log(NUM_SERIES, NUM_STEPS), ROWS)):
        with Driver(versions, (2, 3, 2, 1)[number % 4]).batch(number) as batch:
            # Workers take turns, so that what one of them keeps is often older than the version before.
            rows.append(work(workers[:: (-1) ** number], batch, events))
    states, said = undisturbed(NUM_SERIES, NUM_STEPS)
    assert versions.read().sort_by("series").equals(states)
    assert in_order(pa.concat_tables(rows)).equals(said)


def test_a_batch_that_is_done_again_gives_the_same_rows_and_no_new_version(make):
    versions, events = make(), log(NUM_SERIES, 2)
    found = []
    for parts in (2, 3):
        with Driver(versions, parts).batch(0) as batch:
            found.append(in_order(work([Worker(make)], batch, events)))
    assert found[0].equals(found[1]) and versions.newest() == 0


def test_a_batch_that_is_done_again_with_other_events_is_refused(make):
    driver, events = Driver(make(), parts=2), log(NUM_SERIES, 2)
    with driver.batch(0) as batch:
        work([Worker(make)], batch, events)
    with pytest.raises(StoreError, match="made of other events"), driver.batch(0) as batch:
        work([Worker(make)], batch, events.slice(0, len(events) - 9))


def test_what_a_worker_keeps_of_a_batch_that_failed_is_not_used(make):
    driver, workers, events = Driver(make(), parts=1), [Worker(make), Worker(make)], log(NUM_SERIES, 4)
    with pytest.raises(OSError), driver.batch(0) as batch:
        work(workers[:1], batch, events.slice(0, 50))
        raise OSError("the sink is full")
    with driver.batch(0) as batch:
        work(workers[1:], batch, events.slice(0, 40))
    with driver.batch(1) as batch:
        work(workers[:1], batch, events.slice(40))
    states, _, _ = table().advance(table().empty(), events)
    assert driver.versions.read().sort_by("series").equals(states.sort_by("series"))


def test_of_two_drivers_with_different_events_only_one_makes_the_version(make):
    events = log(NUM_SERIES, 4)
    with pytest.raises(StoreError, match="another driver"), Driver(make(), parts=2).batch(0) as slow:
        work([Worker(make)], slow, events.slice(0, 60))
        with Driver(make(), parts=2).batch(0) as fast:
            work([Worker(make)], fast, events.slice(0, 50))
    assert make().newest() == 0
    assert len(make().read()) == len(set(events.slice(0, 50)["series"].to_pylist()))


def test_a_checkpoint_that_is_behind_or_ahead_of_the_states_is_refused(make):
    driver = Driver(make(), parts=2)
    for number in range(3):
        with driver.batch(number):
            pass
    for number in (1, 4):
        with pytest.raises(StoreError, match="newest version of the states is 2"), driver.batch(number):
            pass


def test_events_of_another_workers_groups_are_refused(make):
    events = log(NUM_SERIES, 1)
    other = pa.array([group_part(name, 32) != 0 for name in events["series"].to_pylist()])
    with pytest.raises(StoreError, match="sent it to another task"), Driver(make(), parts=32).batch(0) as batch:
        Worker(make).work(batch, 0, events.filter(other))


def test_a_version_holds_the_position_of_the_log(make):
    driver = Driver(make(), parts=2)
    assert driver.versions.position() is None
    with driver.batch(0, {"topic 0": 17}):
        pass
    assert make().position() == {"topic 0": 17}


@pytest.mark.parametrize("seed", range(4))  # the names of the two versions sort one way or the other
def test_a_version_that_is_about_to_be_withdrawn_is_never_built_on(make, seed):
    """A slow driver has written version 0, has not yet seen the one that is there, and meanwhile version 1 is made."""
    events, slow, fast, worker = log(NUM_SERIES, 4, seed), make(), Driver(make(), parts=1), Worker(make)
    changed, _, _ = table().advance(table().empty(), events.slice(0, 50))
    written = slow.put(0, changed, range(32))
    with fast.batch(0) as batch:
        work([worker], batch, events.slice(0, 60))
    listed, looks = slow._listed, []

    def look(folder):
        looks.append(folder)
        if looks.count("versions") == 2:
            with contextlib.suppress(StoreError), fast.batch(1) as batch:
                work([worker], batch, events.slice(60, 10))
        return listed(folder)

    slow._listed = look
    with pytest.raises(StoreError, match="another driver"):
        slow.commit(0, [written])
    if make().newest() == 0:
        with fast.batch(1) as batch:
            work([worker], batch, events.slice(60, 10))
    states, _, _ = table().advance(table().empty(), events.slice(0, 70))
    assert make().read().sort_by("series").equals(states.sort_by("series"))

"""A fleet in Ray gives the states and the rows of one process, to the bit, whatever is killed."""

import functools
import os
import signal

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.engines.fleet import in_order, log, make_versions, undisturbed

from paramfilter.errors import DataError
from paramfilter_engines.ray import Stream, backfill

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.slow

NUM_SERIES, NUM_STEPS, ROWS = 30, 12, 60


@pytest.fixture(scope="module")
def own_ray():
    ray.init(num_cpus=4, include_dashboard=False, log_to_driver=False, _node_ip_address="127.0.0.1")
    yield ray
    ray.shutdown()


@pytest.fixture
def make(tmp_path):
    return functools.partial(make_versions, tmp_path / "states")


def take(stream, events, upto):
    """Advance a stream up to a place in the log."""
    while (start := stream.position or 0) < upto:
        some = events.slice(start, ROWS)
        stream.advance(some, start + len(some))


def test_a_stream_gives_the_states_and_rows_of_one_process_whatever_dies(own_ray, make):
    events, rows = log(NUM_SERIES, NUM_STEPS), {}
    sink = lambda said, number: rows.__setitem__(number, said)
    for actors, upto in ((2, 100), (3, 200), (2, len(events))):
        stream = Stream(make, sink, actors=actors)
        take(stream, events, min(upto, (stream.position or 0) + 1))
        os.kill(ray.get(stream.actors[0].process.remote()), signal.SIGKILL)
        take(stream, events, upto)
        stream.close()
    states, said = undisturbed(NUM_SERIES, NUM_STEPS)
    assert make().read().sort_by("series").equals(states)
    assert in_order(pa.concat_tables(rows.values())).equals(said)


def test_a_batch_that_the_sink_has_refused_comes_again_with_its_number(own_ray, make):
    events, rows = log(NUM_SERIES, NUM_STEPS), {}

    def sink(said, number):
        if number == 1 and "refused" not in rows:
            rows["refused"] = said
            raise OSError("the disk is full")
        rows[number] = said

    stream = Stream(make, sink)
    take(stream, events, ROWS)
    with pytest.raises(OSError, match="full"):
        take(stream, events, 2 * ROWS)
    assert stream.position == ROWS
    take(stream, events, 2 * ROWS)
    assert in_order(rows[1]).equals(in_order(rows["refused"]))
    stream.close()


@pytest.mark.slow
def test_a_backfill_gives_the_states_of_one_process_and_a_stream_continues_it(own_ray, make, tmp_path):
    events = log(NUM_SERIES, NUM_STEPS)
    (tmp_path / "events").mkdir()
    for number in range(4):
        pq.write_table(events.slice(number * 50, 50), tmp_path / "events" / f"{number}.parquet")
    found = ray.data.read_parquet(str(tmp_path / "events"))
    backfill(found, make, lambda rows: rows.write_parquet(str(tmp_path / "rows")), position=200)
    last = pq.read_table(tmp_path / "rows")
    applied = last.filter(pa.compute.is_valid(last["y"]))
    assert len(set(applied["series"].to_pylist())) == len(applied) == NUM_SERIES
    stream = Stream(make, lambda said, number: None)
    take(stream, events, len(events))
    stream.close()
    assert make().read().sort_by("series").equals(undisturbed(NUM_SERIES, NUM_STEPS)[0])


def test_a_backfill_needs_a_place(own_ray, make):
    events = ray.data.from_arrow(log(3, 2).drop_columns("place"))
    with pytest.raises(DataError, match="needs a column place"):
        backfill(events, make, lambda rows: None)

"""A store that begins with the states of a backfill goes on in the log without a gap and without an overlap."""

import json

import jax
import numpy as np
import numpyro.distributions as dist
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.support.streams.server import NatsServer
from tests.support.streams.toy import line

import paramfilter as pf
from paramfilter.errors import DataError
from paramfilter_streams import FileLog, FleetResidents, Position, Rules, Store, Worker
from paramfilter_streams.backfilling import backfill
from paramfilter_streams.groups import partition_number
from paramfilter_streams.jetstream import JetStreamLog
from paramfilter_streams.seeding import seed

FILTER = pf.sir_filter(pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5), 16)
NAMES = [f"s{number}" for number in range(20)]
ARCHIVED, LAST = 12, 18
YS = np.asarray(jax.random.normal(jax.random.key(2), (len(NAMES), LAST)), np.float32)


RESIDENTS = FleetResidents(FILTER, room=50, seed=5, largest_batch=48)


def lines(first, last, names=NAMES):
    return [
        line(name, step, float(YS[NAMES.index(name), step - 1])) for step in range(first, last + 1) for name in names
    ]


@pytest.fixture(scope="module")
def states(tmp_path_factory):
    """The states of a backfill of the first steps, in two files."""
    folder = tmp_path_factory.mktemp("backfill")
    for number, part in enumerate((slice(0, 7), slice(7, 20))):
        table = {
            "series": np.repeat(NAMES[part], ARCHIVED),
            "time": np.tile(np.arange(ARCHIVED), len(NAMES[part])),
            "y": YS[part, :ARCHIVED].ravel(),
        }
        (folder / "archive").mkdir(exist_ok=True)
        pq.write_table(pa.table(table), folder / "archive" / f"{number}.parquet")
    backfill(lambda: FILTER, folder / "archive", folder / "posteriors", seed=5, keep_states=folder / "states")
    return folder / "states"


def write(folder, some):
    (folder / "log").mkdir()
    (folder / "log" / "1.jsonl").write_bytes(b"".join(one + b"\n" for one in some))
    return FileLog(folder / "log")


def work(path, log, rules=Rules()):
    """Read a log to its end; return states by name, and the account of all events."""
    RESIDENTS.drop(list(RESIDENTS.names))
    worker = Worker(RESIDENTS, log, Store(path, RESIDENTS.identity, walk_first=False), rules=rules)
    try:
        worker.run(lambda: False, until_idle=True)
        states = {name: (ledger.sequence, state) for name, ledger, state in worker.store.rows()}
        return states, worker.committed
    finally:
        worker.close()


@pytest.fixture(scope="module")
def wanted(tmp_path_factory):
    """States of a worker that took in everything from the log."""
    folder = tmp_path_factory.mktemp("live")
    return work(folder / "store", write(folder, lines(1, LAST)))[0]


def is_same(found, wanted):
    return found.keys() == wanted.keys() and all(found[name] == wanted[name] for name in wanted)


@pytest.mark.parametrize("first", [1, ARCHIVED - 3, ARCHIVED + 1])
def test_the_stream_goes_on_where_the_backfill_ends(states, wanted, tmp_path, first):
    log = write(tmp_path, lines(first, LAST))
    count = seed(tmp_path / "store", RESIDENTS, states, {".": Position()}, lambda name: ".", log=log)
    found, partitions = work(tmp_path / "store", log)
    counts = partitions["."].counts
    assert count == len(NAMES) == partitions["."].num_series
    assert counts["applied"] == len(NAMES) * (LAST - ARCHIVED) and partitions["."].filled == 0
    assert counts["duplicate"] == len(NAMES) * max(0, ARCHIVED + 1 - first)
    assert is_same(found, wanted), "to the last bit"


def test_a_log_that_begins_too_late_is_refused(states, tmp_path):
    late = write(tmp_path, [*lines(ARCHIVED + 1, LAST, NAMES[:9]), *lines(ARCHIVED + 2, LAST, NAMES[9:])])
    with pytest.raises(DataError, match=r"does not hold event 13 of 's10'.* 10 other series"):
        seed(tmp_path / "store", RESIDENTS, states, {".": Position()}, lambda name: ".", log=late)
    assert not (tmp_path / "store").exists()


def test_events_out_of_order_are_no_gap(states, wanted, tmp_path):
    some = lines(ARCHIVED + 1, LAST)
    log = write(tmp_path, [b"no event", *some[::-1]])
    seed(tmp_path / "store", RESIDENTS, states, {".": Position()}, lambda name: ".", log=log)
    assert is_same(work(tmp_path / "store", log, Rules(reorder=10))[0], wanted)


def test_what_does_not_fit_is_refused(states, tmp_path):
    log = write(tmp_path, lines(ARCHIVED + 1, LAST))
    store, here = tmp_path / "store", {".": Position()}
    for call, words in [
        (lambda: seed(store, RESIDENTS, tmp_path, here, lambda name: ".", log=None), "no states"),
        (lambda: seed(store, RESIDENTS, states, here, lambda name: "x", log=None), "belongs to 'x'"),
        (
            lambda: seed(store, RESIDENTS, states, here, lambda name: ".", log=None, name_of=lambda _: "a"),
            "called 'a'",
        ),
        (lambda: seed(store, RESIDENTS, states, here, lambda name: ".", log=None, name_of=lambda _: "a b"), "'a b'"),
    ]:
        with pytest.raises(DataError, match=words):
            call()
    seed(store, RESIDENTS, states, here, lambda name: ".", log=log)
    with pytest.raises(DataError, match="has been used"):
        seed(store, RESIDENTS, states, here, lambda name: ".", log=log)


@pytest.mark.slow
def test_a_stream_goes_on_at_a_known_offset(states, wanted, tmp_path):
    """The archive was made of the stream up to some message; what comes after it is in two subjects."""
    subjects = ["events.0", "events.1"]
    with NatsServer(tmp_path / "nats") as server:
        server.make_streams({"events": ["events.*"]})
        log = JetStreamLog(server.address, "events", subjects)
        for first, last in ((1, ARCHIVED), (ARCHIVED + 1, LAST)):
            for one in lines(first, last):
                number = partition_number(json.loads(one)["series"], 2)
                server.publish(subjects[number], [one])
            if last == ARCHIVED:
                position = log.position(ARCHIVED * len(NAMES) + 1)
        place = lambda name: subjects[partition_number(name, 2)]
        seed(tmp_path / "store", RESIDENTS, states, dict.fromkeys(subjects, position), place, log=log)
        log.close()
        found, partitions = work(tmp_path / "store", JetStreamLog(server.address, "events", subjects))
        assert is_same(found, wanted)
        assert sum(one.received for one in partitions.values()) == len(NAMES) * (LAST - ARCHIVED)
        late = JetStreamLog(server.address, "events", subjects)
        positions = dict.fromkeys(subjects, late.position(ARCHIVED * len(NAMES) + 2))
        with pytest.raises(DataError, match="does not hold event 13"):
            seed(tmp_path / "late", RESIDENTS, states, positions, place, log=late)
        late.close()

"""The same against a real NATS server: it is killed, the worker is killed, and nothing is lost or taken twice."""

import json
import threading

import pytest
from tests.support.streams.server import NatsServer
from tests.support.streams.toy import HashResidents, line, messy_lines

from paramfilter_streams import Pace, Position, Rules, Store, Worker
from paramfilter_streams.jetstream import JetStreamLog, JetStreamSink

LINES = messy_lines(seed=2, num_series=8, num_steps=60)
MESSAGES = [b"\n".join(LINES[first : first + 16]) for first in range(0, len(LINES), 16)]
SUBJECTS = ["events.east", "events.west"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        server.make_streams({"events": ["events.>"], "posteriors": ["posteriors.>"]})
        server.publish("events.east", MESSAGES)
        server.publish("events.west", [line("alone", 1, 0.5)])
        yield server


def make_worker(server, path, subject):
    residents = HashResidents()
    store = Store(path, residents.identity)
    log, sink = JetStreamLog(server.address, "events", SUBJECTS), JetStreamSink(server.address, subject, 8)
    return Worker(residents, log, store, sink, Rules(reorder=3), Pace(3, seconds_to_wait=0.1))


def states(worker):
    return [(name, ledger.sequence, state) for name, ledger, state in worker.store.rows()]


@pytest.fixture(scope="module")
def wanted(server, tmp_path_factory):
    """States, counts and outputs of a run that nothing disturbs."""
    worker = make_worker(server, tmp_path_factory.mktemp("wanted"), "posteriors.wanted")
    worker.run(lambda: False, until_idle=True)
    found = states(worker), worker.partitions
    worker.close()
    return *found, outputs(server, "posteriors.wanted")


def outputs(server, subject):
    lines = [one for message in server.read_all("posteriors", subject) for one in message.split(b"\n")]
    keyed = {(said["series"], said["seq"]): one for one in lines for said in (json.loads(one),)}
    assert set(keyed.values()) == set(lines), "what is said twice is the same"
    return keyed


def test_events_come_from_a_stream_and_posteriors_go_to_one(wanted):
    _, partitions, said = wanted
    assert partitions["events.east"].received == len(LINES) and partitions["events.west"].counts["applied"] == 1
    steps = sum(one.counts["applied"] + one.counts["missing"] + one.filled for one in partitions.values())
    assert len(said) == steps and said["alone", 1]


@pytest.mark.slow
def test_a_server_that_dies_under_load_costs_nothing(server, wanted, tmp_path):
    worker = make_worker(server, tmp_path, "posteriors.restarts")
    worker.recover()
    done = threading.Event()
    thread = threading.Thread(target=lambda: worker.run(done.is_set))
    thread.start()
    for _ in range(3):
        server.end()
        server.start()
    while {name: one.offset for name, one in worker.partitions.items()} != {
        name: one.offset for name, one in wanted[1].items()
    }:
        done.wait(0.05)
    done.set()
    thread.join()
    assert states(worker) == wanted[0] and worker.partitions == wanted[1]
    found = outputs(server, "posteriors.restarts")
    assert len(found) == len(wanted[2]) and found == wanted[2]
    worker.close()


def test_a_worker_that_starts_again_begins_where_its_store_says(server, wanted, tmp_path):
    for _ in range(3):
        worker = make_worker(server, tmp_path, "posteriors.again")
        worker.recover()
        worker.work_once()
        worker.close()  # what it had read and not committed is forgotten
    worker = make_worker(server, tmp_path, "posteriors.again")
    worker.run(lambda: False, until_idle=True)
    assert states(worker) == wanted[0] and outputs(server, "posteriors.again") == wanted[2]
    worker.close()


@pytest.mark.slow
def test_a_client_that_hears_nothing_in_time_is_asked_again(server, monkeypatch):
    """Its `fetch` returns an empty list, and does not say that time is up, if the answer itself came too late."""

    async def nothing(*arguments, **options):
        return []

    log = JetStreamLog(server.address, "events", SUBJECTS)
    positions = dict.fromkeys(SUBJECTS, Position())
    first = log.read(positions, 1, 0.5)
    monkeypatch.setattr(log._subscription, "fetch", nothing)
    assert log.read(positions, 1, 0.5) == []
    monkeypatch.undo()
    after = log.read(dict.fromkeys(SUBJECTS, first[0].next), 1, 0.5)
    assert after[0].raw == MESSAGES[1]
    log.close()


@pytest.mark.slow
def test_deliveries_that_got_lost_on_the_way_are_asked_for_again(server):
    log = JetStreamLog(server.address, "events", SUBJECTS)
    positions = dict.fromkeys(SUBJECTS, Position())
    (first,) = (one for one in log.read(positions, 1, 0.5) if one.raw is not None)
    log._connection.call(log._subscription.fetch(2))  # nobody gets to see these
    positions = dict.fromkeys(SUBJECTS, first.next)
    seen = [one.raw for _ in range(3) for one in log.read(positions, 1, 0.5)[:1]]
    assert seen[0] == MESSAGES[1]
    log.close()

"""Workers on a real JetStream share its subjects out anew while events come in, and no state differs."""

import asyncio
import json
import threading

import nats
import pytest
from tests.support.streams.server import NatsServer
from tests.support.streams.toy import HashResidents, messy_lines

from paramfilter_streams import Pace, Rules, Store, Worker, moving
from paramfilter_streams.groups import moves_between, partition_number
from paramfilter_streams.jetstream import JetStreamLog

LINES_A_MESSAGE = 8


def subject(stream, number):
    return f"{stream}.{number}"


def messages(stream, lines, num_partitions):
    """Return subjects and messages: each event goes to the partition of its key group, what is none to the first."""
    waiting: dict[int, list[bytes]] = {}
    found = []
    for one in lines:
        try:
            number = partition_number(json.loads(one)["series"], num_partitions)
        except (ValueError, TypeError):
            number = 0
        waiting.setdefault(number, []).append(one)
        if len(waiting[number]) == LINES_A_MESSAGE:
            found.append((subject(stream, number), b"\n".join(waiting.pop(number))))
    return found + [(subject(stream, number), b"\n".join(some)) for number, some in waiting.items()]


class Producer:
    """Publishes messages in a thread, a few at a time, until all are sent.

    Attributes:
        ends: The place in the stream behind the last message of each subject.
    """

    def __init__(self, address, sent, pause):
        self.ends: dict[str, int] = {}
        self._address, self._sent, self._pause = address, sent, pause
        self.thread = threading.Thread(target=lambda: asyncio.run(self._publish()))
        self.thread.start()

    async def _publish(self):
        client = await nats.connect(self._address)
        streams = client.jetstream()
        for one, content in self._sent:
            self.ends[one] = (await streams.publish(one, content)).seq + 1
            await asyncio.sleep(self._pause)
        await client.close()


class Fleet:
    """Workers in threads, each with a store and some subjects."""

    def __init__(self, folder, server, stream):
        self.folder, self.server, self.stream = folder, server, stream
        self._running = {}

    def start(self, name, subjects):
        residents = HashResidents()
        store = Store(self.folder / name, residents.identity, walk_first=False)
        log = JetStreamLog(self.server.address, self.stream, subjects)
        worker = Worker(residents, log, store, None, Rules(reorder=3), Pace(4, seconds_to_wait=0.1))
        stop = threading.Event()
        thread = threading.Thread(target=lambda: worker.run(stop.is_set))
        thread.start()
        self._running[name] = worker, stop, thread

    def stop(self, *names):
        for name in names:
            worker, stop, thread = self._running.pop(name)
            stop.set()
            thread.join()
            worker.close()

    def wait(self, name, ends):
        """Wait until the events of some subjects are durable up to these places."""
        worker = self._running[name][0]
        while not all(one in worker.committed and worker.committed[one].offset >= end for one, end in ends.items()):
            assert self._running[name][2].is_alive()
            threading.Event().wait(0.02)

    def received(self, name):
        return sum(one.received for one in self._running[name][0].committed.values())

    def found(self, *names):
        """Return the states, the steps and the counts of all events, over some stores."""
        states, received, counts = {}, 0, {}
        for name in names:
            store = Store(self.folder / name, HashResidents().identity, walk_first=False)
            for series, ledger, state in store.rows():
                assert series not in states
                states[series] = ledger.sequence, sorted(ledger.held), state, sorted(store.posteriors(series))
            for one in store.partitions().values():
                received += one.received
                counts = {fate: counts.get(fate, 0) + count for fate, count in one.counts.items()}
            store.close()
        return states, received, counts


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


def never_moved(fleet, subjects, ends):
    """Return what comes of the stream if one worker reads all of it."""
    fleet.start("calm", subjects)
    fleet.wait("calm", ends)
    fleet.stop("calm")
    return fleet.found("calm")


@pytest.mark.slow
def test_two_workers_become_three_and_two_again_under_load(server, tmp_path):
    stream, lines = "rebalance", messy_lines(seed=11, num_series=60, num_steps=100)
    subjects = [subject(stream, number) for number in range(6)]
    server.make_streams({stream: [f"{stream}.*"]})
    fleet = Fleet(tmp_path, server, stream)
    shares = {"a": subjects[:3], "b": subjects[3:]}
    for name, share in shares.items():
        fleet.start(name, share)
    producer = Producer(server.address, messages(stream, lines, 6), pause=0.003)

    def rebalance(moves, after, enough):
        """Wait for so many events, move some subjects, and go on with other shares."""
        while sum(map(fleet.received, shares)) < enough:
            threading.Event().wait(0.02)
        assert producer.thread.is_alive(), "events still come"
        fleet.stop(*shares)
        for one, source, target in moves:
            assert moving.move(tmp_path / source, tmp_path / target, one) > 0
        shares.clear()
        shares.update(after)
        for name, share in shares.items():
            fleet.start(name, share)

    third = len(lines) // 3
    rebalance(
        [(subjects[2], "a", "c"), (subjects[5], "b", "c")],
        {"a": subjects[:2], "b": subjects[3:5], "c": [subjects[2], subjects[5]]},
        third,
    )
    rebalance(
        [(subjects[2], "c", "b"), (subjects[5], "c", "a")],
        {"a": [*subjects[:2], subjects[5]], "b": subjects[2:5]},
        2 * third,
    )
    producer.thread.join()
    for name, share in shares.items():
        fleet.wait(name, {one: producer.ends[one] for one in share})
    fleet.stop(*shares)
    found = fleet.found("a", "b", "c")
    wanted = never_moved(fleet, subjects, producer.ends)
    assert found == wanted and found[1] == len(lines)
    assert len(wanted[0]) == 60 and wanted[2]["applied"] > 4000


@pytest.mark.slow
def test_a_stream_gets_a_third_subject_under_load(server, tmp_path):
    stream, lines = "raised", messy_lines(seed=12, num_series=60, num_steps=60)
    half = len(lines) // 2
    subjects = [subject(stream, number) for number in range(3)]
    server.make_streams({stream: [f"{stream}.*"]})
    fleet = Fleet(tmp_path, server, stream)
    fleet.start("a", subjects[:1])
    fleet.start("b", subjects[1:2])
    before = Producer(server.address, messages(stream, lines[:half], 2), pause=0.0)
    before.thread.join()
    ends = before.ends  # from here on producers know three subjects
    after = Producer(server.address, messages(stream, lines[half:], 3), pause=0.003)
    fleet.wait("a", {subjects[0]: ends[subjects[0]]})
    fleet.wait("b", {subjects[1]: ends[subjects[1]]})
    assert after.thread.is_alive()
    fleet.stop("a", "b")
    stores = ["a", "b", "c"]
    for old, new, groups in moves_between(2, 3):
        source, target = tmp_path / stores[old], tmp_path / stores[new]
        assert moving.move_groups(source, target, subjects[old], subjects[new], groups, ends[subjects[old]]) > 0
    for name, one in zip(stores, subjects, strict=True):
        fleet.start(name, [one])
    after.thread.join()
    for name, one in zip(stores, subjects, strict=True):
        fleet.wait(name, {one: after.ends[one]})
    fleet.stop(*stores)
    found = fleet.found(*stores)
    # One worker that reads all as one subject, in the order of the log.
    server.make_streams({"whole": ["whole.0"]})
    server.publish("whole.0", [content for _, content in messages("whole", lines[:half], 2)])
    server.publish("whole.0", [content for _, content in messages("whole", lines[half:], 3)])
    calm = Fleet(tmp_path, server, "whole")
    calm.start("calm", ["whole.0"])
    while calm.received("calm") < len(lines):
        threading.Event().wait(0.02)
    calm.stop("calm")
    wanted = calm.found("calm")
    assert found[0].keys() == wanted[0].keys() and len(found[0]) == 60
    assert found == wanted

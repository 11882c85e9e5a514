"""Against a real NATS server: it is killed and restarted, and what its stream no longer holds stops the reader."""

import asyncio
import itertools

import nats
import pytest
from nats.js.api import RetentionPolicy, StreamConfig
from tests.support.processes import free_port
from tests.support.service.lines import line
from tests.support.service.server import NatsServer

import paramfilter as pf
from paramfilter_service.jetstream import JetStreamLog
from paramfilter_service.logs import LogUnreachableError, Position


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with NatsServer(tmp_path_factory.mktemp("nats")) as server:
        yield server


NUMBERS = itertools.count()


@pytest.fixture
def stream(server):
    """The name of a stream of this test, without messages."""
    name = f"s{next(NUMBERS)}"
    server.make_streams({name: [f"{name}.*"]})
    return name


def send(server, stream, subject, first, last):
    server.publish(f"{stream}.{subject}", [line(subject, one, 0.5) for one in range(first, last + 1)])


class Reader:
    """What a worker does with a log: it continues where it was, with a new log each time."""

    def __init__(self, server, stream):
        self.server, self.stream, self.positions, self.found = server, stream, {}, []

    def log(self, subjects):
        return JetStreamLog(self.server.address, self.stream, [f"{self.stream}.{one}" for one in subjects])

    def read(self, subjects, log=None):
        """Read to the end of a stream; return how many messages there were of each subject."""
        own = log or self.log(subjects)
        found = dict.fromkeys(subjects, 0)
        try:
            while messages := own.read(dict.fromkeys(own.partitions, Position()) | self.positions, 100, 0.1):
                for one in messages:
                    self.positions[one.partition] = one.next
                    self.found += [] if one.raw is None else [one.raw]
                    found[one.partition[-1]] += one.raw is not None
        finally:
            own.close()
        return found

    def refusal(self, subjects):
        with pytest.raises(pf.errors.DataError) as error:
            self.read(subjects)
        return str(error.value)


@pytest.fixture
def reader(server, stream):
    return Reader(server, stream)


def change(server, method, **options):
    """Call a method of the server's own management."""

    async def call():
        client = await nats.connect(server.address)
        await getattr(client.jetstream(), method)(**options)
        await client.close()

    asyncio.run(call())


def test_a_stream_that_was_made_again_is_refused(server, stream, reader):
    send(server, stream, "a", 1, 20)
    assert reader.read("a") == {"a": 20}
    change(server, "delete_stream", name=stream)
    server.make_streams({stream: [f"{stream}.*"]})
    send(server, stream, "a", 21, 60)  # longer than the first one was
    assert "made again" in reader.refusal("a")


def test_an_offset_beyond_the_end_is_refused(server, stream, reader):
    send(server, stream, "a", 1, 5)
    assert reader.read("a") == {"a": 5}
    position = reader.positions[f"{stream}.a"]
    assert position.offset == 6 and reader.read("a") == {"a": 0}
    reader.positions[f"{stream}.a"] = position._replace(offset=7)
    assert "ends at 5" in reader.refusal("a")


def test_a_message_that_was_read_in_part_comes_again(server, stream, reader):
    send(server, stream, "b", 1, 2)
    send(server, stream, "a", 1, 3)
    log, names = reader.log("ab"), [f"{stream}.{one}" for one in "ab"]
    messages = log.read(dict.fromkeys(names, Position()), 100, 0.5)
    log.close()
    first = next(one for one in messages if one.partition == names[0])
    assert first.start.offset == 3
    reader.positions = {names[0]: first.start._replace(line=1), names[1]: Position(3, first.start.source)}
    assert reader.read("ab") == {"a": 3, "b": 0}


def test_a_subject_that_is_left_out_for_a_while_is_read_from_where_it_was(server, stream, reader):
    for subject in "ab":
        send(server, stream, subject, 1, 10)
    assert reader.read("ab") == {"a": 10, "b": 10}
    for subject in "ba":
        send(server, stream, subject, 11, 30)
    assert reader.read("a") == {"a": 20}
    assert reader.read("ab") == {"a": 0, "b": 20}


def test_a_new_subject_does_not_hide_that_others_have_lost_messages(server, stream, reader):
    send(server, stream, "a", 1, 10)
    assert reader.read("a") == {"a": 10}
    send(server, stream, "a", 11, 30)
    change(server, "purge_stream", name=stream, seq=21)
    for subjects in ("a", "ab"):
        assert "deleted before they were read" in reader.refusal(subjects)


def test_messages_that_a_limit_by_subject_deleted_are_missed(server, stream, reader):
    config = StreamConfig(name=stream, subjects=[f"{stream}.*"], max_msgs_per_subject=5)
    change(server, "update_stream", config=config)
    send(server, stream, "b", 1, 1)
    send(server, stream, "a", 1, 5)
    assert reader.read("ab") == {"a": 5, "b": 1}
    send(server, stream, "a", 6, 30)
    assert "message 7 " in reader.refusal("ab")


def test_messages_that_are_deleted_while_they_are_read_are_missed(server, stream, reader):
    send(server, stream, "a", 1, 30)
    log, name = reader.log("a"), f"{stream}.a"
    first = log.read({name: Position()}, 5, 0.5)
    assert first[-1].next.offset == 6 and log.lag == 25
    change(server, "purge_stream", name=stream, seq=21)
    with pytest.raises(pf.errors.DataError, match="message 6 "):
        log.read({name: first[-1].next}, 5, 0.5)
    log.close()


def test_messages_of_other_subjects_are_no_loss(server, stream, reader):
    for first in (1, 11):
        send(server, stream, "other", first, first + 9)
        send(server, stream, "a", first, first + 9)
    assert reader.read("a") == {"a": 20}


@pytest.mark.parametrize("subjects", [["events.*"], [">"], []])
def test_subjects_are_names(subjects):
    with pytest.raises(pf.errors.DataError, match="without wildcards"):
        JetStreamLog("nats://127.0.0.1:1", "events", subjects)


def test_a_stream_that_is_not_there_is_an_error(server):
    assert "stream not found" in Reader(server, "typo").refusal("a")


@pytest.mark.parametrize("retention", [RetentionPolicy.WORK_QUEUE, RetentionPolicy.INTEREST])
def test_a_stream_that_forgets_what_was_read_is_refused(server, retention):
    name = f"forgets-{retention.value}"
    change(server, "add_stream", config=StreamConfig(name=name, subjects=[f"{name}.*"], retention=retention))
    send(server, name, "a", 1, 10)
    assert f"retention '{retention.value}'" in Reader(server, name).refusal("a")


def test_a_server_that_is_away_at_the_start_is_waited_for(tmp_path):
    server = NatsServer(tmp_path / "nats")
    server.port = free_port()
    log = JetStreamLog(server.address, "late", ["late.a"])
    with pytest.raises(LogUnreachableError):
        log.read({"late.a": Position()}, 10, 0.1)
    with server:
        server.make_streams({"late": ["late.*"]})
        send(server, "late", "a", 1, 3)
        assert len(insisted(log, {"late.a": Position()})) == 3
    log.close()
    log.close()


def insisted(log, positions):
    """Read until the server answers with messages."""
    for _ in range(100):
        try:
            if found := log.read(positions, 10, 0.5):
                return found
        except LogUnreachableError:
            continue
    raise TimeoutError


def test_a_server_that_is_killed_under_load_costs_nothing(tmp_path):
    with NatsServer(tmp_path / "nats") as server:
        server.make_streams({"load": ["load.*"]})
        send(server, "load", "a", 1, 300)
        log, position, found = JetStreamLog(server.address, "load", ["load.a"]), Position(), []
        while len(found) < 300:
            if len(found) in (100, 200):
                server.end()
                server.start()
            for one in insisted(log, {"load.a": position}):
                found, position = [*found, one.raw], one.next
        assert found == [line("a", one, 0.5) for one in range(1, 301)]
        log.close()


def test_a_log_that_never_answered_can_be_closed():
    log = JetStreamLog("nats://127.0.0.1:1", "events", ["events.a"])
    log.close()
    log.close()

"""What a stream no longer holds, or never held, stops the worker with a message; nothing is skipped."""

import itertools

import pytest
from nats.js.api import RetentionPolicy, StreamConfig
from tests.support.processes import free_port
from tests.support.streams.server import NatsServer
from tests.support.streams.toy import HashResidents, line

import paramfilter as pf
from paramfilter_streams import LogUnreachableError, Pace, Position, Store, Worker
from paramfilter_streams.jetstream import JetStreamLog


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


def events(series, first, last):
    return [line(series, one, 0.5) for one in range(first, last + 1)]


def send(server, stream, subject, first, last):
    server.publish(f"{stream}.{subject}", events(subject, first, last))


def work(server, path, stream, subjects):
    """Go on to the end of a stream; return the last step of each series."""
    residents = HashResidents()
    log = JetStreamLog(server.address, stream, [f"{stream}.{one}" for one in subjects])
    worker = Worker(residents, log, Store(path, residents.identity, walk_first=False), pace=Pace(seconds_to_wait=0.1))
    try:
        worker.run(lambda: False, until_idle=True)
        return {name: ledger.sequence for name, ledger, _ in worker.store.rows()}
    finally:
        worker.close()


def refusal(server, path, stream, subjects):
    with pytest.raises(pf.errors.DataError) as error:
        work(server, path, stream, subjects)
    return str(error.value)


def change(server, stream, method, **options):
    """Call a method of the server's own management."""
    log = JetStreamLog(server.address, stream, [f"{stream}.a"])
    log._connection.call(getattr(log._connection.streams, method)(**options))
    log.close()


def test_a_stream_that_was_made_again_is_refused(server, stream, tmp_path):
    send(server, stream, "a", 1, 20)
    assert work(server, tmp_path, stream, "a") == {"a": 20}
    change(server, stream, "delete_stream", name=stream)
    server.make_streams({stream: [f"{stream}.*"]})
    send(server, stream, "a", 21, 60)  # longer than the first one was
    assert "made again" in refusal(server, tmp_path, stream, "a")


def test_an_offset_beyond_the_end_is_refused(server, stream):
    send(server, stream, "a", 1, 5)
    log = JetStreamLog(server.address, stream, [f"{stream}.a"])
    messages = log.read({f"{stream}.a": Position()}, 10, 0.5)
    place = messages[-1].next
    assert place.offset == 6 and log.read({f"{stream}.a": place}, 10, 0.1) == []
    log._subscription = None
    with pytest.raises(pf.errors.DataError, match="ends at 5"):
        log.read({f"{stream}.a": place._replace(offset=7)}, 10, 0.1)
    log.close()


def test_a_subject_that_is_left_out_for_a_while_is_read_from_where_it_was(server, stream, tmp_path):
    for subject in "ab":
        send(server, stream, subject, 1, 10)
    assert work(server, tmp_path, stream, "ab") == {"a": 10, "b": 10}
    for subject in "ba":
        send(server, stream, subject, 11, 30)
    assert work(server, tmp_path, stream, "a") == {"a": 30, "b": 10}
    assert work(server, tmp_path, stream, "ab") == {"a": 30, "b": 30}


def test_a_new_subject_does_not_hide_that_others_have_lost_messages(server, stream, tmp_path):
    send(server, stream, "a", 1, 10)
    assert work(server, tmp_path, stream, "a") == {"a": 10}
    send(server, stream, "a", 11, 30)
    change(server, stream, "purge_stream", name=stream, seq=21)
    for subjects in ("a", "ab"):
        assert "deleted before they were read" in refusal(server, tmp_path, stream, subjects)


def test_messages_that_a_limit_by_subject_deleted_are_missed(server, stream, tmp_path):
    change(
        server,
        stream,
        "update_stream",
        config=StreamConfig(name=stream, subjects=[f"{stream}.*"], max_msgs_per_subject=5),
    )
    send(server, stream, "b", 1, 1)
    send(server, stream, "a", 1, 5)
    assert work(server, tmp_path, stream, "ab") == {"a": 5, "b": 1}
    send(server, stream, "a", 6, 30)
    assert "message 7 " in refusal(server, tmp_path, stream, "ab")


def test_messages_that_are_deleted_while_a_worker_reads_are_missed(server, stream):
    send(server, stream, "a", 1, 30)
    log, name = JetStreamLog(server.address, stream, [f"{stream}.a"]), f"{stream}.a"
    first = log.read({name: Position()}, 5, 0.5)
    assert first[-1].next_offset == 6 and log.lag == 25
    log._connection.call(log._connection.streams.purge_stream(stream, seq=21))
    with pytest.raises(pf.errors.DataError, match="message 6 "):
        log.read({name: first[-1].next}, 5, 0.5)
    log.close()


def test_messages_of_other_subjects_are_no_loss(server, stream, tmp_path):
    for first in (1, 11):
        send(server, stream, "other", first, first + 9)
        send(server, stream, "a", first, first + 9)
    assert work(server, tmp_path, stream, "a") == {"a": 20}


@pytest.mark.parametrize("subjects", [["events.*"], [">"], [], "events"])
def test_subjects_are_names(subjects):
    with pytest.raises(pf.errors.DataError, match="without wildcards"):
        JetStreamLog("nats://127.0.0.1:1", "events", subjects)


def test_a_stream_that_is_not_there_is_an_error(server, tmp_path):
    assert "stream not found" in refusal(server, tmp_path, "typo", "a")


@pytest.mark.parametrize("retention", [RetentionPolicy.WORK_QUEUE, RetentionPolicy.INTEREST])
def test_a_stream_that_forgets_what_was_read_is_refused(server, tmp_path, retention):
    name = f"forgets-{retention.value}"
    change(server, name, "add_stream", config=StreamConfig(name=name, subjects=[f"{name}.*"], retention=retention))
    send(server, name, "a", 1, 10)
    assert f"retention '{retention.value}'" in refusal(server, tmp_path, name, "a")


def test_a_server_that_is_away_at_the_start_is_waited_for(tmp_path):
    server = NatsServer(tmp_path / "nats")
    server.port = free_port()
    log = JetStreamLog(server.address, "late", ["late.a"])
    with pytest.raises(LogUnreachableError):
        log.read({"late.a": Position()}, 10, 0.1)
    with server:
        server.make_streams({"late": ["late.*"]})
        send(server, "late", "a", 1, 3)
        found = []
        for _ in range(100):
            try:
                found = log.read({"late.a": Position()}, 10, 0.5)
                break
            except LogUnreachableError:
                continue
        assert len(found) == 3
        log.close()


def test_a_log_that_never_answered_can_be_closed():
    JetStreamLog("nats://127.0.0.1:1", "events", ["events.a"]).close()

"""Kafka as a log and as a sink, against the broker that librdkafka has for tests."""

import json

import confluent_kafka
import pytest
from tests.support.processes import free_port
from tests.support.streams.toy import HashResidents, line

import paramfilter as pf
from paramfilter_streams import LogUnreachableError, Message, Output, Pace, Position, Store, Worker
from paramfilter_streams.kafka import KafkaLog
from paramfilter_streams.kafka_sink import KafkaSink


@pytest.fixture(scope="module")
def broker():
    """The address of a broker that lives as long as its client."""
    client = confluent_kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "mock"})
    (one,) = client.list_topics(timeout=10).brokers.values()
    yield f"{one.host}:{one.port}"


def send(broker, topic, first, last):
    producer = confluent_kafka.Producer({"bootstrap.servers": broker})
    for number in range(first, last + 1):
        producer.produce(topic, line("a", number, 0.5), partition=0)
    assert producer.flush(10) == 0


def messages(log, position, wanted):
    """Read until there are so many messages."""
    found = []
    for _ in range(50):
        found += log.read({"0": found[-1].next if found else position}, 100, 0.2)
        if len(found) >= wanted:
            break
    return found


def test_events_come_from_a_topic(broker, tmp_path):
    send(broker, "events", 1, 20)
    residents = HashResidents()
    log, store = KafkaLog(broker, "events", [0]), Store(tmp_path, residents.identity)
    worker = Worker(residents, log, store, pace=Pace(seconds_to_wait=0.2))
    worker.recover()
    while worker.partitions.get("0") is None or worker.partitions["0"].received < 20:
        worker.work_once()
    worker.commit()
    assert worker.committed["0"].counts["applied"] == 20 and log.lag == 0 and worker.last_read is not None
    worker.close()


def test_a_partition_of_another_worker_stays_where_it_is(broker):
    send(broker, "shared", 1, 5)
    log = KafkaLog(broker, "shared", [0])
    found = log.read({"0": Position(), "1": Position(7)}, 100, 5.0)
    assert {one.partition for one in found} == {"0"}
    log.close()


def test_an_offset_that_is_not_there_is_refused(broker):
    send(broker, "short", 1, 5)
    log = KafkaLog(broker, "short", [0])
    assert len(messages(log, Position(2), 3)) == 3
    with pytest.raises(pf.errors.DataError, match="does not hold what comes next"):
        messages(log, Position(99), 1)
    log.close()


def test_a_broker_that_is_away_is_waited_for(monkeypatch):
    monkeypatch.setattr("paramfilter_streams.kafka.SHORT_WAIT", 0.5)
    log = KafkaLog(f"127.0.0.1:{free_port()}", "events", settings={"log_level": 0})
    with pytest.raises(LogUnreachableError):
        _ = log.partitions
    log.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (confluent_kafka.KafkaError._ALL_BROKERS_DOWN, None),
        (confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, pf.errors.DataError),
        (confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART, pf.errors.DataError),
    ],
)
def test_only_errors_of_a_connection_are_waited_for(broker, code, kind):
    log = KafkaLog(broker, "events", [0])
    error = confluent_kafka.KafkaError(code)
    if kind is None:
        log._refuse_unless_away(error)
    else:
        with pytest.raises(kind, match="cannot be read"):
            log._refuse_unless_away(error)
    log.close()


def test_outputs_are_written_once_and_in_order(broker, monkeypatch):
    given = []
    real = confluent_kafka.Producer
    monkeypatch.setattr(confluent_kafka, "Producer", lambda settings: given.append(settings) or real(settings))
    sink = KafkaSink(broker, "posteriors")
    assert given[0]["enable.idempotence"] is True and given[0]["acks"] == "all"
    sink.write([Output("a", number, json.dumps(number).encode()) for number in range(50)])
    sink.close()
    log = KafkaLog(broker, "posteriors")
    names = log.partitions
    found = []
    for _ in range(50):
        positions = {name: Position() for name in names} | {one.partition: one.next for one in found}
        found += log.read(positions, 100, 0.2)
        if len(found) >= 50:
            break
    assert [int(one.raw) for one in found] == list(range(50)), "one series, so one partition"
    log.close()


def writing_once(broker, folder, messages):
    residents = HashResidents()
    sink = KafkaSink(broker, "once", transactional_id="worker-1")
    log, store = KafkaLog(broker, "to-once", [0]), Store(folder, residents.identity)
    worker = Worker(residents, log, store, sink, pace=Pace(messages, seconds_to_wait=0.2))
    worker.recover()
    return worker


def read_until(worker, num_events):
    while worker.partitions.get("0") is None or worker.partitions["0"].received < num_events:
        worker.work_once()


def values(broker, topic):
    """Return all messages of a topic."""
    consumer = confluent_kafka.Consumer(
        {
            "bootstrap.servers": broker,
            "group.id": "test",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    numbers = sorted(consumer.list_topics(topic, timeout=10).topics[topic].partitions)
    consumer.assign([confluent_kafka.TopicPartition(topic, number, 0) for number in numbers])
    found, num_ends = [], 0
    while num_ends < len(numbers):
        for one in consumer.consume(100, 0.5):
            num_ends += one.error() is not None
            found += [] if one.error() else [one.value()]
    consumer.close()
    return found


def test_with_transactions_outputs_are_there_once_after_a_crash(broker, tmp_path):
    send(broker, "to-once", 1, 30)
    worker = writing_once(broker, tmp_path, messages=3)
    worker._begin_commit = lambda: None
    read_until(worker, 10)
    worker.close()  # as if it had died: nothing was committed, and outputs and markers are there
    first = len(values(broker, "once"))
    assert 10 <= first < 30
    worker = writing_once(broker, tmp_path, messages=7)
    assert not worker.partitions and worker._written["0"].offset == first
    read_until(worker, 30)
    worker.commit()
    steps = sorted(json.loads(one)["seq"] for one in values(broker, "once"))
    assert steps == list(range(1, 31)), "each output once, though the batches were others"
    assert worker.committed["0"].counts["applied"] == 30
    worker.close()


def test_the_last_marker_of_this_worker_is_found_among_those_of_others(broker, monkeypatch):
    monkeypatch.setattr("paramfilter_streams.kafka_sink.MESSAGES_TO_LOOK_AT", 3)
    for name, offset in (("worker-1", 5), ("worker-1", 8), ("worker-2", 40)):
        sink = KafkaSink(broker, "shared-once", transactional_id=name)
        sink.written()
        sink.write_once([Output("a", 1, b"1")], {"0": Position(offset, "made")})
        sink.close()
    other = KafkaSink(broker, "shared-once", transactional_id="worker-2")
    other.written()
    for number in range(20):
        other.write_once([], {"0": Position(41 + number, "made")})
    other.close()
    assert KafkaSink(broker, "shared-once", transactional_id="worker-1").written() == {"0": Position(8, "made")}
    assert KafkaSink(broker, "shared-once", transactional_id="worker-3").written() == {}
    assert KafkaSink(broker, "shared-once").written() == {}


def test_a_marker_of_a_topic_that_was_made_again_hides_nothing():
    message = Message("0", 5, b"", "made on Monday")
    assert message.is_before(Position(5, "made on Monday")) and not message.is_before(Position(4, "made on Monday"))
    assert not message.is_before(Position(99, "made on Tuesday")) and not message.is_before(None)


def test_a_transaction_that_fails_ends_the_worker(broker):
    sink = KafkaSink(broker, "failing", transactional_id="worker-1")
    with pytest.raises(pf.errors.DataError, match="a transaction of 'worker-1' failed"):
        sink.write_once([Output("a", 1, b"1")], {})  # never initialized

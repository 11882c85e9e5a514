"""Kafka as a log and as a sink, against the broker that librdkafka has for tests."""

import json

import confluent_kafka
import pytest
from tests.support.processes import free_port
from tests.support.streams.toy import HashResidents, line

import paramfilter as pf
from paramfilter_streams import LogUnreachableError, Output, Pace, Position, Store, Worker
from paramfilter_streams.kafka import KafkaLog, KafkaSink


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

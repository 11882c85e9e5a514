"""Kafka as a log, against the broker that librdkafka has for tests."""

import confluent_kafka
import pytest
from tests.support.processes import free_port
from tests.support.service.lines import line

import paramfilter as pf
from paramfilter_service.kafka import KafkaLog
from paramfilter_service.logs import LogUnreachableError, Position


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


def test_events_come_from_a_topic(broker):
    send(broker, "events", 1, 20)
    log = KafkaLog(broker, "events", [0])
    found = messages(log, Position(), 20)
    assert [one.raw for one in found] == [line("a", one, 0.5) for one in range(1, 21)] and log.lag == 0
    assert [one.start.offset for one in found] == list(range(20)) and found[-1].next == Position(20)
    log.close()
    log.close()


def test_partitions_are_asked_for(broker):
    send(broker, "wide", 1, 1)
    log = KafkaLog(broker, "wide")
    assert log.partitions == [str(one) for one in range(len(log.partitions))] and "0" in log.partitions
    log.close()


def test_a_partition_of_another_reader_stays_where_it_is(broker):
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
    monkeypatch.setattr("paramfilter_service.kafka.SHORT_WAIT", 0.5)
    log = KafkaLog(f"127.0.0.1:{free_port()}", "events", settings={"log_level": 0})
    with pytest.raises(LogUnreachableError):
        _ = log.partitions
    log.close()


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (confluent_kafka.KafkaError._ALL_BROKERS_DOWN, LogUnreachableError),
        (confluent_kafka.KafkaError.TOPIC_AUTHORIZATION_FAILED, pf.errors.DataError),
        (confluent_kafka.KafkaError.UNKNOWN_TOPIC_OR_PART, pf.errors.DataError),
    ],
)
def test_only_errors_of_a_connection_are_waited_for(broker, code, kind):
    log = KafkaLog(broker, "events", [0])
    assert isinstance(log._named(confluent_kafka.KafkaError(code)), kind)
    log.close()

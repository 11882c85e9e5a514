"""Kafka, or what speaks its protocol, as the log that events come from and outputs go to.

A topic is one log with the partitions it has; offsets are Kafka's. A worker is given its partitions and reads them from
the offsets in our store. The group's own offsets are moved along after each commit, for those who watch how far a group
is behind; nothing here reads them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from paramfilter.errors import DataError
from paramfilter.extras import extra
from paramfilter_streams.logs import FIRST, Message
from paramfilter_streams.worker import Output

EXTRA = "kafka"
"""The extra that brings confluent-kafka."""

PATIENCE = 60.0
"""Seconds for which a broker may be away before an output counts as failed."""


class KafkaLog:
    """Messages of a topic.

    Args:
        servers: Where the brokers are, such as `127.0.0.1:9092`.
        topic: The topic.
        partitions: The numbers of the partitions that this worker owns; None for all.
        group: The group whose offsets are moved along.
        settings: Any setting of librdkafka, such as those for TLS, or for an old broker.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        partitions: Sequence[int] | None = None,
        group: str = "paramfilter",
        settings: Mapping[str, Any] | None = None,
    ):
        self._kafka = extra("confluent_kafka", EXTRA)
        fixed = {"bootstrap.servers": servers, "group.id": group, "enable.auto.commit": False}
        # An offset that the broker no longer has is an error to be seen, not a reason to skip.
        self._consumer = self._kafka.Consumer({**fixed, "auto.offset.reset": "error", **(settings or {})})
        self.topic = topic
        numbers = self._numbers() if partitions is None else partitions
        self.partitions = [str(number) for number in numbers]
        self._reads_from: dict[str, int] = {}

    def read(self, positions: Mapping[str, int], at_most: int, wait: float) -> list[Message]:
        """Return messages from these offsets on; none if the broker is away."""
        if self._reads_from != positions:
            self._assign(positions)
        got = self._consumer.consume(at_most, wait)
        found = []
        for one in got:
            if one.error():
                self._refuse_if_fatal(one.error())
                continue
            found.append(Message(str(one.partition()), one.offset() + 1, one.value() or b""))
        self._reads_from |= {message.partition: message.next_offset for message in found}
        return found

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Move the group's offsets along."""
        offsets = [self._kafka.TopicPartition(self.topic, int(name), offset) for name, offset in positions.items()]
        with contextlib.suppress(self._kafka.KafkaException):  # it will be told again
            self._consumer.commit(offsets=offsets, asynchronous=True)

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def _assign(self, positions: Mapping[str, int]) -> None:
        begin = self._kafka.OFFSET_BEGINNING
        places = [(int(name), begin if offset == FIRST else offset) for name, offset in positions.items()]
        self._consumer.assign([self._kafka.TopicPartition(self.topic, *place) for place in places])
        self._reads_from = dict(positions)

    def _numbers(self) -> list[int]:
        topic = self._consumer.list_topics(self.topic, timeout=PATIENCE).topics[self.topic]
        if topic.error is not None:
            raise DataError(f"the topic {self.topic!r} cannot be read: {topic.error}.")
        return sorted(topic.partitions)

    def _refuse_if_fatal(self, error: Any) -> None:
        # Brokers that are away come back; offsets that were deleted do not.
        if error.code() in (self._kafka.KafkaError._AUTO_OFFSET_RESET, self._kafka.KafkaError.OFFSET_OUT_OF_RANGE):
            raise DataError(
                f"the topic {self.topic!r} no longer has what comes next: it was deleted before it was read. "
                "Give the topic a longer life; to go on without, begin a new store."
            )
        if error.fatal():
            raise self._kafka.KafkaException(error)


class KafkaSink:
    """Outputs, one message each with the series as its key, so that a compacted topic keeps the last of each series.

    Args:
        servers: Where the brokers are.
        topic: Where outputs go.
        settings: Any setting of librdkafka.
    """

    def __init__(self, servers: str, topic: str, settings: Mapping[str, Any] | None = None):
        kafka = extra("confluent_kafka", EXTRA)
        self._producer = kafka.Producer({"bootstrap.servers": servers, "acks": "all", **(settings or {})})
        self._refused: list[Any] = []
        self.topic = topic

    def write(self, outputs: Sequence[Output]) -> None:
        """Return when the brokers have all of them."""
        for one in outputs:
            while True:
                try:
                    self._producer.produce(self.topic, one.line, one.series, on_delivery=self._heard)
                    break
                except BufferError:
                    self._producer.poll(1.0)
        if self._producer.flush(PATIENCE) or self._refused:
            raise DataError(f"the topic {self.topic!r} did not take all outputs: {self._refused[:1]}.")

    def close(self) -> None:
        """Send what is left."""
        self._producer.flush(PATIENCE)

    def _heard(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused.append(error)

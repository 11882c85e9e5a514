"""Kafka, or what speaks its protocol, as the log that events come from.

A topic is one log with the partitions it has; offsets are Kafka's. A worker is given its partitions and reads them from
the offsets in our store. The group's own offsets are moved along after each commit, for those who watch how far a group
is behind; nothing here reads them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from paramfilter.errors import DataError, extra
from paramfilter_streams.logs import FIRST, WAY_OUT, LogUnreachableError, Message, Position

EXTRA = "kafka"
"""The extra that brings confluent-kafka."""

AWAY = {
    *("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_WAIT_COORD"),
    *("REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "BROKER_NOT_AVAILABLE", "LEADER_NOT_AVAILABLE"),
    *("NOT_LEADER_FOR_PARTITION", "REPLICA_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"),
}
"""Names of errors that pass when a broker comes back, or a partition has another leader."""

SHORT_WAIT = 5.0
"""Seconds for which a broker is asked for its partitions."""


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
        self.lag: int | None = None
        self._given = partitions
        self._reads_from: dict[str, int] = {}

    @property
    def partitions(self) -> Sequence[str]:
        """The partitions that this worker owns; the broker is asked for them when they are first needed."""
        if self._given is None:
            self._given = self._numbers()
        return [str(number) for number in self._given]

    def read(self, positions: Mapping[str, Position], at_most: int, wait: float) -> list[Message]:
        """Return messages from these positions on; partitions that are no longer ours stay where they are."""
        own = {name: positions[name].offset for name in self.partitions}
        if self._reads_from != own:
            self._assign(own)
        got = self._consumer.consume(at_most, wait)
        errors = [one.error() for one in got if one.error() and one.error().name() != "_PARTITION_EOF"]
        for error in errors:
            self._refuse_unless_away(error)
        found = [_message(one) for one in got if not one.error()]
        if errors and not found:
            raise LogUnreachableError(str(errors[0]))
        self._reads_from |= {message.partition: message.next_offset for message in found}
        self.lag = self._behind()
        return found

    def _behind(self) -> int | None:
        """Return how many messages have not been read, as far as the last answers of the broker say."""
        behind = 0
        for name, offset in self._reads_from.items():
            place = self._kafka.TopicPartition(self.topic, int(name))
            first, end = self._consumer.get_watermark_offsets(place, cached=True)
            if end < 0:
                return None
            behind += max(0, end - max(first, offset))
        return behind

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
        try:
            topic = self._consumer.list_topics(self.topic, timeout=SHORT_WAIT).topics[self.topic]
        except self._kafka.KafkaException as error:
            self._refuse_unless_away(error.args[0])
            raise LogUnreachableError(str(error)) from error
        if topic.error is not None:
            self._refuse_unless_away(topic.error)
            raise LogUnreachableError(str(topic.error))
        return sorted(topic.partitions)

    def _refuse_unless_away(self, error: Any) -> None:
        """Raise what does not pass by itself: brokers that are away come back, offsets that were deleted do not."""
        if error.code() in (self._kafka.KafkaError._AUTO_OFFSET_RESET, self._kafka.KafkaError.OFFSET_OUT_OF_RANGE):
            raise DataError(
                f"the topic {self.topic!r} does not hold what comes next: it was deleted before it was read, or the "
                f"topic was made again. Give the topic a longer life. {WAY_OUT}"
            )
        if error.name() not in AWAY:
            raise DataError(f"the topic {self.topic!r} cannot be read: {error}.")


def _message(one: Any) -> Message:
    kind, milliseconds = one.timestamp()  # kind 0: there is none
    return Message(
        str(one.partition()), one.offset() + 1, one.value() or b"", time=milliseconds / 1000 if kind else None
    )

"""Kafka, or what speaks its protocol, as the log that events come from.

A topic is one log with the partitions it has; offsets are Kafka's. Partitions are assigned, not subscribed to, and read
from the positions in our store; the group of the consumer has no offsets of its own.
"""

from typing import Any

import msgspec

from paramfilter.errors import DataError, extra
from paramfilter_service.logs import FIRST, WAY_OUT, Log, LogUnreachableError, Message, Position

AWAY = {
    *("_TRANSPORT", "_ALL_BROKERS_DOWN", "_RESOLVE", "_TIMED_OUT", "_WAIT_COORD"),
    *("REQUEST_TIMED_OUT", "NETWORK_EXCEPTION", "BROKER_NOT_AVAILABLE", "LEADER_NOT_AVAILABLE"),
    *("NOT_LEADER_FOR_PARTITION", "REPLICA_NOT_AVAILABLE", "COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"),
}
"""Names of errors that pass when a broker comes back, or a partition has another leader."""

SHORT_WAIT = 5.0
"""Seconds for which a broker is asked for its partitions."""


class KafkaLog(Log, tag="kafka"):
    """Messages of a topic.

    Args:
        servers: Where the brokers are, such as `127.0.0.1:9092`.
        topic: The topic.
        numbers: The numbers of the partitions to read (the key is `partitions`); None for all.
        settings: Any setting of librdkafka, such as those for TLS, or `group.id`.
    """

    servers: str
    topic: str
    numbers: list[int] | None = msgspec.field(name="partitions", default=None)
    settings: dict[str, Any] = msgspec.field(default_factory=dict)

    def __post_init__(self):
        self._kafka = extra("confluent_kafka", "kafka")
        fixed = {"bootstrap.servers": self.servers, "group.id": "paramfilter", "enable.auto.commit": False}
        # An offset that the broker no longer has is an error to be seen, not a reason to skip.
        self._consumer = self._kafka.Consumer({**fixed, "auto.offset.reset": "error", **self.settings})
        self._reads_from: dict[str, int] = {}
        self.lag = None

    @property
    def partitions(self) -> list[str]:
        """The partitions to read; the broker is asked for them when they are first needed."""
        if self.numbers is None:
            self.numbers = self._all_numbers()
        return [str(number) for number in self.numbers]

    def read(self, positions: dict[str, Position], at_most: int, wait: float) -> list[Message]:
        """Return messages from these positions on; partitions that are not configured stay where they are."""
        own = {name: positions[name].offset for name in self.partitions}
        if self._reads_from != own:
            self._assign(own)
        got = self._consumer.consume(at_most, wait)
        found = [_message(one) for one in got if not one.error()]
        for one in got:
            error = self._named(one.error()) if one.error() and one.error().name() != "_PARTITION_EOF" else None
            if isinstance(error, DataError) or (error and not found):
                raise error
        self._reads_from |= {message.partition: message.next.offset for message in found}
        self.lag = self._behind()
        return found

    def close(self) -> None:
        """Leave the broker."""
        self._consumer.close()

    def _behind(self) -> int | None:
        """Return how many messages have not been read, as far as the last answers of the broker say."""
        place = lambda name: self._kafka.TopicPartition(self.topic, int(name))
        ends = [self._consumer.get_watermark_offsets(place(name), cached=True)[1] for name in self._reads_from]
        behind = [max(0, end - offset) for end, offset in zip(ends, self._reads_from.values(), strict=True)]
        return sum(behind) if min(ends) >= 0 else None

    def _assign(self, offsets: dict[str, int]) -> None:
        begin = self._kafka.OFFSET_BEGINNING
        places = [(int(name), begin if offset == FIRST else offset) for name, offset in offsets.items()]
        self._consumer.assign([self._kafka.TopicPartition(self.topic, *place) for place in places])
        self._reads_from = dict(offsets)

    def _all_numbers(self) -> list[int]:
        try:
            topic = self._consumer.list_topics(self.topic, timeout=SHORT_WAIT).topics[self.topic]
        except self._kafka.KafkaException as error:
            raise self._named(error.args[0]) from error
        if topic.error is not None:
            raise self._named(topic.error)
        return sorted(topic.partitions)

    def _named(self, error: Any) -> Exception:
        """Tell what passes by itself, such as brokers that are away, from offsets that were deleted and the rest."""
        if error.code() in (self._kafka.KafkaError._AUTO_OFFSET_RESET, self._kafka.KafkaError.OFFSET_OUT_OF_RANGE):
            return DataError(
                f"the topic {self.topic!r} does not hold what comes next: it was deleted before it was read, or the "
                f"topic was made again. Give the topic a longer retention. {WAY_OUT}"
            )
        if error.name() in AWAY:
            return LogUnreachableError(str(error))
        return DataError(f"the topic {self.topic!r} cannot be read: {error}.")


def _message(one: Any) -> Message:
    start, end = Position(one.offset()), Position(one.offset() + 1)
    return Message(str(one.partition()), start, one.value() or b"", end)

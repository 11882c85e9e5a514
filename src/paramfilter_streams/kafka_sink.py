"""Kafka as the place where outputs go: written at least once, or with transactions exactly once.

Outputs are written before the commit of the states that they belong to, so a worker that dies in between does the same
steps again. Without transactions it writes the same outputs again. With them:

1. The outputs of a batch and a marker are one transaction. The marker says up to where the log has been read.
2. A worker that starts ends whatever an older one with its id has left open, and reads the last marker.
3. Steps up to the marker are taken again and not written again. They are the same steps, whatever the batches were.

Readers must use `isolation.level=read_committed`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from paramfilter.errors import DataError, extra
from paramfilter_streams.kafka import EXTRA
from paramfilter_streams.logs import Position
from paramfilter_streams.posteriors import Output

PATIENCE = 60.0
"""Seconds for which a broker may be away before an output counts as failed."""

SAFE = {"acks": "all", "enable.idempotence": True}
"""All replicas have an output before it counts, and one that the client sends again is kept once and in order."""

MARKERS = 0
"""The partition that holds the markers of all workers."""

MESSAGES_TO_LOOK_AT = 1000
"""The last marker is looked for among so many messages, then among ten times as many, and so on."""


class KafkaSink:
    """Outputs, one message each with the series as its key, so that a compacted topic keeps the last of each series.

    Args:
        servers: Where the brokers are.
        topic: Where outputs go.
        settings: Any setting of librdkafka.
        transactional_id: A name that belongs to this worker alone and never changes; each output is then there once.
            None writes without transactions.
        marker_topic: Where markers go; it must keep them, for example by compaction. `<topic>-markers` if not given.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        settings: Mapping[str, Any] | None = None,
        transactional_id: str | None = None,
        marker_topic: str | None = None,
    ):
        self._kafka = extra("confluent_kafka", EXTRA)
        self._settings = {"bootstrap.servers": servers, **(settings or {})}
        named = {} if transactional_id is None else {"transactional.id": transactional_id}
        self._producer = self._kafka.Producer({**SAFE, **self._settings, **named})
        self._refused: list[Any] = []
        self.topic, self.transactional_id = topic, transactional_id
        self.marker_topic = marker_topic or f"{topic}-markers"
        self._written: dict[str, Position] = {}

    def written(self) -> dict[str, Position]:
        """Return up to where outputs are there already, by partition of the log; empty without transactions.

        Outputs that an older worker with the same id has left open are dropped, and it can write no more.
        """
        if self.transactional_id is None:
            return {}
        try:
            self._producer.init_transactions(PATIENCE)
            marker = self._last_marker()
        except self._kafka.KafkaException as error:
            raise DataError(f"no transaction of {self.transactional_id!r} can begin: {error.args[0]}.") from error
        self._written = {name: Position(*position) for name, position in marker.items()}
        return dict(self._written)

    def write(self, outputs: Sequence[Output]) -> None:
        """Return when the brokers have all of them."""
        self._send(outputs)
        if self._producer.flush(PATIENCE) or self._refused:
            raise DataError(f"the topic {self.topic!r} did not take all outputs: {self._refused[:1]}.")

    def write_once(self, outputs: Sequence[Output], positions: Mapping[str, Position]) -> None:
        """Return when the brokers have all of them, and the marker that says so."""
        if self.transactional_id is None:
            return self.write(outputs)
        self._written |= positions
        try:
            self._producer.begin_transaction()
            self._send(outputs)
            marker = json.dumps(self._written).encode()
            self._producer.produce(self.marker_topic, marker, self.transactional_id, partition=MARKERS)
            self._producer.commit_transaction(PATIENCE)
        except self._kafka.KafkaException as error:
            raise DataError(
                f"a transaction of {self.transactional_id!r} failed: {error.args[0]}. The next worker drops it "
                "and writes its outputs again. Does another worker use the same transactional_id?"
            ) from error

    def close(self) -> None:
        """Send what is left; a transaction that is open is left to the worker that starts next."""
        if self.transactional_id is None:
            self._producer.flush(PATIENCE)

    def _send(self, outputs: Sequence[Output]) -> None:
        for one in outputs:
            while True:
                try:
                    self._producer.produce(self.topic, one.line, one.series, on_delivery=self._heard)
                    break
                except BufferError:
                    self._producer.poll(1.0)

    def _heard(self, error: Any, message: Any) -> None:
        if error is not None:
            self._refused.append(error)

    def _last_marker(self) -> dict[str, Any]:
        """Return the last committed marker of this worker; empty if there is none."""
        settings = {"group.id": f"{self.transactional_id}-markers", "isolation.level": "read_committed"}
        fixed = {"enable.auto.commit": False, "enable.partition.eof": True, "auto.offset.reset": "earliest"}
        consumer = self._kafka.Consumer({**self._settings, **settings, **fixed})
        try:
            if self.marker_topic not in consumer.list_topics(timeout=PATIENCE).topics:
                return {}
            place = self._kafka.TopicPartition(self.marker_topic, MARKERS)
            first, end = consumer.get_watermark_offsets(place, PATIENCE)
            num_messages = MESSAGES_TO_LOOK_AT
            while first < end:
                begin = max(first, end - num_messages)
                own = self._own(consumer, begin)
                if own or begin == first:
                    return json.loads(own[-1]) if own else {}
                num_messages *= 10
            return {}
        finally:
            consumer.close()

    def _own(self, consumer: Any, begin: int) -> list[bytes]:
        """Return this worker's markers from an offset on."""
        consumer.assign([self._kafka.TopicPartition(self.marker_topic, MARKERS, begin)])
        key, own = str(self.transactional_id).encode(), []
        while True:
            one = consumer.poll(PATIENCE)
            if one is None:
                raise self._kafka.KafkaException(self._kafka.KafkaError(self._kafka.KafkaError._TIMED_OUT))
            if one.error() is None:
                own += [one.value()] if one.key() == key else []
            elif one.error().code() == self._kafka.KafkaError._PARTITION_EOF:
                return own
            else:
                raise self._kafka.KafkaException(one.error())

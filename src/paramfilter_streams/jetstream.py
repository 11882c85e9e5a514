"""NATS JetStream as the log that events come from and outputs go to.

A stream is one log; each subject that a worker reads is a partition, and an offset is a sequence number of the stream.
The consumer on the server is thrown away at every start and after every trouble, and made again at the offset that our
store names: nothing depends on what the server remembers of us. A message is acknowledged once it is durable here,
which only matters to streams that delete what has been acknowledged.

The client speaks asyncio and a worker does not, so the client lives in a thread of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from paramfilter.errors import DataError
from paramfilter.extras import extra
from paramfilter_streams.logs import FIRST, Message
from paramfilter_streams.store import EXTRA
from paramfilter_streams.worker import Output

PATIENCE = 60.0
"""Seconds for which a server may be away before an output counts as failed."""

BYTES_UNDER_WAY = 1 << 20
"""Of outputs that wait for the server's answer; the client refuses to hold more than twice as many."""

PAUSE = 0.1
"""Seconds between attempts to reach a server that is away."""

FORGOTTEN_AFTER = 300.0
"""Seconds after which a server forgets a consumer that nobody reads."""

LONG_AGO = 3600.0
"""Seconds before an unacknowledged message is sent again; those are known by their offsets and dropped."""


class JetStreamLog:
    """Messages of a stream.

    Args:
        servers: Where the servers are, such as `nats://127.0.0.1:4222`.
        stream: The name of the stream.
        subjects: The subjects that are read, each a partition; all events of a series go to one of them.
    """

    def __init__(self, servers: str | Sequence[str], stream: str, subjects: Sequence[str]):
        self.stream, self.partitions = stream, list(subjects)
        self._connection = _Connection(servers)
        self._subscription: Any = None
        self._delivered = 0
        self._replies: dict[int, str] = {}

    def read(self, positions: Mapping[str, int], at_most: int, wait: float) -> list[Message]:
        """Return messages from these offsets on; none if the server is away."""
        try:
            return self._connection.call(self._read(positions, at_most, wait))
        except self._connection.troubles:
            self._subscription = None
            time.sleep(PAUSE)
            return []

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Tell the server that all before these offsets can go."""
        done = max(positions.values())
        replies = [self._replies.pop(offset) for offset in sorted(self._replies) if offset <= done]
        if replies:
            self._connection.post(replies[-1], b"+ACK")

    def close(self) -> None:
        """Leave the server."""
        self._connection.close()

    async def _read(self, positions: Mapping[str, int], at_most: int, wait: float) -> list[Message]:
        if self._subscription is None:
            self._subscription, self._delivered = await self._subscribed(min(positions.values())), 0
        try:
            got = await self._subscription.fetch(at_most, timeout=max(wait, PAUSE))
        except TimeoutError:
            got = []
        if not got:  # the client may also return nothing at all, if it comes too late to hear that there is nothing
            await self._subscription.consumer_info()  # an error if the server has forgotten us
            return []
        # What was under way when a connection broke counts as delivered on the server. Deliveries are numbered without
        # a hole, so a hole means that some were lost: forget this consumer, and make another where we are.
        deliveries = [one.metadata.sequence.consumer for one in got]
        if deliveries != list(range(self._delivered + 1, self._delivered + 1 + len(got))):
            self._subscription = None
            return []
        self._delivered = deliveries[-1]
        numbers = [one.metadata.sequence.stream for one in got]
        self._replies[numbers[-1] + 1] = got[-1].reply
        found = [
            Message(one.subject, number + 1, one.data)
            for one, number in zip(got, numbers, strict=True)
            if number >= positions[one.subject]
        ]
        # Offsets count the messages of all partitions: those who had none have been read as far as the others.
        quiet = positions.keys() - {one.partition for one in found}
        return found + [Message(name, max(numbers[-1] + 1, positions[name]), None) for name in sorted(quiet)]

    async def _subscribed(self, offset: int) -> Any:
        """Make a consumer that begins at an offset."""
        api, streams = extra("nats.js.api", EXTRA), self._connection.streams
        state = (await streams.stream_info(self.stream)).state
        if FIRST < offset < state.first_seq:
            raise DataError(
                f"the stream {self.stream!r} begins at {state.first_seq} and was read up to {offset}: what lies "
                "between was deleted before it was read. Give the stream a longer life; to go on without, begin a new "
                "store."
            )
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=max(1, offset),
            filter_subjects=self.partitions,
            ack_policy=api.AckPolicy.ALL,
            ack_wait=LONG_AGO,
            max_ack_pending=-1,
            inactive_threshold=FORGOTTEN_AFTER,
        )
        consumer = await streams.add_consumer(self.stream, config)
        return await streams.pull_subscribe_bind(consumer=consumer.name, stream=self.stream)


class JetStreamSink:
    """Outputs, many lines a message, to a subject of a stream.

    A message is known by a hash of its content, so that one which is sent again soon is kept once. Later repeats are
    for readers to recognise: a line is known by its series and sequence number.

    Args:
        servers: Where the servers are.
        subject: Where outputs go; a stream must hold it.
        lines_a_message: How many lines share a message.
    """

    def __init__(self, servers: str | Sequence[str], subject: str, lines_a_message: int = 64):
        self.subject, self.lines_a_message = subject, lines_a_message
        self._connection = _Connection(servers)

    def write(self, outputs: Sequence[Output]) -> None:
        """Return when the server has all of them on disk; try again while it is away."""
        lines, size = [one.line for one in outputs], self.lines_a_message
        messages = [b"\n".join(lines[first : first + size]) for first in range(0, len(lines), size)]
        under_way = max(1, BYTES_UNDER_WAY // max(map(len, messages)))
        for first in range(0, len(messages), under_way):
            self._insist(messages[first : first + under_way])

    def _insist(self, messages: list[bytes]) -> None:
        give_up = time.monotonic() + PATIENCE
        while True:
            try:
                self._connection.call(self._publish(messages))
                return
            except self._connection.troubles:
                if time.monotonic() > give_up:
                    raise
                time.sleep(PAUSE)

    def close(self) -> None:
        """Leave the server."""
        self._connection.close()

    def _name_of(self, message: bytes) -> str:
        """Name a message; all subjects of a stream share their names."""
        return hashlib.blake2b(self.subject.encode() + b"\0" + message, digest_size=16).hexdigest()

    async def _publish(self, messages: list[bytes]) -> None:
        streams = self._connection.streams
        await asyncio.gather(
            *(streams.publish(self.subject, one, headers={"Nats-Msg-Id": self._name_of(one)}) for one in messages)
        )


class _Connection:
    """A client in a thread of its own."""

    def __init__(self, servers: str | Sequence[str]):
        nats = extra("nats", EXTRA)
        self.troubles = (nats.errors.Error, TimeoutError, OSError)
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="nats", daemon=True).start()
        self._client = self.call(
            nats.connect(
                servers if isinstance(servers, str) else list(servers),
                max_reconnect_attempts=-1,
                reconnect_time_wait=PAUSE,
                error_cb=_say_nothing,
            )
        )
        self.streams = self._client.jetstream()

    def call(self, coroutine: Coroutine) -> Any:
        """Run a coroutine in the client's thread, and wait for it."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def post(self, subject: str, content: bytes) -> None:
        """Send a message without waiting for it to arrive."""
        asyncio.run_coroutine_threadsafe(self._client.publish(subject, content), self._loop)

    def close(self) -> None:
        """End the client and its thread."""
        self.call(self._client.close())
        self._loop.call_soon_threadsafe(self._loop.stop)


async def _say_nothing(error: Exception) -> None:
    """Leave it to the calls to say what went wrong: the client would print every attempt."""

"""NATS JetStream as the log that events come from and outputs go to.

A stream is one log; each subject that a worker reads is a partition, and an offset is a sequence number of the stream.
The consumer on the server is thrown away at every start and after every trouble, and made again at the offset that our
store names: nothing depends on what the server remembers of us.

The source of an offset is the time at which the stream was made: a stream that was deleted and made again counts from
1 again. A number that is not delivered is that of another subject, or of a message that was deleted, by a limit of the
stream or by hand. If messages beyond our offsets were deleted, the worker stops, since they may have been ours.

The client speaks asyncio and a worker does not, so the client lives in a thread of its own.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import json
import threading
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from paramfilter.errors import DataError, extra
from paramfilter_streams.logs import FIRST, WAY_OUT, LogUnreachableError, Message, Position
from paramfilter_streams.posteriors import Output
from paramfilter_streams.store import EXTRA

PATIENCE = 60.0
"""Seconds for which a server may be away before an output counts as failed."""

BYTES_UNDER_WAY = 1 << 20
"""Of outputs that wait for the server's answer; the client refuses to hold more than twice as many."""

PAUSE = 0.1
"""Seconds between attempts to reach a server that is away."""

FIRST_WAIT = 1.0
"""Seconds for which a call waits for the first connection."""

FORGOTTEN_AFTER = 300.0
"""Seconds after which a server forgets a consumer that nobody reads."""

ATTEMPTS = 5
"""How often a consumer may be refused in a row before that is an error: servers forget, or change their leader."""

LONG_AGO = 3600.0
"""Seconds before an unacknowledged message is sent again; those are known by their offsets and dropped."""


class JetStreamLog:
    """Messages of a stream, which must keep them by limits: work queues forget.

    Args:
        servers: Where the servers are, such as `nats://127.0.0.1:4222`.
        stream: The name of the stream.
        subjects: The subjects that are read, each a partition and without wildcards; all events of a series go to one
            of them.
    """

    def __init__(self, servers: str | Sequence[str], stream: str, subjects: Sequence[str]):
        if isinstance(subjects, str) or not subjects or any({"*", ">"} & set(one.split(".")) for one in subjects):
            raise DataError(
                f"subjects must be a list of names without wildcards, got {subjects!r}; each is a partition."
            )
        self.stream, self.partitions = stream, list(subjects)
        self.lag: int | None = None
        self._connection = _Connection(servers)
        self._subscription: Any = None
        self._source = ""
        self._delivered = self._refused = 0
        self._replies: dict[int, str] = {}

    def read(self, positions: Mapping[str, Position], at_most: int, wait: float) -> list[Message]:
        """Return messages from these positions on; subjects that are no longer read stay where they are."""
        own = {name: positions[name] for name in self.partitions}
        try:
            return self._connection.call(self._read(own, at_most, wait))
        except self._connection.away as error:
            self._subscription = None
            raise LogUnreachableError(str(error)) from error
        except self._connection.troubles as error:
            raise DataError(f"the stream {self.stream!r} cannot be read: {error}.") from error

    def position(self, offset: int) -> Position:
        """Return the position of a sequence number of the stream as it is now.

        Args:
            offset: The number of a message, or one more than that of the last.
        """
        return Position(offset, self._connection.call(self._about())["created"])

    def acknowledge(self, positions: Mapping[str, int]) -> None:
        """Tell the server that all before these offsets can go."""
        done = max(positions.values())
        replies = [self._replies.pop(offset) for offset in sorted(self._replies) if offset <= done]
        if replies:
            self._connection.post(replies[-1], b"+ACK")

    def close(self) -> None:
        """Leave the server."""
        self._connection.close()

    async def _read(self, positions: Mapping[str, Position], at_most: int, wait: float) -> list[Message]:
        if self._subscription is None:
            await self._subscribe(positions)
        try:
            got = await self._fetched(at_most, wait)
        except self._connection.refusals:  # by a server that has forgotten our consumer, which is then made again
            self._subscription, self._refused = None, self._refused + 1
            if self._refused >= ATTEMPTS:
                raise
            return []
        self._refused = 0
        # What was under way when a connection broke counts as delivered on the server. Deliveries are numbered without
        # a hole, so a hole means that some were lost: forget this consumer, and make another where we are.
        deliveries = [one.metadata.sequence.consumer for one in got]
        if deliveries != list(range(self._delivered + 1, self._delivered + 1 + len(got))):
            self._subscription = None
            return []
        if not got:
            return []
        numbers = [one.metadata.sequence.stream for one in got]
        end = max(numbers) + 1
        await self._require_all(positions, end, set(numbers))
        self._delivered, self.lag = deliveries[-1], got[-1].metadata.num_pending
        self._replies[end] = got[-1].reply
        found = [
            Message(one.subject, number + 1, one.data, self._source, one.metadata.timestamp.timestamp())
            for one, number in zip(got, numbers, strict=True)
            if number >= positions[one.subject].offset
        ]
        # Offsets count the messages of all partitions: each has been read as far as the last message of any.
        reached = {name: one.offset for name, one in positions.items()} | {
            one.partition: one.next_offset for one in found
        }
        behind = [name for name, offset in reached.items() if offset < end]
        return found + [Message(name, end, None, self._source) for name in behind]

    async def _fetched(self, at_most: int, wait: float) -> list[Any]:
        try:
            got = await self._subscription.fetch(at_most, timeout=max(wait, PAUSE))
        except TimeoutError:
            got = []
        if not got:  # the client may also return nothing at all, if it comes too late to hear that there is nothing
            self.lag = (await self._subscription.consumer_info()).num_pending  # an error if the server has forgotten us
        return got

    async def _subscribe(self, positions: Mapping[str, Position]) -> None:
        """Make a consumer that begins at the lowest offset, if the stream holds all that comes next."""
        api, streams = extra("nats.js.api", EXTRA), self._connection.streams
        about = await self._about()
        if about["config"]["retention"] != api.RetentionPolicy.LIMITS:
            raise DataError(
                f"the stream {self.stream!r} has the retention {about['config']['retention']!r} and may delete what a "
                "worker has to read again; use a stream with the retention 'limits'."
            )
        last, self._source = about["state"]["last_seq"], about["created"]
        for name, position in positions.items():
            if position.offset != FIRST and (position.source != self._source or position.offset > last + 1):
                raise DataError(
                    f"{name!r} was read up to {position.offset} of the stream {self.stream!r} of {position.source}; "
                    f"the stream there now is of {self._source} and ends at {last}. It was made again, or restored "
                    f"from a copy. {WAY_OUT}"
                )
        await self._require_all(positions, last + 1, set())
        config = api.ConsumerConfig(
            deliver_policy=api.DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=max(1, min(one.offset for one in positions.values())),
            filter_subjects=self.partitions,
            ack_policy=api.AckPolicy.ALL,
            ack_wait=LONG_AGO,
            max_ack_pending=-1,
            inactive_threshold=FORGOTTEN_AFTER,
        )
        consumer = await streams.add_consumer(self.stream, config)
        self._subscription = await streams.pull_subscribe_bind(consumer=consumer.name, stream=self.stream)
        self._delivered = 0

    async def _require_all(self, positions: Mapping[str, Position], end: int, seen: set[int]) -> None:
        """Refuse to go on to `end` if something between was deleted and not seen; a new partition has no past."""
        begin = min((one.offset for one in positions.values() if one.offset != FIRST), default=end)
        if all(number in seen for number in range(begin, end)):
            return
        state = (await self._about())["state"]
        deleted = []
        if state.get("num_deleted"):
            deleted = (await self._about(deleted_details=True))["state"].get("deleted") or ()
        gone = itertools.chain(range(begin, min(end, state["first_seq"])), deleted)
        lost = next((number for number in gone if begin <= number < end and number not in seen), None)
        if lost is not None:
            raise DataError(
                f"message {lost} of the stream {self.stream!r} and maybe others were deleted before they were read. "
                "Raise the limits of the stream; if it deletes by subject, let it hold no subjects but those of this "
                f"worker. {WAY_OUT}"
            )

    async def _about(self, **request: Any) -> dict[str, Any]:
        """Return what the server says of the stream; the client's own function cannot ask for deleted messages."""
        answer = await self._connection.request(f"$JS.API.STREAM.INFO.{self.stream}", json.dumps(request).encode())
        found = json.loads(answer.data)
        if "error" in found:
            extra("nats.js.errors", EXTRA).APIError.from_error(found["error"])
        return found


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
    """A client in a thread of its own. It connects when it can; a call before that finds the server away."""

    def __init__(self, servers: str | Sequence[str]):
        errors, refused = extra("nats.errors", EXTRA), extra("nats.js.errors", EXTRA)
        self.troubles = (errors.Error, TimeoutError, OSError)
        self.refusals = (refused.APIError,)
        self.away = (
            *(TimeoutError, OSError, errors.NoRespondersError, errors.StaleConnectionError, errors.NoServersError),
            *(errors.ConnectionClosedError, errors.ConnectionReconnectingError, errors.OutboundBufferLimitError),
            *(refused.ServiceUnavailableError, refused.ServerError),
        )
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, name="nats", daemon=True).start()
        self._client = extra("nats.aio.client", EXTRA).Client()
        self.streams = self._client.jetstream()
        self.request = self._client.request
        self._connecting = asyncio.run_coroutine_threadsafe(
            self._client.connect(
                servers if isinstance(servers, str) else list(servers),
                max_reconnect_attempts=-1,
                reconnect_time_wait=PAUSE,
                error_cb=_say_nothing,
            ),
            self._loop,
        )

    def call(self, coroutine: Coroutine) -> Any:
        """Run a coroutine in the client's thread, and wait for it."""
        try:
            self._connecting.result(FIRST_WAIT)
        except BaseException:
            coroutine.close()
            raise
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop).result()

    def post(self, subject: str, content: bytes) -> None:
        """Send a message without waiting for it to arrive."""
        asyncio.run_coroutine_threadsafe(self._client.publish(subject, content), self._loop)

    def close(self) -> None:
        """End the client and its thread."""
        self._connecting.cancel()
        asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)


async def _say_nothing(error: Exception) -> None:
    """Leave it to the calls to say what went wrong: the client would print every attempt."""

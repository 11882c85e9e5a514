"""NATS JetStream as the log that events come from.

A stream is one log; each subject that is read is a partition, and an offset is a sequence number of the stream. The
consumer on the server is discarded at every start and after every error, and made again at the offset of our store:
nothing depends on what the server remembers of us.

The source of an offset is the time at which the stream was made: a stream that was deleted and made again counts from
1 again. A number that is not delivered belongs to another subject, or to a message that was deleted, by a limit of the
stream or by hand. If messages beyond our offsets were deleted, the service stops, since they may have been ours.

The client is asyncio code and our worker is not: its event loop runs while the worker reads, and sleeps meanwhile.
"""

import asyncio
import itertools
import json
from typing import Any

from paramfilter.errors import DataError, extra
from paramfilter_service.logs import FIRST, WAY_OUT, Log, LogUnreachableError, Message, Position

EXTRA = "nats"
"""The extra that brings nats-py."""

PAUSE = 0.1
"""Seconds between attempts to reach a server that is away."""

FIRST_WAIT = 1.0
"""Seconds for which a call waits for the first connection."""

FORGOTTEN_AFTER = 300.0
"""Seconds after which a server forgets a consumer that nobody reads."""


class JetStreamLog(Log, tag="jetstream"):
    """Messages of a stream, which must keep them by limits: work queues forget.

    Args:
        servers: Where the servers are, such as `nats://127.0.0.1:4222`; one or a list.
        stream: The name of the stream.
        subjects: The subjects that are read, each a partition and without wildcards; all events of a series belong in
            one of them.
    """

    servers: str | list[str]
    stream: str
    subjects: list[str]

    def __post_init__(self):
        if not self.subjects or any({"*", ">"} & set(one.split(".")) for one in self.subjects):
            raise DataError(f"subjects must be a list of names without wildcards, got {self.subjects!r}.")
        self._errors, self._refusals = extra("nats.errors", EXTRA), extra("nats.js.errors", EXTRA)
        self._client = extra("nats.aio.client", EXTRA).Client()
        self._loop = asyncio.new_event_loop()
        options = {"max_reconnect_attempts": -1, "reconnect_time_wait": PAUSE, "error_cb": _say_nothing}
        self._connecting = self._loop.create_task(self._client.connect(self.servers, **options))
        self._loop.run_until_complete(asyncio.sleep(0))  # begins to connect
        self._subscription: Any = None
        self._source, self._delivered, self.lag = "", 0, None

    @property
    def partitions(self) -> list[str]:
        """The subjects."""
        return self.subjects

    def read(self, positions: dict[str, Position], at_most: int, wait: float) -> list[Message]:
        """Return messages from these positions on; subjects that are not configured stay where they are."""
        own = {name: positions[name] for name in self.subjects}
        try:
            return self._loop.run_until_complete(self._read(own, at_most, wait))
        except (self._errors.Error, TimeoutError, OSError) as error:
            self._subscription = None
            if (getattr(error, "code", None) or 500) < 500:  # an answer of the server that will be the same again
                raise DataError(f"the stream {self.stream!r} cannot be read: {error}.") from error
            raise LogUnreachableError(f"the server of {self.stream!r} does not answer: {error!r}") from error

    def close(self) -> None:
        """Leave the server."""
        if not self._loop.is_closed():
            self._connecting.cancel()
            self._loop.run_until_complete(self._client.close())
            self._loop.close()

    async def _read(self, positions: dict[str, Position], at_most: int, wait: float) -> list[Message]:
        await asyncio.wait_for(asyncio.shield(self._connecting), FIRST_WAIT)
        if self._subscription is None:
            await self._subscribe(positions)
        try:
            got = await self._fetched(at_most, wait)
        except self._refusals.APIError:  # by a server that has forgotten our consumer, which is then made again
            self._subscription = None
            return []
        # What was under way when a connection broke counts as delivered on the server. Deliveries are numbered without
        # a hole, so a hole means that some were lost: discard this consumer, and make another where we are.
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
        at = lambda number: Position(number, self._source)
        found = [
            Message(one.subject, at(number), one.data, at(number + 1))
            for one, number in zip(got, numbers, strict=True)
            if number >= positions[one.subject].offset
        ]
        # Offsets count the messages of all partitions: each has been read as far as the last message of any.
        reached = dict(positions) | {one.partition: one.next for one in found}
        behind = [(name, one) for name, one in reached.items() if one.offset < end]
        return found + [Message(name, one, None, at(end)) for name, one in behind]

    async def _fetched(self, at_most: int, wait: float) -> list[Any]:
        try:
            got = await self._subscription.fetch(at_most, timeout=max(wait, PAUSE))
        except TimeoutError:
            got = []
        if not got:  # the client may also return nothing at all, if it comes too late to hear that there is nothing
            self.lag = (await self._subscription.consumer_info()).num_pending  # an error if the server has forgotten us
        return got

    async def _subscribe(self, positions: dict[str, Position]) -> None:
        """Make a consumer that begins at the lowest offset, if the stream holds all that comes next."""
        api, streams = extra("nats.js.api", EXTRA), self._client.jetstream()
        about = await self._about()
        if (kind := about["config"]["retention"]) != api.RetentionPolicy.LIMITS:
            raise DataError(
                f"the stream {self.stream!r} has the retention {kind!r} and deletes what was read; use limits."
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
        start = max(1, min(one.offset for one in positions.values()))
        where = {"deliver_policy": api.DeliverPolicy.BY_START_SEQUENCE, "opt_start_seq": start}
        wanted = {"filter_subjects": self.subjects, "ack_policy": api.AckPolicy.NONE}
        config = api.ConsumerConfig(**where, **wanted, inactive_threshold=FORGOTTEN_AFTER)
        consumer = await streams.add_consumer(self.stream, config)
        self._subscription = await streams.pull_subscribe_bind(consumer=consumer.name, stream=self.stream)
        self._delivered = 0

    async def _require_all(self, positions: dict[str, Position], end: int, seen: set[int]) -> None:
        """Refuse to go on to `end` if something between was deleted and not seen; a new partition has no past."""
        begin = min((one.offset for one in positions.values() if one.offset != FIRST), default=end)
        if all(number in seen for number in range(begin, end)):
            return
        state = (await self._about(deleted_details=True))["state"]
        gone = itertools.chain(range(begin, min(end, state["first_seq"])), state.get("deleted") or ())
        lost = next((number for number in gone if begin <= number < end and number not in seen), None)
        if lost is not None:
            raise DataError(
                f"message {lost} of the stream {self.stream!r} and maybe others were deleted before they were read. "
                "Raise the limits of the stream; if it deletes by subject, let it hold no subjects but those that "
                f"are read here. {WAY_OUT}"
            )

    async def _about(self, **request: Any) -> dict[str, Any]:
        """Return what the server says of the stream; the client's own function cannot ask for deleted messages."""
        answer = await self._client.request(f"$JS.API.STREAM.INFO.{self.stream}", json.dumps(request).encode())
        found = json.loads(answer.data)
        if "error" in found:
            self._refusals.APIError.from_error(found["error"])
        return found


async def _say_nothing(error: Exception) -> None:
    """Leave it to the calls to say what went wrong: the client would print every attempt."""

"""From a log of events to posteriors, exactly once.

    read -> parse -> order -> step -> write outputs -> commit -> acknowledge

The promise: each accepted event changes its series' state exactly once, in the order of its sequence number. State,
position and random key are one atomic record. After any crash the worker goes on from the last commit and gives the
same bits as one that never crashed: what it had done since is done again, from the same states, on the same events.
Every event ends as applied, missing, duplicate, late or quarantined, and the five counts add up to the events
received (less those that still wait for one before them).

A worker owns its store, and through it the partitions it reads. Outputs are written before the commit, so they may be
written twice after a crash; each is known by series and sequence number, and the second is the same as the first.

A commit is a copy of what has changed, and is written while the next batch is worked on (`commits`); the log hears of
it when it is durable.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from paramfilter.errors import DataError, StoreError
from paramfilter_streams.batches import Batch
from paramfilter_streams.commits import Committer
from paramfilter_streams.events import LARGEST_EVENT, Event, RefusedEvent
from paramfilter_streams.histogram import Histogram
from paramfilter_streams.logs import Log, LogUnreachableError, Message, Position
from paramfilter_streams.ordering import Fate, Ledger, Rules, Step
from paramfilter_streams.posteriors import Output, Posterior, Sink, WritesOnce, outputs_of, packed, unpacked
from paramfilter_streams.presence import Limits, Presence
from paramfilter_streams.records import Commit, Partition, Quarantined
from paramfilter_streams.residents import Residents
from paramfilter_streams.store import DiskFullError, Store

SIDE_FATES = (Fate.LATE, Fate.QUARANTINED)
"""Events whose lines are put aside."""


@dataclass(frozen=True)
class Pace:
    """How much is done at a time.

    Args:
        messages: How many messages are read at once.
        seconds_between_commits: 0 commits after every batch; more lets states be written less often, and more be done
            again after a crash.
        seconds_to_wait: For the first message of a batch.
        filled_steps: A batch ends after the message in which it has taken more than so many steps without an event.
        most_quarantined: The share of events that may be quarantined before the worker stops, once there are a
            thousand.
    """

    messages: int = 256
    seconds_between_commits: float = 0.0
    seconds_to_wait: float = 0.5
    filled_steps: int = 1000
    most_quarantined: float = 1.0


class Worker[States: Residents]:
    """Takes the events of a log to durable posteriors.

    Args:
        residents: The states.
        log: Where events come from.
        store: Where states and positions are kept; it must be open for these residents.
        sink: Where outputs go too, or None.
        rules: What to do with events out of order.
        pace: How much is done at a time.
        limits: How many series there may be, and for how long.
    """

    def __init__(
        self,
        residents: States,
        log: Log,
        store: Store,
        sink: Sink | None = None,
        rules: Rules = Rules(),
        pace: Pace = Pace(),
        limits: Limits = Limits(),
    ):
        if residents.parser.inputs_shape is not None and rules.fill_gaps:
            raise DataError(
                "this model is told inputs, and those of a step that never came are not known; "
                "use Rules(fill_gaps=False, reorder=...)."
            )
        self.residents, self.log, self.store, self.sink = residents, log, store, sink
        self.rules, self.pace, self.limits = rules, pace, limits
        self.is_ready = False
        self.delays: list[float] = []
        """Seconds from each event's `at` to its commit, of the last that became durable."""
        self._changes = _Changes()
        self._committer, self._made_at = Committer(store), []
        self._presence = Presence(residents, store, limits)
        self._under_way: frozenset[str] = frozenset()
        self._partitions: dict[str, Partition] = {}
        self._committed: dict[str, Partition] = {}
        self._left: Sequence[Message] = ()
        self._last_commit = -math.inf
        self.last_read: float | None = None
        """When the log last answered, in seconds of the wall clock; None if it has not yet."""
        self._written: Mapping[str, Position] = {}
        self._failure: BaseException | None = None

    def recover(self) -> None:
        """Take up the last commit, and compile; then the worker is ready."""
        with self._failing_for_good():
            self._partitions = self.store.partitions()
            self._committed = self.partitions
            if isinstance(self.sink, WritesOnce):
                self._written = self.sink.written()
            self._presence.recover(self._partitions)
            self.residents.warm_up()
            self.is_ready = True

    def run(self, should_stop: Callable[[], bool], until_idle: bool = False) -> None:
        """Work until told to stop; then what has been read is made durable.

        Args:
            should_stop: Asked between batches.
            until_idle: Stop when the log has nothing more to say.
        """
        if not self.is_ready:
            self.recover()
        while not should_stop():
            num_messages = self.work_once()
            if until_idle and not num_messages:
                break
        self.commit()

    def work_once(self) -> int:
        """Read one batch and take it in; commit if it is time to. Return how many messages there were."""
        with self._failing_for_good():
            if self.cannot_commit:  # nothing more is read while nothing can be kept
                time.sleep(self.pace.seconds_to_wait)
                self._settle_if_there_is_room()
                return 0
            if self._committer.is_idle:
                self._settle_if_there_is_room()
            messages = self._left or self._read()
            num_taken = self._take_in(messages) if messages else 0
            self._left = messages[num_taken:]
            if self._changes and time.monotonic() - self._last_commit >= self.pace.seconds_between_commits:
                self._settle_if_there_is_room()
                if not self.cannot_commit:
                    self._begin_commit()
            return num_taken

    def commit(self) -> None:
        """Make everything taken in so far durable, and tell the log.

        Raises:
            DiskFullError: There is no room; what was taken in is kept, and can be committed later.
        """
        with self._failing_for_good():
            self._settle()
            if self._changes:
                self._begin_commit()
                self._settle()

    def close(self) -> None:
        """Let go of log, sink and store. A commit under way is finished; what was taken in since will be read again."""
        self._committer.close()
        for part in (self.log, self.sink, self.store):
            if part is not None:
                part.close()

    @property
    def cannot_commit(self) -> str:
        """Why the last commit failed; empty if all is well."""
        return self._committer.has_no_room

    @property
    def commit_seconds(self) -> Histogram:
        """How long commits took to reach the disk."""
        return self._committer.seconds

    @property
    def not_ready(self) -> str:
        """Why the worker does not take in events; empty if it does."""
        if self.cannot_commit:
            return "cannot write to disk"
        if not self.is_ready:
            return "starting"
        return "waiting for the log" if self.last_read is None else ""

    @property
    def partitions(self) -> dict[str, Partition]:
        """A copy of what is known of each partition, committed or not."""
        return {name: one.copy() for name, one in list(self._partitions.items())}

    @property
    def committed(self) -> dict[str, Partition]:
        """What is durable of each partition; after a crash no count is lower than it was here."""
        return dict(self._committed)

    def latest(self, name: str) -> list[Posterior]:
        """Return the last durable posteriors of a series, in order; none if there is no such series."""
        with self.store.reading():
            return sorted(unpacked(content, self.residents.columns) for content in self.store.posteriors(name))

    def newest(self, names: Iterable[str]) -> dict[str, Posterior]:
        """Return the last durable posterior of some series; a series without a posterior is left out."""
        found = {}
        with self.store.reading():
            for name in names:
                ledger = self._presence.ledgers.get(name)
                content = None if ledger is None else self.store.posterior(name, ledger.sequence)
                posterior = None if content is None else unpacked(content, self.residents.columns)
                if ledger is None or posterior is None or posterior.sequence != ledger.sequence:
                    posterior = next(reversed(self.latest(name)), None)  # the last steps are not durable yet
                if posterior is not None:
                    found[name] = posterior
        return found

    def _begin_commit(self) -> None:
        """Hand over a copy of what has changed."""
        changes, self._changes = self._changes, _Changes()
        rows, self._under_way = self._presence.rows(sorted(changes.series)), frozenset(changes.series)
        moved = {name: self._partitions[name].copy() for name in changes.partitions}
        posteriors = [(name, number, content) for (name, number), content in changes.posteriors.items()]
        self._committer.begin(Commit(rows, moved, posteriors, changes.quarantined))
        self._last_commit, self._made_at = time.monotonic(), changes.made_at

    def _settle(self) -> None:
        """Wait until the commit under way is durable, and tell the log."""
        durable = self._committer.wait()
        if durable is not None:
            self.delays = [durable.since - at for at in self._made_at]
            self._committed = {**self._committed, **durable.commit.partitions}
            self._under_way = frozenset()
            self._presence.saved(self._changes.series)
            self.log.acknowledge({name: one.offset for name, one in durable.commit.partitions.items()})

    def _settle_if_there_is_room(self) -> None:
        with contextlib.suppress(DiskFullError):  # `cannot_commit` says so
            self._settle()

    @contextlib.contextmanager
    def _failing_for_good(self) -> Iterator[None]:
        """Refuse to go on after a failure: states may be a step ahead of their ledgers, or behind."""
        if self._failure is not None:
            raise StoreError(
                f"this worker has failed ({type(self._failure).__name__}: {self._failure}), so what it holds in memory "
                "may be wrong. Close it, and open the store with a new worker, which goes on from the last commit."
            ) from self._failure
        try:
            yield
        except DiskFullError:  # nothing was written, and the same commit can be tried again
            raise
        except BaseException as error:
            self._failure = error
            raise

    def _read(self) -> Sequence[Message]:
        """Return the next messages of the log; none if it is away."""
        try:
            for name in self.log.partitions:
                if self._partitions.setdefault(name, Partition()).is_gone:
                    raise DataError(
                        f"the partition {name!r} was moved from the store at {self.store.path} to another, which owns "
                        "it now. Take it out of the configuration of this worker."
                    )
            positions = {name: one.position for name, one in self._partitions.items() if not one.is_gone}
            messages = self.log.read(positions, self.pace.messages, self.pace.seconds_to_wait)
        except LogUnreachableError:
            time.sleep(self.pace.seconds_to_wait)
            return ()
        self.last_read = time.time()
        return messages

    def _take_in(self, messages: Sequence[Message]) -> int:
        """Order the events of messages, take their steps in rounds of one a series; return how many messages."""
        batch = Batch()
        for message in messages:
            lines = () if message.raw is None else message.raw.removesuffix(b"\n").split(b"\n")
            is_full = batch.num_filled > self.pace.filled_steps or not self._presence.has_room_for(len(lines))
            if batch.num_messages and is_full:
                break
            batch.num_messages += 1
            partition = self._partitions[message.partition]
            is_written = message.is_before(self._written.get(message.partition))
            for line in lines:
                partition.received += 1
                self._take_line(partition, message, line, batch, is_written)
            partition.offset, partition.source = message.next_offset, message.source
            self._changes.partitions.add(message.partition)
        self._presence.settle(self._changes.series | self._under_way)
        outputs: list[Output] = []
        for starting, steps in batch.rounds:
            if starting:
                self.residents.start(starting)
            if steps:
                outputs += self._take_steps(steps)
        if outputs := [one for one in outputs if (one.series, one.sequence) not in batch.repeated]:
            self._write(outputs, {one.partition: one.next for one in messages[: batch.num_messages]})
        self._stop_if_poisoned()
        return batch.num_messages

    def _write(self, outputs: Sequence[Output], positions: Mapping[str, Position]) -> None:
        if isinstance(self.sink, WritesOnce):
            self.sink.write_once(outputs, positions)
        elif self.sink is not None:
            self.sink.write(outputs)

    def _take_line(self, partition: Partition, message: Message, line: bytes, batch: Batch, is_written: bool) -> None:
        """Enter a line into the books, and the steps that it allows into the batch."""
        try:
            event = self.residents.parser.parse(line)
            ledger = self._ledger(event, partition, message.partition)
        except RefusedEvent as error:
            self._end(partition, message.partition, Fate.QUARANTINED, str(error), line)
            return
        arrival = self.rules.arrive(ledger, event)
        if arrival.fate is not None:
            self._end(partition, message.partition, arrival.fate, arrival.reason, line)
            return
        self._changes.series.add(event.series)
        if self.limits.forget_after is not None and ledger.has_been_idle(message.time, self.limits.forget_after):
            batch.start(event.series)
        for step in arrival.steps:
            batch.add(event.series, step, is_written)
            if step.event is None or step.fate is None:
                partition.filled += 1
                continue
            partition.counts[step.fate] += 1
            if step.event.at is not None:
                self._changes.made_at.append(step.event.at)

    def _ledger(self, event: Event, partition: Partition, where: str) -> Ledger:
        ledger = self._presence.find(event.series)
        if ledger is None:
            if partition.has_given(event.series):
                raise DataError(
                    f"{where!r} holds an event of the series {event.series!r}, whose key group was moved to another "
                    "partition. Let producers send it there; if the move came too early, move the group back."
                )
            ledger = self._presence.add(event.series, where)
            partition.num_series += 1
            self._changes.series.add(event.series)
        if ledger.partition != where:
            raise RefusedEvent("the events of its series come from another partition")
        return ledger

    def _end(self, partition: Partition, where: str, fate: Fate, reason: str, line: bytes) -> None:
        """Count an event that takes no step, and put it aside if it should be kept."""
        if fate in SIDE_FATES:
            number = sum(partition.counts[one] for one in SIDE_FATES)
            self._changes.quarantined.append(Quarantined(where, number, reason or fate, line[:LARGEST_EVENT]))
        partition.counts[fate] += 1

    def _take_steps(self, steps: list[tuple[str, Step]]) -> list[Output]:
        """Take one step of some series, and return what is to be said of them."""
        nothing = [math.nan] * math.prod(self.residents.parser.y_shape)
        ys = [nothing if step.event is None else step.event.y for _, step in steps]
        inputs = [None if step.event is None else step.event.inputs for _, step in steps]
        figures = self.residents.step([name for name, _ in steps], ys, inputs)
        self._changes.posteriors |= packed(steps, figures)
        return [] if self.sink is None else outputs_of(steps, figures, self.residents.columns)

    def _stop_if_poisoned(self) -> None:
        received = sum(one.received for one in self._partitions.values())
        refused = sum(one.counts[Fate.QUARANTINED] for one in self._partitions.values())
        if received >= ENOUGH_TO_JUDGE and refused > self.pace.most_quarantined * received:
            raise DataError(
                f"{refused} of {received} events were quarantined, more than "
                f"most_quarantined={self.pace.most_quarantined} allows. What is committed stays; look at the "
                "quarantine before you start again."
            )


ENOUGH_TO_JUDGE = 1000
"""Events before a share of them says something."""


class _Changes:
    """What has happened since the last commit."""

    def __init__(self):
        self.series: set[str] = set()
        self.partitions: set[str] = set()
        self.posteriors: dict[tuple[str, int], bytes] = {}
        self.quarantined: list[Quarantined] = []
        self.made_at: list[float] = []

    def __bool__(self) -> bool:
        return bool(self.partitions)

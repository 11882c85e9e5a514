"""From a log of events to posteriors, each event once.

    read -> parse -> StateTable.advance -> commit

The states of the series of a batch are read from the store, advanced, and written back in the transaction that holds
the positions after the batch. Nothing of a series stays in memory between two batches, so memory depends on the size
of a batch and not on the number of series, and a batch that failed or was killed is simply done again: the random
numbers of a step depend on the seed, the series and its number, so it gives the same bytes.

Every event ends as applied, missing, duplicate, late or quarantined, and the five counts add up to the events received,
less those that still wait for one before them. Outputs are rows with the key (series, seq), the same if made again.
"""

import logging
import time
from collections import Counter

import msgspec
import numpy as np
import pyarrow as pa

from paramfilter.errors import DataError
from paramfilter.tables import Fate, StateTable
from paramfilter.tables.arriving import Books
from paramfilter.tables.rows import pc
from paramfilter_service.events import LARGEST_EVENT, Parser
from paramfilter_service.logs import WAY_OUT, Log, LogUnreachableError, Message, Position
from paramfilter_service.store import Commit, Store, StoreUnavailableError

LOGGER = logging.getLogger(__name__)


class Batch(msgspec.Struct, forbid_unknown_fields=True, frozen=True):
    """How much is done at a time; these bound memory and time of a batch, whatever the log holds.

    Args:
        messages: How many messages are read at once.
        events: How many lines a batch has; it may end inside a message.
        steps: How many steps a batch may take with those that fill gaps; one event always goes through.
        wait: For how many seconds to wait for the first message.
    """

    messages: int = 256
    events: int = 10_000
    steps: int = 100_000
    wait: float = 0.5


class Worker:
    """Process the events of a log.

    Args:
        table: The filter of each series.
        log: Where events come from.
        store: The store, which is opened for this table.
        batch: How much is done at a time.

    Attributes:
        counts: What has been committed: events received, by fate, that wait; filled steps, series, batches.
        delays: Seconds from the `at` of each event of the last batch to its commit.
        last_read: When the log last answered, in seconds of the wall clock; None if it has not yet.
        not_ready: Why the worker does not take in events; empty if it does.
    """

    def __init__(self, table: StateTable, log: Log, store: Store, batch: Batch = Batch()):
        self.table, self.log, self.store, self.batch = table, log, store, batch
        store.open(table.empty(), table.output_schema.names[2:])
        table.require_own(store.states(pa.array([], pa.string())))
        self._positions, counts = store.progress()
        self.counts = Counter(counts)
        self.delays = np.zeros(0)
        self.commit_seconds = 0.0
        self.last_read: float | None = None
        self.not_ready = "starting"
        self._left: list[Message] = []
        self._most = batch.events  # lines of the next batch: fewer after one that would have made too many steps
        self._pending: tuple[Commit, np.ndarray, list[Message]] | None = None
        self._parser = Parser(table.event_schema)

    def work_once(self) -> int:
        """Process and commit one batch, or try again what could not be committed; return the number of lines."""
        if self._pending is None:
            self._left = self._left or self._read()
            if not self._left:
                return 0
            self._pending = self._advanced()
        commit, made_at, left = self._pending
        began = time.perf_counter()
        try:
            self.store.commit(commit)
        except StoreUnavailableError as error:
            self._wait("cannot write to the store", error)
            return 0
        self.commit_seconds, self.delays = time.perf_counter() - began, time.time() - made_at
        num_lines = commit.counts["received"] - self.counts["received"]
        self.counts, self.not_ready = Counter(commit.counts), ""
        self._positions, self._left, self._pending = commit.positions, left, None
        return num_lines

    def close(self) -> None:
        """Close log and store; what was not committed will be read again. A second call does nothing."""
        self.log.close()
        self.store.close()

    def _read(self) -> list[Message]:
        """Return the next messages of the log; none if it does not answer."""
        try:
            here = dict.fromkeys(self.log.partitions, Position())
            messages = self.log.read(here | self._positions, self.batch.messages, self.batch.wait)
        except LogUnreachableError as error:
            self._wait("waiting for the log", error)
            return []
        self.last_read, self.not_ready = time.time(), ""
        return messages

    def _wait(self, why: str, error: Exception) -> None:
        if self.not_ready != why:
            LOGGER.warning("%s: %s", why, error)
        self.not_ready = why
        time.sleep(self.batch.wait)

    def _take(self, most: int) -> tuple[list[bytes], dict[str, Position], list[Message]]:
        """Return up to so many of the next lines, the positions after them, and the messages that are left."""
        taken: list[bytes] = []
        positions, left = dict(self._positions), list(self._left)
        while left and len(taken) < most:
            name, start, raw, end = left[0]
            place, room = positions.get(name, Position()), most - len(taken)
            if place.line and place.offset != start.offset:
                raise DataError(f"{name!r} no longer holds message {place.offset}, which was read in part. {WAY_OUT}")
            lines = [] if raw is None else raw.removesuffix(b"\n").split(b"\n")[place.line :]
            taken += lines[:room]
            if len(lines) > room:
                positions[name] = start._replace(line=place.line + room)
            else:
                positions[name] = end
                left.pop(0)
        return taken, positions, left

    def _advanced(self) -> tuple[Commit, np.ndarray, list[Message]]:
        """Process the next lines; return what to commit, when the events were made, and the messages that are left."""
        lines, positions, left = self._take(self._most)
        events, refused = self._parser.table(lines)
        states = self.store.states(pc.unique(events["series"]))
        if len(lines) > 1 and most_steps(self.table.rules.longest_gap, states, events) > self.batch.steps:
            self._most = len(lines) // 2
            return self._advanced()
        self._most = min(self.batch.events, 2 * self._most)
        changed, outputs, aside = self.table.advance(states, events)
        counts = self.counts + Counter(outputs["fate"].to_pylist()) + Counter(aside["fate"].to_pylist())
        is_known = pc.is_in(changed["series"], value_set=states["series"].combine_chunks())
        num_new = len(changed) - pc.sum(is_known, min_count=0).as_py()
        counts += Counter(commits=1, received=len(lines), quarantined=len(refused), series=num_new)
        counts["waiting"] = counts["received"] - sum(counts[fate] for fate in Fate)
        reasons = {place: (Fate.QUARANTINED.value, reason) for place, reason in refused.items()}
        ended = zip(*(aside[name].to_pylist() for name in ("place", "fate", "reason")), strict=True)
        reasons |= {place: (fate, reason) for place, fate, reason in ended if fate != Fate.DUPLICATE}
        kept = [(*reasons[place], lines[place][:LARGEST_EVENT]) for place in sorted(reasons)]
        return Commit(changed, outputs, kept, positions, counts), events["at"].drop_null().to_numpy(), left


def most_steps(longest_gap: int, states: pa.Table, events: pa.Table) -> int:
    """Return how many steps a batch makes at most: each series steps up to its largest number, over all gaps."""
    names = pc.unique(events["series"])
    code, known = (pc.index_in(one["series"], value_set=names).to_numpy() for one in (events, states))
    books = Books.read(states, known, len(names))
    reach, most = books.sequence.copy(), np.bincount(code, minlength=len(names)) * (longest_gap + 1)
    np.maximum.at(reach, code, books.heads["base"][code] + events["seq"].to_numpy())
    for series in books.held:  # the first event that does not wait takes all that do along
        waiting = max(books.ledger(series).held)
        reach[series], most[series] = max(reach[series], waiting), most[series] + waiting - books.sequence[series]
    is_other = events["epoch"].to_numpy() != books.epoch[code]  # numbers of another epoch say nothing of its steps
    has_other = np.bincount(code, weights=is_other, minlength=len(names)) > 0
    return int(np.sum(np.where(has_other, most, np.minimum(reach - books.sequence, most))))

"""Which steps a batch of events makes: by whole columns where events come in order, by the ledger where they do not.

An event is in order if it is the next of its series and nothing of the series waits. All events of a series that has
one that is not go through `Rules.arrive`, one by one. Both ways give the same steps and the same ledgers.
"""

from __future__ import annotations

import json
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from paramfilter.fleet.rows import count_before
from paramfilter.tables.events import Events
from paramfilter.tables.ordering import LARGEST_SEQUENCE, Event, Fate, Ledger, Rules
from paramfilter.tables.rows import pc

FATES = (*(fate.value for fate in Fate), "filled")
"""How an event or a step ended: `filled` is a step whose event never came."""

APPLIED, MISSING, FILLED = (FATES.index(fate) for fate in ("applied", "missing", "filled"))

_HEAD = np.dtype([("gaps", "<u8"), ("base", "<i8"), ("has_old_gaps", "?")])
"""The first bytes of a ledger; events that wait follow them as JSON. A ledger of zeros is null."""


class Books(NamedTuple):
    """The ledgers of some series, as columns that change.

    Attributes:
        sequence: The last step of each series.
        epoch: Of its producer.
        heads: Its gaps, and the last step before this epoch.
        held: Events that wait, of the series that have some.
    """

    sequence: np.ndarray
    epoch: np.ndarray
    heads: np.ndarray
    held: dict[int, bytes]

    @classmethod
    def read(cls, rows: pa.Table, series: np.ndarray, num_series: int) -> Books:
        """Read the ledgers of known series; the others are new."""
        books = cls(np.zeros(num_series, int), np.zeros(num_series, int), np.zeros(num_series, _HEAD), {})
        books.sequence[series], books.epoch[series] = rows["seq"].to_numpy(), rows["epoch"].to_numpy()
        if rows["ledger"].null_count < len(rows):
            ledgers = rows["ledger"].combine_chunks().fill_null(bytes(_HEAD.itemsize))
            heads = pc.binary_slice(ledgers, 0, _HEAD.itemsize)
            books.heads[series] = np.frombuffer(heads.buffers()[2], _HEAD, len(heads))
            for row in np.flatnonzero(pc.binary_length(ledgers).to_numpy() > _HEAD.itemsize):
                books.held[int(series[row])] = ledgers[row].as_py()[_HEAD.itemsize :]
        return books

    def ledger(self, one: int) -> Ledger:
        """Return the ledger of one series."""
        gaps, base, has_old_gaps = self.heads[one].tolist()
        held = {event.sequence: event for event in (Event(*each) for each in json.loads(self.held.get(one, b"[]")))}
        return Ledger(int(self.sequence[one]), gaps, has_old_gaps, held, int(self.epoch[one]), base)

    def enter(self, one: int, ledger: Ledger) -> None:
        """Replace the ledger of one series."""
        self.sequence[one], self.epoch[one] = ledger.sequence, ledger.epoch
        self.heads[one] = ledger.gaps, ledger.base, ledger.has_old_gaps
        self.held.pop(one, None)
        if ledger.held:
            self.held[one] = json.dumps([*ledger.held.values()]).encode()

    def take(self, series: np.ndarray, num_steps: np.ndarray) -> None:
        """Let some series take so many steps with their events."""
        self.sequence[series] += num_steps
        gaps, shift = self.heads["gaps"][series], num_steps.astype(np.uint64)
        self.heads["has_old_gaps"][series] |= (gaps << shift) >> shift != gaps
        self.heads["gaps"][series] = gaps << shift

    def column(self, series: np.ndarray) -> pa.Array:
        """Return the ledgers of some series."""
        heads = self.heads[series]
        if not self.held and np.all(heads == np.zeros((), _HEAD)):
            return pa.nulls(len(series), pa.binary())
        each = (head.tobytes() + self.held.get(one, b"") for one, head in zip(series.tolist(), heads, strict=True))
        return pa.array([None if ledger == bytes(_HEAD.itemsize) else ledger for ledger in each], pa.binary())


class Steps(NamedTuple):
    """Steps to take; of each series in their order."""

    code: Any
    seq: Any
    fate: Any
    y: Any
    inputs: Any


class Aside(NamedTuple):
    """An event that makes no step, as an index of the batch: how it ended, and why."""

    event: int
    fate: str
    reason: str


def arrive(rules: Rules, books: Books, is_known: np.ndarray, events: Events) -> tuple[Steps, list[Aside], np.ndarray]:
    """Enter events into the books; return the steps to take, what is put aside, and whether each series has changed."""
    is_good = events.problem == ""
    aside = [Aside(row, Fate.QUARANTINED.value, events.problem[row]) for row in np.flatnonzero(~is_good).tolist()]
    rows = np.flatnonzero(is_good)
    rows = rows[np.argsort(events.code[rows], kind="stable")]
    code = events.code[rows]
    # A new series has the epoch of its first event.
    first = np.flatnonzero(np.diff(code, prepend=-1))
    first = first[~is_known[code[first]]]
    epoch = books.epoch.copy()
    epoch[code[first]] = events.epoch[rows[first]]
    seq = books.sequence[code] + 1 + count_before(code)
    in_order = (books.heads["base"][code] + events.seq[rows] == seq) & (events.epoch[rows] == epoch[code])
    is_odd = np.zeros(len(books.sequence), bool)
    is_odd[code[~in_order | (seq > LARGEST_SEQUENCE)]] = True
    is_odd[[*books.held]] = True
    plain = ~is_odd[code]
    num_steps = np.bincount(code[plain], minlength=len(is_odd))
    is_changed = num_steps > 0
    books.epoch[is_changed] = epoch[is_changed]
    books.take(np.flatnonzero(is_changed), num_steps[is_changed])
    ys = events.y[rows[plain]]
    fate = np.where(np.all(np.isnan(ys), axis=1), MISSING, APPLIED)
    steps = Steps(code[plain], seq[plain], fate, ys, events.inputs[rows[plain]])
    if np.all(plain):
        return steps, aside, is_changed
    taken, late, touched = _one_by_one(rules, books, events, np.sort(rows[~plain]))
    is_changed[touched] = True
    return Steps(*map(np.concatenate, zip(steps, taken, strict=True))), sorted([*aside, *late]), is_changed


def _one_by_one(rules: Rules, books: Books, events: Events, rows: np.ndarray) -> tuple[Steps, list[Aside], list[int]]:
    """Enter events into the ledgers of their series, in the order of arrival."""
    ledgers: dict[int, Ledger] = {}
    aside, steps, touched = [], [], set()
    blank = Event(0, [np.nan] * events.y.shape[1], [])  # of a step whose event never came; a model has no inputs then
    columns = (events.code, events.seq, events.y, events.inputs, events.epoch)
    for row, one, *event in zip(rows.tolist(), *(column[rows].tolist() for column in columns), strict=True):
        ledger = ledgers[one] if one in ledgers else ledgers.setdefault(one, books.ledger(one))
        arrival = rules.arrive(ledger, Event(*event))
        if arrival.fate is None:
            touched.add(one)
            for step in arrival.steps:
                steps.append((one, step.sequence, FATES.index(step.fate or "filled"), *(step.event or blank)[1:3]))
        else:
            aside.append(Aside(row, arrival.fate.value, arrival.reason))
    for one in touched:
        books.enter(one, ledgers[one])
    columns: Any = zip(*steps, strict=True) if steps else [()] * len(Steps._fields)
    kinds = (int, ()), (int, ()), (int, ()), (float, events.y.shape[1:]), (float, events.inputs.shape[1:])
    each = zip(columns, kinds, strict=True)
    taken = (np.array(column, kind).reshape(len(steps), *shape) for column, (kind, shape) in each)
    return Steps(*taken), aside, sorted(touched)

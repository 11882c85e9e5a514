"""In which order the events of a series are taken in, and how each of them ends.

A series takes its steps in the order of their sequence numbers, each once. An event that comes too early waits, as
long as no more than `reorder` events of its series wait; then the steps that have not come are taken without an
observation. Every event ends in one of five ways:

- *applied*: it was a step of its series;
- *missing*: it was a step too, and said that there is no observation;
- *duplicate*: its step had been taken with an event before;
- *late*: its step had been taken without one, or its producer has begun to count again since;
- *quarantined*: it was not fit for a step at all.

What becomes of an event depends on the events of its series before it, in the order of the log, and on nothing else:
not on how they were cut into batches, and not on a clock.

>>> ledger, rules = Ledger(), Rules(reorder=1)
>>> event = lambda number: Event(number, [0.0])
>>> [len(rules.arrive(ledger, event(number)).steps) for number in (1, 3, 2)]
[1, 0, 2]
>>> rules.arrive(ledger, event(2)).fate
<Fate.DUPLICATE: 'duplicate'>
"""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass, field
from typing import NamedTuple

from paramfilter.errors import DataError

LARGEST_SEQUENCE = 2**31 - 1
"""A filter's clock is a 32-bit number."""

WINDOW = 64
"""How many of the last steps a series remembers whether they had an event."""

_ALL = (1 << WINDOW) - 1


class Event(NamedTuple):
    """One observation of one series.

    Attributes:
        sequence: Its place in the series, from 1.
        y: The values of the observation in the order of the array's memory; NaN where missing.
        inputs: The same of the covariates, or None.
        epoch: Grows each time the producer begins to count again.
    """

    sequence: int
    y: list[float]
    inputs: list[float] | None = None
    epoch: int = 0

    @property
    def is_missing(self) -> bool:
        """Whether no value is there at all."""
        return all(map(math.isnan, self.y))


class Fate(enum.StrEnum):
    """How an event ended."""

    APPLIED = "applied"
    MISSING = "missing"
    DUPLICATE = "duplicate"
    LATE = "late"
    QUARANTINED = "quarantined"


class Step(NamedTuple):
    """One step of a series: with an event and how that ends, or without because it never came."""

    sequence: int
    event: Event | None
    fate: Fate | None


class Arrival(NamedTuple):
    """What an event brought about.

    Attributes:
        fate: How it ended, if it ended without a step; None if it is among the steps, or waits for one before it.
        reason: Why it was quarantined.
        steps: The steps to take now, in this order.
    """

    fate: Fate | None
    reason: str = ""
    steps: tuple[Step, ...] = ()


@dataclass(slots=True)
class Ledger:
    """What has to be remembered about the order of a series.

    Attributes:
        sequence: The last step taken.
        gaps: Bit k is set if the step k before the last had no event.
        has_old_gaps: Whether some step before those had none.
        held: Events that wait for a step before them, by their sequence number.
        epoch: The producer's, which grows each time it begins to count again.
        base: Steps of the series before this epoch.
    """

    sequence: int = 0
    gaps: int = 0
    has_old_gaps: bool = False
    held: dict[int, Event] = field(default_factory=dict)
    epoch: int = 0
    base: int = 0

    def advance(self, event: Event | None) -> Step:
        """Take the next step, with its event or without."""
        self.has_old_gaps |= bool(self.gaps >> (WINDOW - 1))
        self.gaps = (self.gaps << 1 | (event is None)) & _ALL
        self.sequence += 1
        if event is None:
            return Step(self.sequence, None, None)
        return Step(self.sequence, event, Fate.MISSING if event.is_missing else Fate.APPLIED)

    def past(self, sequence: int) -> Fate:
        """Say what an event is whose step has been taken; late if it may be late, since those are kept."""
        age = self.sequence - sequence
        was_without = self.has_old_gaps if age >= WINDOW else bool(self.gaps >> age & 1)
        return Fate.LATE if was_without else Fate.DUPLICATE


@dataclass(frozen=True)
class Rules:
    """What to do with events that do not come in order.

    Args:
        reorder: How many events of a series may wait for one before them.
        fill_gaps: Take the steps without an observation when more would have to wait; False quarantines what cannot
            wait, until the step comes.
        longest_gap: An event that is further ahead is quarantined.
    """

    reorder: int = 0
    fill_gaps: bool = True
    longest_gap: int = 1000

    def __post_init__(self):
        if self.reorder < 0 or self.longest_gap < 0:
            raise DataError("reorder and longest_gap are numbers of events, 0 or more.")

    def arrive(self, ledger: Ledger, event: Event) -> Arrival:
        """Enter an event into its series' ledger, and say what follows."""
        base = ledger.base
        if event.epoch < ledger.epoch:
            return Arrival(Fate.LATE, f"its producer has begun epoch {ledger.epoch} since")
        if event.epoch > ledger.epoch:
            if ledger.held and not self.fill_gaps:
                return Arrival(Fate.QUARANTINED, "events of the epoch before wait for a step that has not come")
            base = max([ledger.sequence, *ledger.held])
        if base + event.sequence > LARGEST_SEQUENCE:
            return Arrival(Fate.QUARANTINED, f"a series has at most {LARGEST_SEQUENCE} steps, in all epochs together")
        if base:
            event = event._replace(sequence=base + event.sequence)
        ahead = event.sequence - ledger.sequence - 1
        if ahead < 0:
            return Arrival(ledger.past(event.sequence))
        if event.sequence in ledger.held:
            return Arrival(Fate.DUPLICATE)
        if ahead > self.longest_gap:
            return Arrival(Fate.QUARANTINED, f"more than {self.longest_gap} steps before it have not come")
        if ahead and not self.fill_gaps and len(ledger.held) >= self.reorder:
            return Arrival(Fate.QUARANTINED, f"a step before it has not come, and {self.reorder} events wait already")
        ledger.epoch, ledger.base = event.epoch, base  # not before: an event that is put aside changes nothing
        if not ahead and not ledger.held:
            return Arrival(None, steps=(ledger.advance(event),))
        ledger.held[event.sequence] = event
        steps = []
        while ledger.sequence + 1 in ledger.held or (self.fill_gaps and len(ledger.held) > self.reorder):
            steps.append(ledger.advance(ledger.held.pop(ledger.sequence + 1, None)))
        return Arrival(None, steps=tuple(steps))

"""What one event says, and what is refused before it can do harm.

An event is one line of JSON, and a message of a log holds one line or many:

    {"series": "oslo", "seq": 17, "y": 0.31}

`seq` numbers the observations of a series: 1, 2, 3. `y` is a number or an array of the model's shape, with null where
a value is missing. `inputs` is what the model is told, if it is told anything. `at` is the time at which the event
was made; it is there for those who measure delays and never enters a state. `epoch` says how often the producer has
begun to count again: with a greater epoch, `seq` begins again at 1, and the series goes on where it was.

A line comes from anywhere, so its size and depth are checked before it is parsed, and everything else before it is
used. What is refused says why, without repeating the data.

>>> EventParser(()).parse(b'{"series": "oslo", "seq": 17, "y": 0.31}')
Event(series='oslo', sequence=17, y=[0.31], inputs=None, at=None, epoch=0)
>>> EventParser(()).parse(b'{"series": "oslo", "seq": 17, "y": 1e999}')
Traceback (most recent call last):
...
paramfilter_streams.events.RefusedEvent: y holds a number that is not finite; null is for a missing one
"""

from __future__ import annotations

import json
import math
import re
import sys
from typing import Any, NamedTuple

import numpy as np

LARGEST_EVENT = 64 * 1024
"""Bytes of one line."""

DEEPEST = 8
"""Brackets inside brackets. Python's parser runs out of stack at some thousands of them."""

LARGEST_SEQUENCE = 2**31 - 1
"""A filter's clock is a 32-bit number."""

LARGEST_EPOCH = 2**63 - 1
"""Room for the time at which a producer started, in nanoseconds."""

FIELDS = frozenset({"series", "seq", "y", "inputs", "at", "epoch"})

NAME = re.compile(r"[A-Za-z0-9._-]{1,128}")
"""What a series may be called."""

_NO_JSON = "an event is JSON in UTF-8"
_SPACES = " \t\n\r"
_TEXTS = re.compile(rb'"(?:[^"\\]|\\.)*"')
_BRACKETS = re.compile(rb"[\[\]{}]")


class RefusedEvent(Exception):
    """A line that is no event; the text says why and holds nothing of the line."""


class Event(NamedTuple):
    """One observation of one series.

    Attributes:
        series: The name of the series.
        sequence: Its place in the series, from 1.
        y: The values of the observation in the order of the array's memory; NaN where missing.
        inputs: The same of what the model is told, or None.
        at: When the event was made, in seconds, or None.
        epoch: Grows each time the producer begins to count again.
    """

    series: str
    sequence: int
    y: list[float]
    inputs: list[float] | None
    at: float | None
    epoch: int = 0

    @property
    def is_missing(self) -> bool:
        """Whether no value is there at all."""
        return all(map(math.isnan, self.y))


class EventParser:
    """Reads lines for a model whose observations are arrays of one shape.

    Args:
        y_shape: The shape of an observation.
        inputs_shape: The shape of what the model is told; None if nothing.
        largest: The largest number that the model's precision holds.
    """

    def __init__(
        self,
        y_shape: tuple[int, ...],
        inputs_shape: tuple[int, ...] | None = None,
        largest: float = float(np.finfo(np.float32).max),
    ):
        self.y_shape, self.inputs_shape, self.largest = y_shape, inputs_shape, largest

    def parse(self, line: bytes) -> Event:
        """Return what a line says.

        Raises:
            RefusedEvent: It is no event.
        """
        content = _checked_json(line)
        if not isinstance(content, dict):
            raise RefusedEvent("an event is a JSON object")
        if not content.keys() <= FIELDS:
            raise RefusedEvent(f"an event has the fields {', '.join(sorted(FIELDS))} and no other")
        name, sequence, at = content.get("series"), content.get("seq"), content.get("at")
        if not isinstance(name, str) or not NAME.fullmatch(name):
            raise RefusedEvent("series must be a name of 1 to 128 letters, digits, dots, dashes and underscores")
        if type(sequence) is not int or not 1 <= sequence <= LARGEST_SEQUENCE:
            raise RefusedEvent(f"seq must be a whole number from 1 to {LARGEST_SEQUENCE}")
        epoch = content.get("epoch", 0)
        if type(epoch) is not int or not 0 <= epoch <= LARGEST_EPOCH:
            raise RefusedEvent(f"epoch must be a whole number from 0 to {LARGEST_EPOCH}")
        if at is not None and (type(at) not in (int, float) or not abs(at) <= sys.float_info.max):
            raise RefusedEvent("at must be a finite number")
        if "y" not in content:
            raise RefusedEvent("an event has a y; null if the observation is missing")
        y = self._values("y", content["y"], self.y_shape)
        return Event(name, sequence, y, self._inputs(content.get("inputs")), at, epoch)

    def _inputs(self, given: Any) -> list[float] | None:
        if self.inputs_shape is None:
            if given is not None:
                raise RefusedEvent("this model is told nothing; leave inputs out")
            return None
        values = self._values("inputs", given, self.inputs_shape)
        if any(map(math.isnan, values)):
            raise RefusedEvent("inputs cannot be missing")
        return values

    def _values(self, field: str, given: Any, shape: tuple[int, ...]) -> list[float]:
        """Return the numbers of nested lists, in the order of their memory; null alone is an array of nothing."""
        if given is None:
            return [math.nan] * math.prod(shape)
        if not shape:
            return [self._number(field, shape, given)]
        parts = [given]
        for length in shape:
            if not all(isinstance(part, list) and len(part) == length for part in parts):
                raise RefusedEvent(f"{field} must have the shape {list(shape)}")
            parts = [one for part in parts for one in part]
        return [self._number(field, shape, part) for part in parts]

    def _number(self, field: str, shape: tuple[int, ...], given: Any) -> float:
        if given is None:
            return math.nan
        if type(given) is not float and type(given) is not int:  # a bool is an int to isinstance
            raise RefusedEvent(f"{field} must hold numbers in the shape {list(shape)}")
        if -self.largest <= given <= self.largest:
            return float(given)
        if not abs(given) < math.inf:
            raise RefusedEvent(f"{field} holds a number that is not finite; null is for a missing one")
        raise RefusedEvent(f"{field} holds a number beyond {self.largest:.1e}, the largest of this precision")


def _checked_json(line: bytes) -> Any:
    """Parse what is small, flat and says nothing twice."""
    if len(line) > LARGEST_EVENT:
        raise RefusedEvent(f"an event has at most {LARGEST_EVENT} bytes")
    if line.count(b"[") + line.count(b"{") > DEEPEST and _depth(line) > DEEPEST:
        raise RefusedEvent(f"an event is at most {DEEPEST} brackets deep")
    try:
        text = line.decode().strip(_SPACES)
        content, end = _DECODER.raw_decode(text)
    except ValueError as error:  # also of a text that is not UTF-8, and of a number with thousands of digits
        raise RefusedEvent(_NO_JSON) from error
    if end != len(text):
        raise RefusedEvent(_NO_JSON)
    return content


def _depth(line: bytes) -> int:
    deepest = depth = 0
    for bracket in _BRACKETS.finditer(_TEXTS.sub(b"", line)):
        depth += 1 if bracket[0] in b"[{" else -1
        deepest = max(deepest, depth)
    return deepest


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise RefusedEvent("an event names each field once")
    return found


def _refuse_constant(word: str) -> Any:
    raise RefusedEvent(f"{word} is no JSON; use null for a missing value")


_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_refuse_constant)

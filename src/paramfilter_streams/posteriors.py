"""What a worker says of each step: a posterior for its store, and a line for its sink."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from paramfilter_streams.logs import Position
from paramfilter_streams.ordering import Fate, Step

FATES = (*(fate.value for fate in Fate), "filled")

_NUMBER_OF = {fate: number for number, fate in enumerate(FATES)}
_HEAD, _FIGURES = struct.Struct("<BI"), np.dtype("<f8")


class Output(NamedTuple):
    """What is said of one step; what is said of the same step again is the same."""

    series: str
    sequence: int
    line: bytes


class Sink(Protocol):
    """Where outputs go beside the store."""

    def write(self, outputs: Sequence[Output]) -> None:
        """Return when all of them are safe."""
        ...

    def close(self) -> None:
        """Let go of what is open."""
        ...


@runtime_checkable
class WritesOnce(Protocol):
    """A sink that can remember up to where the log has been read, together with the outputs up to there."""

    def written(self) -> Mapping[str, Position]:
        """Return up to where outputs are there already, by partition of the log."""
        ...

    def write_once(self, outputs: Sequence[Output], positions: Mapping[str, Position]) -> None:
        """Write outputs, and up to where the log has been read with them; return when both are safe."""
        ...


class Posterior(NamedTuple):
    """What a series believes after a step, as the store keeps it."""

    sequence: int
    fate: str
    figures: dict[str, float]


def packed(steps: Sequence[tuple[str, Step]], figures: np.ndarray) -> dict[tuple[str, int], bytes]:
    """Return the posteriors of some steps as bytes, by series and sequence number."""
    # One copy of all: asking numpy row by row costs four times as much.
    whole, size = figures.astype(_FIGURES).tobytes(), figures.shape[1] * _FIGURES.itemsize
    return {
        (name, step.sequence): _HEAD.pack(_NUMBER_OF[step.fate or "filled"], step.sequence)
        + whole[size * row : size * (row + 1)]
        for row, (name, step) in enumerate(steps)
    }


def unpacked(content: bytes, columns: Sequence[str]) -> Posterior:
    """Read a posterior."""
    fate, sequence = _HEAD.unpack_from(content)
    values: Any = np.frombuffer(content, _FIGURES, offset=_HEAD.size)
    return Posterior(sequence, FATES[fate], dict(zip(columns, values.tolist(), strict=True)))


def sequence_of(content: bytes) -> int:
    """Return the sequence number of a posterior."""
    return _HEAD.unpack_from(content)[1]


def outputs_of(steps: Sequence[tuple[str, Step]], figures: np.ndarray, columns: Sequence[str]) -> list[Output]:
    """Return the lines of some steps."""
    outputs = []
    for (name, step), row in zip(steps, figures.tolist(), strict=True):
        # JSON has no NaN and no infinity: what is not finite, such as a missing observation, is null.
        values = [value if math.isfinite(value) else None for value in row]
        said = {"series": name, "seq": step.sequence, "fate": step.fate or "filled"}
        line = json.dumps({**said, **dict(zip(columns, values, strict=True))}).encode()
        outputs.append(Output(name, step.sequence, line))
    return outputs

"""States whose every bit depends on all events before, in their order, at no cost: for the volume of kills and faults.

A series' state is a chain of hashes of (sequence number, observation). An event that is lost, taken twice or out of
order gives another hash for ever after. No JAX, so that a process can be forked and killed some fifty times a second.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Collection, Sequence

import numpy as np

from paramfilter_streams import EventParser
from tests.support.streams.draws import numbers

DIGEST = 32


class HashResidents:
    """Hash chains in place of filters.

    Args:
        room: How many series there may be.
        row_bytes: How large a row is: the digest, again and again.
    """

    columns = ("mean:hash", "sd:hash")

    def __init__(self, room: int = 1000, row_bytes: int = 1024):
        self.room, self.row_bytes = room, row_bytes
        self.identity = {"filter": "hash chain", "layout": str(row_bytes), "seed": "0"}
        self.parser = EventParser(())
        self.states: dict[str, tuple[int, bytes]] = {}

    @property
    def names(self) -> Collection[str]:
        return self.states.keys()

    def start(self, names: Sequence[str]) -> None:
        assert len({*self.states, *names}) <= self.room
        self.states |= {name: (0, hashlib.blake2b(name.encode(), digest_size=DIGEST).digest()) for name in names}

    def drop(self, names: Sequence[str]) -> None:
        for name in names:
            del self.states[name]

    def step(self, names: Sequence[str], ys: Sequence[list[float]], inputs: Sequence) -> np.ndarray:
        assert len(set(names)) == len(names), "a series has one step a round"
        for name, y in zip(names, ys, strict=True):
            count, digest = self.states[name]
            seen = struct.pack("<Qd", count + 1, *y)
            self.states[name] = count + 1, hashlib.blake2b(digest + seen, digest_size=DIGEST).digest()
        states = [self.states[name] for name in names]
        return np.array([[int.from_bytes(digest[:4], "big") / 2**32, 1 / count] for count, digest in states], float)

    def rows(self, names: Sequence[str]) -> np.ndarray:
        rows = [struct.pack("<Q", count) + digest for count, digest in (self.states[name] for name in names)]
        padded = [(row * (self.row_bytes // len(row) + 1))[: self.row_bytes] for row in rows]
        return np.frombuffer(b"".join(padded), np.uint8).reshape(len(names), self.row_bytes)

    def put(self, names: Sequence[str], rows: Sequence[bytes]) -> None:
        assert len({*self.states, *names}) <= self.room, "give more room"
        for name, row in zip(names, rows, strict=True):
            self.states[name] = struct.unpack_from("<Q", row)[0], row[8 : 8 + DIGEST]

    def warm_up(self) -> None:
        """Nothing to compile."""


def line(series: str, sequence: int, y: float | None) -> bytes:
    """Return one event."""
    return json.dumps({"series": series, "seq": sequence, "y": y}).encode()


def messy_lines(seed: int, num_series: int, num_steps: int) -> list[bytes]:
    """Return the events of some series, all mixed: permuted, repeated, with holes, missing values and poison."""
    draw = iter(numbers(seed))
    lines = []
    for sequence in range(1, num_steps + 1):
        for number in range(num_series):
            luck = next(draw) % 100
            y = None if luck < 5 else next(draw) / 2**32
            one = line(f"s{number}", sequence, y)
            if luck < 90:
                lines.append(one)
            if 20 <= luck < 40:
                lines.append(one)
            if luck == 50:
                lines.append(one[: next(draw) % len(one)])
    # Neighbours change places: an event comes up to a dozen lines too early or too late.
    return [one for _, one in sorted((place + next(draw) % (4 * num_series), one) for place, one in enumerate(lines))]

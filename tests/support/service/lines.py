"""Lines of events: in order, or permuted, repeated, with holes, missing values and poison."""

import hashlib
import json
import struct
from collections.abc import Iterator


def numbers(seed: int) -> Iterator[int]:
    """Yield 32-bit numbers without end, by hashes: a process that kills others needs no JAX."""
    block = 0
    while True:
        digest = hashlib.blake2b(struct.pack("<QQ", seed, block)).digest()
        yield from struct.unpack("<16I", digest)
        block += 1


def line(series: str, seq: int, y: float | None, **more: object) -> bytes:
    """Return one event."""
    return json.dumps({"series": series, "seq": seq, "y": y, **more}).encode()


def messy_lines(seed: int, num_series: int, num_steps: int) -> list[bytes]:
    """Return the events of some series, all mixed: permuted, repeated, with holes, missing values and poison."""
    draw = numbers(seed)
    lines = []
    for seq in range(1, num_steps + 1):
        for number in range(num_series):
            luck = next(draw) % 100
            one = line(f"s{number}", seq, None if luck < 5 else next(draw) / 2**32)
            if luck < 90:
                lines.append(one)
            if 20 <= luck < 40:
                lines.append(one)
            if luck == 50:
                lines.append(one[: next(draw) % len(one)])
    # Neighbors change places: an event comes up to a dozen lines too early or too late.
    return [one for _, one in sorted((place + next(draw) % (4 * num_series), one) for place, one in enumerate(lines))]

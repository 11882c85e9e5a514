"""Lines of events with random mutations."""

from __future__ import annotations

from tests.support.streams.draws import numbers

OVERSIZED = 1000
"""One line in so many is far too long."""

SEEDS = (
    b'{"series": "oslo", "seq": 17, "y": 0.31}',
    b'{"seq": 1, "series": "a.b-c", "y": null, "at": 1.5}',
    b'{"series": "oslo", "seq": 2147483647, "y": -1.5e-300}',
    b'{"series": "lima", "seq": 18, "y": [1, 2, [3]], "inputs": {"a": "\\u00e9"}}',
)
PIECES = (
    *(
        b"[" * 9,
        b"{" * 300,
        b"]" * 9,
        b'"',
        b"\\",
        b"\x00",
        b"\xff\xfe",
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"null",
        b"true",
    ),
    *(
        b'"seq": 1,',
        b'"y":',
        b"9" * 400,
        b"-0",
        b"1.7976931348623157e308",
        b"\\ud800",
        b"{}",
        b",",
        b":",
        b" " * 100,
        b"e",
        b".",
    ),
)


def mutated(seed: int) -> bytes:
    """Return a line with one to four mutations."""
    draw = iter(numbers(seed))
    text = bytearray(SEEDS[next(draw) % len(SEEDS)])
    for _ in range(1 + next(draw) % 4):
        place = next(draw) % (len(text) + 1)
        kind = next(draw) % 5
        if kind == 0 and text:
            text[place % len(text)] ^= 1 << next(draw) % 8
        elif kind == 1:
            del text[place : place + 1 + next(draw) % 8]
        elif kind == 2:
            text[place:place] = PIECES[next(draw) % len(PIECES)]
        elif kind == 3:
            other = SEEDS[next(draw) % len(SEEDS)]
            text[place:] = other[next(draw) % len(other) :]
        else:
            text[place:place] = text[next(draw) % (len(text) + 1) :][:16]
    return bytes(text) if seed % OVERSIZED else bytes(text) * 2000

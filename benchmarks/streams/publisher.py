"""Sends events at a rate, in a process of its own: `python -m benchmarks.streams.publisher ADDRESS SUBJECT ...`."""

from __future__ import annotations

import asyncio
import sys
import time

import nats

LINES_A_MESSAGE = 64


def messages_of(names: range, sequence: int, made_at: float | None = None) -> list[bytes]:
    """Return one event of each series, many to a message."""
    at = "" if made_at is None else f', "at": {made_at:.6f}'
    said = lambda one: (one * 37 + sequence * 11) % 200 / 100 - 1
    lines = [f'{{"series": "s{one}", "seq": {sequence}, "y": {said(one)}{at}}}' for one in names]
    return ["\n".join(lines[one : one + LINES_A_MESSAGE]).encode() for one in range(0, len(lines), LINES_A_MESSAGE)]


async def publish(address: str, subject: str, num_series: int, rate: float, seconds: float, first: int) -> None:
    """Publish rounds of all series at a rate of events a second; each event says when it was made."""
    client = await nats.connect(address)
    streams = client.jetstream()
    began, sent, sequence = time.perf_counter(), 0, first
    while time.perf_counter() - began < seconds:
        for start in range(0, num_series, LINES_A_MESSAGE):
            await asyncio.sleep(max(0.0, sent / rate - (time.perf_counter() - began)))
            names = range(start, min(start + LINES_A_MESSAGE, num_series))
            for message in messages_of(names, sequence, time.time()):
                await streams.publish(subject, message)
            sent += len(names)
        sequence += 1
    await client.close()


if __name__ == "__main__":
    where, what, how_many, how_fast, how_long, from_where = sys.argv[1:]
    asyncio.run(publish(where, what, int(how_many), float(how_fast), float(how_long), int(from_where)))

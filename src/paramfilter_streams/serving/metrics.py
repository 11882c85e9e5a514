"""What a worker says of itself to a monitor, in the text format of Prometheus: numbers of events, nothing of them."""

from __future__ import annotations

import bisect
from collections.abc import Iterable

from paramfilter_streams import Worker

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of delays in seconds."""


class Delays:
    """A histogram of the time from an event to its durable posterior, since the start."""

    def __init__(self):
        self.counts = [0] * (len(BUCKETS) + 1)
        self.total = 0.0

    def add(self, delays: Iterable[float]) -> None:
        """Count some delays."""
        for delay in delays:
            self.counts[bisect.bisect_left(BUCKETS, delay)] += 1
            self.total += delay

    def quantile(self, level: float) -> float | None:
        """Return the bound of the bucket in which a quantile lies; None if nothing has been counted."""
        wanted, seen = level * sum(self.counts), 0
        for count, bound in zip(self.counts, (*BUCKETS, float("inf")), strict=True):
            seen += count
            if seen and seen >= wanted:
                return bound
        return None


def metrics_of(worker: Worker, delays: Delays) -> str:
    """Return all metrics."""
    lines = [
        "# HELP paramfilter_ready Whether events are taken in and can be kept.",
        "# TYPE paramfilter_ready gauge",
        f"paramfilter_ready {int(worker.is_ready and not worker.cannot_commit)}",
        "# HELP paramfilter_series Series that have a state.",
        "# TYPE paramfilter_series gauge",
        f"paramfilter_series {len(worker.residents.names)}",
        "# HELP paramfilter_events_total Events by partition and how they ended.",
        "# TYPE paramfilter_events_total counter",
    ]
    partitions = sorted(worker.partitions.items())
    for name, one in partitions:
        lines += [
            f'paramfilter_events_total{{partition="{_quoted(name)}",fate="{fate}"}} {count}'
            for fate, count in one.counts.items()
        ]
    for metric, words, value in (
        ("events_received_total", "Events read from the log.", lambda one: one.received),
        ("events_waiting", "Events that wait for one before them.", lambda one: one.waiting),
        ("steps_filled_total", "Steps taken without an event.", lambda one: one.filled),
        ("offset", "Where the log is read next.", lambda one: one.offset),
    ):
        kind = "counter" if metric.endswith("_total") else "gauge"
        lines += [f"# HELP paramfilter_{metric} {words}", f"# TYPE paramfilter_{metric} {kind}"]
        lines += [f'paramfilter_{metric}{{partition="{_quoted(name)}"}} {value(one)}' for name, one in partitions]
    return "\n".join([*lines, *_histogram(delays)]) + "\n"


def _histogram(delays: Delays) -> list[str]:
    name, seen, lines = "paramfilter_delay_seconds", 0, []
    for bound, count in zip((*BUCKETS, "+Inf"), delays.counts, strict=True):
        seen += count
        lines.append(f'{name}_bucket{{le="{bound}"}} {seen}')
    about = [f"# HELP {name} From an event's time to its durable posterior.", f"# TYPE {name} histogram"]
    return [*about, *lines, f"{name}_sum {delays.total:.6f}", f"{name}_count {seen}"]


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

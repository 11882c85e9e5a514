"""Metrics of a worker for Prometheus: numbers of events and delays, and nothing about their content.

The registry belongs to one front, so two workers in one process do not mix their metrics.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from paramfilter.errors import extra
from paramfilter_streams import Worker
from paramfilter_streams.histogram import BUCKETS, Histogram
from paramfilter_streams.snapshots.schedule import Schedule

EXTRA = "serve"
"""The extra that brings prometheus_client, starlette and uvicorn."""

OF_PARTITIONS = {
    "paramfilter_events_received": ("counter", "Events read from the log and stored.", lambda one: one.received),
    "paramfilter_events_waiting": ("gauge", "Events that wait for an earlier event.", lambda one: one.waiting),
    "paramfilter_steps_filled": ("counter", "Steps taken without an event.", lambda one: one.filled),
    "paramfilter_offset": ("gauge", "Offset of the next read from the log.", lambda one: one.offset),
}
"""Metrics with one value for each partition: kind, help and value. Prometheus adds `_total` to counters."""


class Metrics:
    """The metrics of one worker.

    Args:
        worker: The worker; it may run in another thread.
        snapshots: What takes snapshots of its store, or None.
    """

    def __init__(self, worker: Worker, snapshots: Schedule | None = None):
        self._client = extra("prometheus_client", EXTRA)
        self._registry = self._client.CollectorRegistry()
        self._delays = Histogram()
        histograms = {
            "paramfilter_delay_seconds": ("Seconds from the time of an event to its durable posterior.", self._delays),
            "paramfilter_commit_seconds": ("Seconds that a commit took to reach the disk.", worker.commit_seconds),
        }
        collectors: list[Any] = [_Histograms(histograms), _WorkerCollector(worker)]
        if snapshots is not None:
            collectors.append(_SnapshotCollector(snapshots))
        for collector in collectors:
            self._registry.register(collector)

    def add_delays(self, delays: Sequence[float]) -> None:
        """Count the delays of some events, in seconds."""
        self._delays.add(delays)

    def delay_quantile(self, level: float) -> float | None:
        """Return the upper bound of the bucket that holds a quantile of the delays; None before the first event."""
        return self._delays.quantile(level)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return self._client.generate_latest(self._registry)

    @property
    def media_type(self) -> str:
        """The content type of `text`."""
        return self._client.CONTENT_TYPE_LATEST


class _Histograms:
    """Shows histograms that are counted elsewhere."""

    def __init__(self, histograms: dict[str, tuple[str, Histogram]]):
        self._histograms, self._core = histograms, extra("prometheus_client.core", EXTRA)

    def collect(self) -> Iterator[Any]:
        bounds = (*map(str, BUCKETS), "+Inf")
        for name, (words, one) in self._histograms.items():
            buckets = list(zip(bounds, one.counts.cumsum().tolist(), strict=True))
            yield self._core.HistogramMetricFamily(name, words, buckets=buckets, sum_value=one.total)


class _WorkerCollector:
    """Reads the worker's own counts when Prometheus asks, so nothing is counted twice."""

    def __init__(self, worker: Worker):
        self._worker, self._core = worker, extra("prometheus_client.core", EXTRA)

    def collect(self) -> Iterator[Any]:
        worker, gauge, counter = self._worker, self._core.GaugeMetricFamily, self._core.CounterMetricFamily
        is_ready = int(not worker.not_ready)
        yield gauge("paramfilter_ready", "1 if the worker reads events and can store them, else 0.", is_ready)
        yield gauge("paramfilter_series", "Series that have a state.", len(worker.residents.names))
        read = "Time at which the log last answered, in seconds since 1970; 0 if it has not."
        yield gauge("paramfilter_log_last_read_timestamp_seconds", read, worker.last_read or 0.0)
        if worker.log.lag is not None:
            lag = "Messages of the log, or bytes of files, that have not been read."
            yield gauge("paramfilter_log_lag", lag, worker.log.lag)
        partitions = sorted(worker.committed.items())  # a counter of what a crash takes back would go back
        events = counter("paramfilter_events", "Events by partition and fate.", labels=["partition", "fate"])
        for name, one in partitions:
            for fate, count in one.counts.items():
                events.add_metric([name, fate], count)
        yield events
        for metric, (kind, words, value) in OF_PARTITIONS.items():
            family = (counter if kind == "counter" else gauge)(metric, words, labels=["partition"])
            for name, one in partitions:
                family.add_metric([name], value(one))
            yield family


class _SnapshotCollector:
    """Says when a snapshot was last taken, and what it came to."""

    def __init__(self, snapshots: Schedule):
        self._snapshots, self._core = snapshots, extra("prometheus_client.core", EXTRA)

    def collect(self) -> Iterator[Any]:
        gauge, last = self._core.GaugeMetricFamily, self._snapshots.last
        made_at = "Time of the last snapshot since the service started, in seconds since 1970; 0 if there is none."
        yield gauge("paramfilter_snapshot_timestamp_seconds", made_at, 0.0 if last is None else last.made_at)
        failures = "Snapshots that could not be taken."
        yield self._core.CounterMetricFamily("paramfilter_snapshot_failures", failures, self._snapshots.num_failures)
        if last is not None:
            yield gauge("paramfilter_snapshot_seconds", "How long the last snapshot took.", last.seconds)
            yield gauge("paramfilter_snapshot_written_bytes", "Bytes that the last snapshot wrote.", last.written)
            yield gauge("paramfilter_snapshot_size_bytes", "Bytes of the store in the last snapshot.", last.size)

"""Durations, counted by size. prometheus_client takes 4 μs for each, a tenth of a step; here a batch is one call."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of the buckets, in seconds; a last one has no bound."""


class Histogram:
    """How many durations were how long."""

    def __init__(self):
        self.counts, self.total = np.zeros(len(BUCKETS) + 1, int), 0.0

    def add(self, seconds: Sequence[float]) -> None:
        """Count some durations."""
        self.counts = self.counts + np.bincount(np.searchsorted(BUCKETS, seconds), minlength=len(self.counts))
        self.total += math.fsum(seconds)

    def quantile(self, level: float) -> float | None:
        """Return the upper bound of the bucket that holds a quantile; None before the first duration."""
        counts = self.counts.cumsum()
        place = int(np.searchsorted(counts, level * counts[-1]))
        return (*BUCKETS, math.inf)[place] if counts[-1] else None

"""What runs: the model, the filter and its size, since when, and where each parameter may lie."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from paramfilter.filters import Filter
from paramfilter.labels import components_of

Bounds = tuple[float, float]


class About(NamedTuple):
    """What the pages say about the filter.

    Attributes:
        model: The name of the model.
        algorithm: The name of the filter, as the configuration has it.
        size: The number of particles or nodes.
        fingerprint: The fingerprint of the filter.
        unit: What the filter has many of: "nodes" or "particles".
        skips_outliers: Whether the filter skips outliers.
        bounds: The lowest and the largest value of each parameter, by component.
        started: When the service was started, in seconds of the wall clock.
    """

    model: str
    algorithm: str
    size: int
    fingerprint: str
    unit: str
    skips_outliers: bool
    bounds: Mapping[str, Bounds]
    started: float


def about_filter(filter: Filter, algorithm: str) -> About:
    """Describe a filter that starts now."""
    return About(
        filter.model.name,
        algorithm,
        filter.size,
        filter.fingerprint,
        unit=filter.unit,
        skips_outliers=getattr(filter, "outliers", None) is not None,
        bounds=_bounds(filter.model.parameters.prior),
        started=time.time(),
    )


def _bounds(prior: Mapping[str, Any]) -> dict[str, Bounds]:
    """Return the support of each component; a support without bounds, such as a simplex, counts as the real line."""
    found = {}
    for name, distribution in prior.items():
        shape, support = tuple(distribution.shape()), distribution.support
        while hasattr(support, "base_constraint"):
            support = support.base_constraint
        ends = (getattr(support, "lower_bound", -math.inf), getattr(support, "upper_bound", math.inf))
        lows, highs = (np.broadcast_to(np.asarray(end, float), shape).ravel() for end in ends)
        labels = map(str, components_of(name, shape))
        found |= {label: (float(low), float(high)) for label, low, high in zip(labels, lows, highs, strict=True)}
    return found

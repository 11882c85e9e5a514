"""Ranks of observations among their forecasts, or of truths among posterior draws: uniform if all is right."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy.stats import binom

from paramfilter.calibration import Calibration
from paramfilter.labels import PIT, components_of
from paramfilter.plots.contents import Asked, chosen, column_of, group_of
from paramfilter.plots.picture import picture
from paramfilter.plots.style import GAP, INK, finish, grid, styled

POINTS = np.linspace(0, 1, 51)
"""Of the unit interval, where the ranks are counted."""
MOST_FOR_BAND = 500
"""Ranks for which the chance of leaving the band is computed; with more it hardly changes."""


@picture
def ranks(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the share of ranks below each value, less that value, with a simultaneous band of uniform ranks.

    The ranks are those of observations among one-step forecasts; of a `Calibration`, those of true parameters and
    states among posterior draws, at its last time. A line that stays inside the band is compatible with uniform ranks:
    the whole line does so with probability `level` (Säilynoja, Bürkner and Vehtari, 2022). A line above on the left and
    below on the right means forecasts that are too narrow; the mirror image, too wide; all above or all below, biased.
    """
    found = {label: _ranks_of(one) for label, one in trees.items()}
    names = chosen(list(dict.fromkeys(name for one in found.values() for name in one)), asked)
    figure, axes = grid(len(names), 2.2, sharex=True, sharey=True)
    for axis, name in zip(axes, names, strict=True):
        own = {label: one[name][~np.isnan(one[name])] for label, one in found.items() if name in one}
        num_ranks = min(map(len, own.values()))
        low, high = (end - POINTS for end in band_of(asked.level, num_ranks))
        axis.fill_between(POINTS, low, high, color=GAP, linewidth=0, label=f"{asked.level:.0%} band of uniform ranks")
        axis.axhline(0.0, color=INK, linewidth=0.7)
        for label, _, look in styled(trees):
            if label in own:
                shares = np.mean(own[label][:, None] <= POINTS, axis=0)
                axis.plot(POINTS, shares - POINTS, **look.line(), label=label or "ranks")
        axis.set_title(f"{asked.label(name)} ({num_ranks} ranks)")
        axis.set(xlim=(0, 1), xticks=[0, 0.5, 1])
    figure.supylabel("share below - rank", fontsize=9)
    return finish(figure, axes, times=asked.label("rank"))


@functools.lru_cache
def band_of(level: float, num_ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the band in which the shares of uniform ranks stay at all `POINTS`, with a probability."""
    inside, outside = level, 1.0
    for _ in range(16):
        pointwise = (inside + outside) / 2
        is_enough = chance_inside(pointwise, min(num_ranks, MOST_FOR_BAND)) >= level
        inside, outside = (inside, pointwise) if is_enough else (pointwise, outside)
    low, high = binom.interval(outside, num_ranks, POINTS)
    return low / num_ranks, high / num_ranks


def chance_inside(pointwise: float, num_ranks: int) -> float:
    """Return the probability that uniform ranks stay inside pointwise bands at all points.

    The number of ranks below a point is a Markov chain in the point: of the ranks above it, each lies before the next
    point with the same probability.
    """
    low, high = (np.nan_to_num(ends).astype(int) for ends in binom.interval(pointwise, num_ranks, POINTS))
    counts, chances = np.array([0]), np.array([1.0])
    for part in range(1, len(POINTS) - 1):
        following = np.arange(low[part], high[part] + 1)
        moves = binom.pmf(following - counts[:, None], num_ranks - counts[:, None], 1 / (len(POINTS) - part))
        counts, chances = following, chances @ moves
    return float(np.sum(chances))


def _ranks_of(one: Any) -> dict[str, np.ndarray]:
    """Return ranks by quantity."""
    if isinstance(one, Calibration):
        return {name: one.ranks[:, -1, index] for index, name in enumerate(one.quantities)}
    found, foretold = {}, group_of(one, "one_step")
    for name, variable in group_of(one, "filter_stats").data_vars.items():
        if str(name).startswith(PIT):
            own = str(name).removeprefix(PIT)
            for part in components_of(own, variable.shape[1:]):
                found[column_of(foretold[own], part)] = np.asarray(variable, float)[:, *part.place]
    return found

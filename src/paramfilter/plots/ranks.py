"""Ranks of observations among their forecasts, or of truths among posterior draws: uniform if all is right."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np
from scipy.stats import binom

from paramfilter.calibration import Calibration
from paramfilter.labels import components_of
from paramfilter.plots.contents import chosen, column_of, group_of
from paramfilter.plots.style import GAP, INK, QUIET, Asked, grid, legend_below, picture, styled
from paramfilter.results.tree import PIT

NUM_PARTS = 50
"""Parts of the unit interval, at whose ends the ranks are counted."""
MOST_FOR_BAND = 500
"""Ranks for which the chance of leaving the band is computed; with more it hardly changes."""


@picture
def ranks(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the share of ranks below each value, less that value, with a simultaneous band of uniform ranks.

    A line that stays inside the band is compatible with uniform ranks: the whole line does so with probability `level`
    (Säilynoja, Bürkner and Vehtari, 2022). A line above on the left and below on the right means forecasts that are too
    narrow; the mirror image, too wide; all above or all below, biased.

    Args:
        results: A result (ranks of observations among one-step forecasts), a `Calibration` (ranks of true parameters
            and states among posterior draws, at its last time), or a dict of these.
        names: Quantities to draw; None for all.
        truth: Changes nothing: ranks need none.
        level: Of the band, 0.9 by default.
        last: Number of steps whose ranks are counted, up to the last; None for all.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    found = {label: _ranks_of(one) for label, one in trees.items()}
    names = chosen(list(dict.fromkeys(name for one in found.values() for name in one)), asked)
    figure, axes = grid(len(names), 2.2, sharex=True, sharey=True)
    for axis, name in zip(axes, names, strict=True):
        own = {label: one[name][~np.isnan(one[name])] for label, one in found.items() if name in one}
        points = np.linspace(0, 1, NUM_PARTS + 1)
        low, high = band_of(asked.level, min(map(len, own.values())))
        said = f"{asked.level:.0%} band of uniform ranks"
        axis.fill_between(points, low - points, high - points, color=GAP, linewidth=0, label=said)
        axis.plot(points, low - points, color=QUIET, linewidth=0.7)
        axis.plot(points, high - points, color=QUIET, linewidth=0.7)
        axis.axhline(0.0, color=INK, linewidth=0.7)
        for label, _, look in styled(trees):
            if label in own:
                shares = np.mean(own[label][:, None] <= points, axis=0)
                said = label or "ranks"
                axis.plot(points, shares - points, color=look.color, linestyle=look.dashes, linewidth=1.5, label=said)
        axis.set_title(f"{name} ({min(map(len, own.values()))} ranks)", fontsize=9)
        axis.set_xlim(0, 1)
        axis.set_xticks([0, 0.5, 1])
        if axis.get_subplotspec().is_last_row():
            axis.set_xlabel("rank")
    figure.supylabel("share below - rank", fontsize=9)
    legend_below(figure, *axes)
    return figure


@functools.lru_cache
def band_of(level: float, num_ranks: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the band in which the shares of uniform ranks stay, all of them, with a probability."""
    points = np.linspace(0, 1, NUM_PARTS + 1)
    inside, outside = level, 1.0
    for _ in range(16):
        pointwise = (inside + outside) / 2
        is_enough = chance_inside(pointwise, min(num_ranks, MOST_FOR_BAND)) >= level
        inside, outside = (inside, pointwise) if is_enough else (pointwise, outside)
    low, high = binom.interval(outside, num_ranks, points)
    return low / num_ranks, high / num_ranks


def chance_inside(pointwise: float, num_ranks: int) -> float:
    """Return the probability that uniform ranks stay inside pointwise bands at all points.

    The number of ranks below a point is a Markov chain in the point: of the ranks above it, each lies before the next
    point with the same probability.
    """
    points = np.linspace(0, 1, NUM_PARTS + 1)
    low, high = (np.nan_to_num(ends).astype(int) for ends in binom.interval(pointwise, num_ranks, points))
    counts, chances = np.array([0]), np.array([1.0])
    for part in range(1, NUM_PARTS):
        following = np.arange(low[part], high[part] + 1)
        step = 1 / (NUM_PARTS - part + 1)
        moves = binom.pmf(following - counts[:, None], num_ranks - counts[:, None], step)
        counts, chances = following, chances @ moves
    return float(np.sum(chances))


def _ranks_of(one: Any) -> dict[str, np.ndarray]:
    """Return ranks by quantity."""
    if isinstance(one, Calibration):
        return {name: one.ranks[:, -1, index] for index, name in enumerate(one.quantities)}
    found, foretold = {}, group_of(one, "one_step")
    for name, variable in group_of(one, "filter_stats").data_vars.items():
        if not str(name).startswith(PIT):
            continue
        values, own = np.asarray(variable, float), str(name).removeprefix(PIT)
        parts = components_of(own, values.shape[1:])
        found |= {column_of(foretold[own], part): values[:, *part.place] for part in parts}
    return found

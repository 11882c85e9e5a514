"""The forecast of each observation, made before it was seen, under the data."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.labels import Component
from paramfilter.plots.contents import approximately, column_of, group_of, interval, observed_components, time_name
from paramfilter.plots.gaps import shade_gaps
from paramfilter.plots.ribbon import INNER
from paramfilter.plots.style import ALARM, INK, Asked, Look, label_time, legend_below, panels, picture, styled, thinned
from paramfilter.results.tables import values_of


@picture
def one_step(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the one-step forecast of each observation as a band under the data, a panel for each result.

    Observations outside the wide band are marked, and their share stands above the panel: with a right model it is
    about 1 - `level`. Bands of a node filter are those of a normal distribution with the forecast's mean and variance.

    Args:
        results: A result with observations, its path, `(state, history, data)`, or a dict of these to compare.
        names: Observed variables or columns to draw; None for all.
        truth: Changes nothing: the data are what was forecast.
        level: Of the wide band, 0.9 by default; the dark one holds half of the mass.
        last: Number of steps to draw, up to the last; None for all.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    parts = observed_components(next(iter(trees.values())), asked)
    cells = [(one, *row) for one in parts for row in styled(trees)]
    figure, axes = panels(len(cells), 2.2, sharex=True)
    for axis, (one, label, tree, look) in zip(axes, cells, strict=True):
        share = draw_one_step(axis, tree, one, asked, look)
        said = f"{share:.0%} of the observations outside (expected {1 - asked.level:.0%})"
        axis.set_title(f"{label}: {said}" if label else said, fontsize=9)
    shade_gaps(axes, next(iter(trees.values())))
    label_time(axes, time_name(trees))
    legend_below(figure, *axes)
    return figure


def draw_one_step(axis: Any, tree: Any, one: Component, asked: Asked, look: Look) -> float:
    """Draw the band of one component under the data; return the share of the observations outside."""
    foretold, observed = group_of(tree, "one_step")[one.name], group_of(tree, "observed_data")[one.name]
    seen, times = np.asarray(observed, float)[:, *one.place], observed["time"].to_numpy()
    low, high = interval(foretold, one, asked.level)
    is_out = (seen < low) | (seen > high)
    some = thinned(len(times))
    axis.fill_between(times[some], low[some], high[some], color=look.color, alpha=0.2, lw=0)
    inner = [end[some] for end in interval(foretold, one, INNER)]
    said = f"one-step forecast: median, {INNER:.0%} and {asked.level:.0%} intervals{approximately(tree)}"
    axis.fill_between(times[some], *inner, color=look.color, alpha=0.28, lw=0)
    axis.plot(times[some], values_of(foretold, one, "q50")[some], color=look.color, lw=0.9, label=said)
    axis.plot(times, np.where(is_out, np.nan, seen), ".", color=INK, ms=3, label="data", rasterized=True)
    outside = {"color": ALARM, "ms": 5, "mew": 1.2, "linestyle": "", "marker": "x"}
    axis.plot(times, np.where(is_out, seen, np.nan), **outside, label="outside", rasterized=True)
    axis.set_ylabel(column_of(observed, one))
    axis.margins(x=0.01)
    num_seen = np.sum(np.isfinite(seen))
    return float(np.sum(is_out) / num_seen) if num_seen else float("nan")

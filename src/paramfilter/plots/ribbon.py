"""A mean over time with the intervals around it: what `parameters`, `state` and `dashboard` draw."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.labels import Component
from paramfilter.plots.contents import interval, variable_of
from paramfilter.plots.style import Look, thinned
from paramfilter.results.tables import values_of

INNER = 0.5
"""Level of the darker ribbon inside."""


def draw_ribbon(
    axis: Any, tree: Any, group: str, one: Component, level: float, look: Look, label: str, filled: bool = True
) -> list[float]:
    """Draw the mean and two intervals of a component.

    Args:
        axis: Where to draw.
        tree: The result.
        group: `filtered` or `filtered_state`.
        one: The component.
        level: Of the wide interval; the narrow one holds half of the mass.
        look: Color and line style.
        label: For the legend.
        filled: Fill the intervals; False draws the ends of the wide one as thin lines, for results that overlap.

    Returns:
        How low and how high the wide interval goes once it has settled.
    """
    variable = variable_of(tree, group, one)
    times = variable["time"].to_numpy()
    some = thinned(len(times))
    low, high = (end[some] for end in interval(variable, one, level))
    mean, times = values_of(variable, one, "mean")[some], times[some]
    if filled:
        axis.fill_between(times, low, high, color=look.color, alpha=0.2, lw=0)
        inner = [end[some] for end in interval(variable, one, INNER)]
        axis.fill_between(times, *inner, color=look.color, alpha=0.28, lw=0)
    else:
        for end in (low, high):
            axis.plot(times, end, color=look.color, linestyle=look.dashes, linewidth=0.7, alpha=0.8)
    axis.plot(times, mean, color=look.color, linestyle=look.dashes, linewidth=1.4, label=label)
    settled = slice(len(mean) // 20, None)
    return [np.nanmin(low[settled], initial=np.inf), np.nanmax(high[settled], initial=-np.inf)]


def label_of(level: float) -> str:
    """Name the parts of a ribbon."""
    return f"mean, {INNER:.0%} and {level:.0%} intervals"

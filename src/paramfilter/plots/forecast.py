"""A fan of the coming observations, after the last ones seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.labels import Component
from paramfilter.plots.contents import column_of, group_of, observed_components, time_name
from paramfilter.plots.ribbon import INNER
from paramfilter.plots.style import INK, QUIET, Asked, Look, legend_below, panels, picture, styled

PAST_PER_STEP_AHEAD = 2
FEWEST_PAST = 20


@picture
def forecast(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw median and intervals of the coming observations, after the last ones seen, a panel for each result.

    The time axis goes on with the dates or numbers of the observations; where these are texts, it counts steps.

    Args:
        results: A result with a forecast (`to_datatree(..., forecast=pf.predict(...))`), its path, or a dict of these.
        names: Observed variables or columns to draw; None for all.
        truth: What came in the end, by name, with a leading axis of steps ahead.
        level: Of the wide interval, 0.9 by default; the dark one holds half of the draws.
        last: Number of past observations to draw; None for twice as many as there are steps ahead.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    parts = observed_components(next(iter(trees.values())), asked)
    cells = [(one, *row) for one in parts for row in styled(trees)]
    figure, axes = panels(len(cells), 2.2, sharex=True)
    for axis, (one, label, tree, look) in zip(axes, cells, strict=True):
        draw_forecast(axis, tree, one, asked, Look(look.color, "-"))
        axis.set_title(label, fontsize=9)
        if axis.get_subplotspec().is_last_row():
            axis.set_xlabel(time_name({"": tree}) if "time" in tree["predictions"].coords else "steps ahead")
    for first in range(0, len(axes), len(trees)):
        ends = [axis.get_ylim() for axis in axes[first : first + len(trees)]]
        for axis in axes[first : first + len(trees)]:
            axis.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))
    legend_below(figure, *axes)
    return figure


def draw_forecast(axis: Any, tree: Any, one: Component, asked: Asked, look: Look) -> None:
    """Draw the last observations and the fan of one component of one result into a panel."""
    name, place = one
    coming = group_of(tree, "predictions")
    observed = group_of(tree, "observed_data")[name]
    seen, num_ahead = np.asarray(observed, float)[:, *place], coming.sizes["ahead"]
    num_past = asked.last or max(FEWEST_PAST, PAST_PER_STEP_AHEAD * num_ahead)
    num_past = min(len(seen), num_past)
    has_times = "time" in coming.coords
    past = observed["time"].to_numpy()[-num_past:] if has_times else np.arange(1 - num_past, 1)
    ahead = coming["time"].to_numpy() if has_times else coming["ahead"].to_numpy()
    axis.plot(past, seen[-num_past:], ".-", color=QUIET, lw=0.7, ms=4, label="data")
    draws = np.asarray(coming[name], float)[..., *place].reshape(-1, num_ahead)
    for inside, alpha in ((asked.level, 0.2), (INNER, 0.3)):
        low, high = np.quantile(draws, [0.5 - inside / 2, 0.5 + inside / 2], axis=0)
        axis.fill_between(ahead, low, high, color=look.color, alpha=alpha, linewidth=0)
    said = f"forecast: median, {INNER:.0%} and {asked.level:.0%} intervals"
    axis.plot(ahead, np.median(draws, axis=0), color=look.color, linewidth=1.4, label=said)
    if name in asked.truth:
        came = np.asarray(asked.truth[name])[:num_ahead, *place]
        axis.plot(ahead[: len(came)], came, "o", color=INK, ms=3, mfc="none", label="what came")
    axis.axvline(past[-1], color=QUIET, linewidth=0.8, linestyle=":")
    axis.set_ylabel(column_of(observed, one))
    axis.margins(x=0.01)

"""A fan of what may come, after the last of what has been seen."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.labels import components_of
from paramfilter.plots.contents import Results, chosen, group_of, opened
from paramfilter.plots.style import INK, QUIET, Asked, coloured, legend_above, panels, picture

PAST_FOR_EACH_STEP_AHEAD = 2
FEWEST_PAST = 20


@picture
def forecast(results: Results, asked: Asked) -> Any:
    """Draw median and intervals of the coming observations, after the last ones seen.

    Args:
        results: One result with predictions, or a dict of results.
        names: Observed variables to draw.
        truth: What came in the end, by name, with a leading axis of steps ahead.
        level: Of the wide interval; the dark one is half of all.
    """
    trees = opened(results)
    first = next(iter(trees.values()))
    observed = group_of(first, "observed_data")
    wanted = chosen([str(name) for name in observed.data_vars], asked)
    parts = [one for name in wanted for one in components_of(name, observed[name].shape[1:])]
    figure, axes = panels(len(parts), 2.4, sharex=True)
    for axis, one in zip(axes, parts, strict=True):
        name, place = one
        seen = np.asarray(observed[name], float)[:, *place]
        num_ahead = group_of(first, "predictions").sizes["ahead"]
        num_past = min(len(seen), max(FEWEST_PAST, PAST_FOR_EACH_STEP_AHEAD * num_ahead))
        axis.plot(np.arange(1 - num_past, 1), seen[-num_past:], ".-", color=QUIET, lw=0.7, ms=4, label="data")
        for legend, tree, colour in coloured(trees):
            drawn = np.asarray(group_of(tree, "predictions")[name], float)[..., *place]
            _fan(axis, drawn.reshape(-1, drawn.shape[-1]), asked.level, colour, legend or "forecast")
        if name in asked.truth:
            came = np.asarray(asked.truth[name])[:, *place]
            axis.plot(np.arange(1, 1 + len(came)), came, ".", color=INK, ms=4, label="what came")
        axis.axvline(0, color=QUIET, linewidth=0.8, linestyle=":")
        axis.set_ylabel(str(one))
    legend_above(axes[0])
    axes[-1].set_xlabel("steps from the last observation")
    return figure


def _fan(axis: Any, draws: np.ndarray, level: float, colour: str, label: str) -> None:
    ahead = np.arange(1, 1 + draws.shape[1])
    for inside, alpha in ((level, 0.2), (0.5, 0.3)):
        low, high = np.quantile(draws, [0.5 - inside / 2, 0.5 + inside / 2], axis=0)
        axis.fill_between(ahead, low, high, color=colour, alpha=alpha, linewidth=0)
    axis.plot(ahead, np.median(draws, axis=0), color=colour, linewidth=1.4, label=label)

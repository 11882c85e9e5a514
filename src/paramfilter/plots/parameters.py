"""Parameters over time, from the prior on."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.labels import Component
from paramfilter.plots.contents import components_drawn, time_name, true_path
from paramfilter.plots.density import draws_of
from paramfilter.plots.gaps import shade_gaps
from paramfilter.plots.ribbon import draw_ribbon, label_of
from paramfilter.plots.style import INK, QUIET, Asked, label_time, legend_below, note, panels, picture, styled, thinned

CUT_SHARE = 0.35
"""Of the panel's height that what was learned has at least; a wider prior is cut, and an arrow says so."""


@picture
def parameters(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw posterior mean and intervals of each parameter after each observation, with the prior at the left.

    The intervals are those of the quantiles that `run` records. Several results are drawn as lines, the ends of the
    `level` interval thin. A prior much wider than the posterior is cut at the edge of the panel, with an arrow.

    Args:
        results: A result, its path, `(state, history)`, or a dict of these to compare.
        names: Parameters to draw, such as "phi" or "phi[0]"; None for the first twelve.
        truth: Known values by name, drawn as dashed lines; with a leading time axis, values that change.
        level: Of the wide interval, 0.9 by default; the dark one holds half of the mass.
        last: Number of steps to draw, up to the last; None for all, with the prior in front.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    parts, remark = components_drawn(trees, "filtered", asked)
    figure, axes = panels(len(parts), 1.8, sharex=True)
    for axis, one in zip(axes, parts, strict=True):
        draw_parameter(axis, trees, one, asked)
    shade_gaps(axes, next(iter(trees.values())))
    label_time(axes, time_name(trees))
    legend_below(figure, *axes)
    note(figure, remark)
    return figure


def draw_parameter(axis: Any, trees: dict[str, Any], one: Component, asked: Asked, what: str = "") -> None:
    """Draw one parameter of each result, its prior and its true value into a panel; `what` begins the legend."""
    ends = []
    for label, tree, look in styled(trees):
        said = label or what + label_of(asked.level)
        ends += draw_ribbon(axis, tree, "filtered", one, asked.level, look, said, filled=len(trees) == 1)
    if len(trees) > 1:
        axis.plot([], [], color=QUIET, linewidth=0.7, label=f"thin: {asked.level:.0%} interval")
    times = next(iter(trees.values()))["filtered"]["time"].to_numpy()
    if (path := true_path(asked, one, len(times))) is not None:
        style = {"color": INK, "linewidth": 1, "linestyle": "--", "label": "truth"}
        if np.ptp(path) > 0:
            axis.plot(times[thinned(len(times))], path[thinned(len(times))], **style)
        else:
            axis.axhline(path[0], **style)
        ends += [np.min(path), np.max(path)]
    if asked.last is None:
        _draw_prior(axis, next(iter(trees.values())), one, asked.level, ends)
    elif np.isfinite(ends).all() and max(ends) > min(ends):
        axis.set_ylim(*_padded(min(ends), max(ends)))
    axis.set_ylabel(str(one))
    axis.margins(x=0.01)


def _draw_prior(axis: Any, tree: Any, one: Component, level: float, ends: list[float]) -> None:
    """Draw the prior's interval as a bar in front of the first step, and choose what the panel shows."""
    draws, _ = draws_of(tree, "prior", one)
    prior = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2])
    low, high = _padded(*_shown(np.array([min(ends), max(ends)]), prior))
    times = np.asarray(axis.convert_xunits(tree["filtered"]["time"].to_numpy()[[0, -1]]), float)
    before = times[0] - 0.02 * max(times[1] - times[0], 1.0)
    # The prior is older than all times: its bar stands in front of the first of them.
    axis.plot([before, before], prior, color=QUIET, linewidth=4, alpha=0.55, solid_capstyle="butt", label="prior")
    for end, marker, is_cut in ((low, "v", prior[0] < low), (high, "^", prior[1] > high)):
        if is_cut:
            axis.plot([before], [end], marker, color=QUIET, markersize=5, clip_on=False)
    axis.set_ylim(low, high)
    margin = 0.01 * max(times[1] - times[0], 1.0)
    axis.set_xlim(before - margin, times[1] + margin)


def _shown(learned: np.ndarray, prior: np.ndarray) -> tuple[float, float]:
    """Return what a panel shows: the prior too, as long as what was learned keeps its share of the height."""
    low, high = min(learned[0], prior[0]), max(learned[1], prior[1])
    height = learned[1] - learned[0]
    if not np.isfinite([low, high]).all():
        return float(prior[0]), float(prior[1])
    room = height / CUT_SHARE - height
    if height > 0 and high - low > height + room:
        low, high = max(low, learned[0] - room / 2), min(high, learned[1] + room / 2)
    return float(low), float(high)


def _padded(low: float, high: float) -> tuple[float, float]:
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin

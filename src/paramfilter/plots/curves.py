"""How fast algorithms come to the truth, and how large the error of a belief is at each order."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.beliefs import ERROR_LIMIT
from paramfilter.errors import DataError
from paramfilter.plots.contents import Results, components_drawn, group_of, opened, over_time, true_value
from paramfilter.plots.style import ALARM, COLOURS, MOST_POINTS, Asked, coloured, legend_above, panels, picture

DECADES_SHOWN = 1e-4
"""Lowest point of an axis, as a share of its highest."""


@picture
def convergence(results: Results, asked: Asked) -> Any:
    """Draw the distance of each posterior mean from the truth over time, with the posterior sd dotted.

    A right posterior is off by about its own sd; a line far above its dotted one is surer than it may be. `level` has
    no part in this picture.
    """
    trees = opened(results)
    if not asked.truth:
        raise DataError('convergence needs truth={"name": value} to measure distances from.')
    parts = [one for one in components_drawn(trees, "filtered", asked) if true_value(asked, one) is not None]
    if not parts:
        raise DataError(f"truth names {list(asked.truth)}, and none of them is a parameter of the result.")
    figure, axes = panels(len(parts), 2.4, sharex=True)
    for axis, one in zip(axes, parts, strict=True):
        for legend, tree, colour in coloured(trees):
            _, mean, sd = over_time(tree, "filtered", one)
            # Evenly spaced on a logarithmic axis.
            steps = np.unique(np.geomspace(1, len(mean), min(len(mean), MOST_POINTS)).astype(int))
            axis.plot(steps, np.abs(mean - true_value(asked, one))[steps - 1], color=colour, lw=1.2, label=legend)
            axis.plot(steps, sd[steps - 1], color=colour, linewidth=1.6, linestyle=":")
        axis.set_xscale("log")
        axis.set_yscale("log")
        low, high = axis.get_ylim()  # the sd of a filter that has collapsed would take all the room
        axis.set_ylim(max(low, DECADES_SHOWN * high), high)
        axis.set_ylabel(f"|mean - truth|, {one}")
    if len(trees) > 1:
        legend_above(axes[0])
    axes[-1].set_xlabel("observations; dotted: the posterior's own sd")
    return figure


@picture
def error_against_order(results: Results, asked: Asked) -> Any:
    """Draw how far beliefs are from the exact ones, in nats, against the order (or number of nodes) of each.

    `results` is a dict from order to result; `names`, `truth` and `level` have no part in this picture.
    """
    trees = opened(results)
    try:
        orders = np.array([float(label) for label in trees])
    except ValueError:
        raise DataError(f"the keys of results must be orders, such as {{3: ..., 5: ...}}; got {list(trees)}.") from None
    errors = [np.asarray(group_of(tree, "filter_stats")["approximation_error"], float) for tree in trees.values()]
    figure, (axis,) = panels(1, 3.2)
    last = np.array([one[-1] for one in errors])
    worst = np.array([np.max(np.where(np.isnan(one), np.inf, one)) for one in errors])
    place = np.argsort(orders)
    for values, colour, label in ((worst, COLOURS[1], "worst of all steps"), (last, COLOURS[0], "at the end")):
        axis.plot(orders[place], values[place], "o-", color=colour, label=label)
    axis.axhline(ERROR_LIMIT, color=ALARM, linestyle="--", linewidth=1, label=f"flagged above {ERROR_LIMIT}")
    axis.set_yscale("log")
    axis.set_xticks(orders)
    axis.set_xlabel("order")
    axis.set_ylabel("error of the beliefs, nats")
    axis.legend()
    return figure

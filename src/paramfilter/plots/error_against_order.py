"""The error of approximate beliefs against their order."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.beliefs import ERROR_LIMIT
from paramfilter.errors import DataError
from paramfilter.plots.contents import group_of
from paramfilter.plots.style import ALARM, COLORS, DASHES, Asked, legend_below, panels, picture


@picture
def error_against_order(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw how far beliefs are from the exact ones, in nats, against the order (or number of nodes) of each.

    Args:
        results: A dict from order to result, such as {5: tree, 9: other}.
        names: Changes nothing: the error is that of all parameters together.
        truth: Changes nothing: the error is measured against the exact belief.
        level: Changes nothing: no interval is drawn.
        last: Number of steps to take the worst of, up to the last; None for all.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    try:
        orders = np.array([float(label) for label in trees])
    except ValueError:
        raise DataError(f"the keys of results must be orders, such as {{3: ..., 5: ...}}; got {list(trees)}.") from None
    errors = [np.asarray(group_of(tree, "filter_stats")["approximation_error"], float) for tree in trees.values()]
    figure, (axis,) = panels(1, 3.0)
    last = np.array([one[-1] for one in errors])
    worst = np.array([np.max(np.where(np.isnan(one), np.inf, one)) for one in errors])
    place = np.argsort(orders)
    for values, index, label in ((worst, 1, "worst of all steps"), (last, 0, "at the end")):
        look = {"color": COLORS[index], "linestyle": DASHES[index], "marker": "os"[index]}
        axis.plot(orders[place], values[place], **look, label=label)
    axis.axhline(ERROR_LIMIT, color=ALARM, linestyle=":", linewidth=1, label=f"flagged above {ERROR_LIMIT}")
    axis.set_yscale("log")
    axis.set_xticks(orders)
    axis.set_xlabel("order, or number of nodes")
    axis.set_ylabel("error of the beliefs, nats")
    legend_below(figure, axis)
    return figure

"""Which of several models the data speak for, over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.errors import DataError
from paramfilter.plots.contents import group_of
from paramfilter.plots.style import GAP, INK, Asked, label_time, legend_below, panels, picture, styled, thinned

STRONG = np.log(20.0)
"""A log Bayes factor that R. Kass and A. Raftery, Bayes Factors (1995), call strong evidence: odds of 20 to 1."""


@picture
def evidence(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the cumulative log Bayes factor of each model against the first, over time.

    A line above zero means that the data so far speak for that model; beyond the gray band the odds are more than 20 to
    1. All results must have taken in the same observations.

    Args:
        results: A dict of at least two results of the same data; all are compared with the first.
        names: Labels of the results to draw beside the first; None for all.
        truth: Changes nothing: the evidence does not depend on it.
        level: Changes nothing: no interval is drawn.
        last: Number of steps to draw, which then start from zero; None for all.
        title: Replaces the title; "" for none.
    """
    if len(trees) < 2:
        raise DataError('evidence compares models: pass a dict of at least two results, {"A": tree, "B": other}.')
    steps = {
        label: np.asarray(group_of(tree, "filter_stats")["log_evidence_increment"]) for label, tree in trees.items()
    }
    if len({len(one) for one in steps.values()}) > 1:
        lengths = {label: len(one) for label, one in steps.items()}
        raise DataError(f"evidence needs results of the same observations; the histories have lengths {lengths}.")
    first, *others = steps
    if asked.names is not None:
        others = [label for label in others if label in asked.names]
    figure, (axis,) = panels(1, 3.0)
    axis.axhspan(-STRONG, STRONG, color=GAP, linewidth=0, label="odds below 20 to 1")
    axis.axhline(0.0, color=INK, linewidth=0.8)
    for label, tree, look in styled(trees):
        if label in others:
            times = tree["filter_stats"]["time"].to_numpy()
            factor, some = np.cumsum(steps[label] - steps[first]), thinned(len(times))
            said = f"{label}: {factor[-1]:+.1f} at the end"
            axis.plot(times[some], factor[some], color=look.color, linestyle=look.dashes, linewidth=1.5, label=said)
    axis.set_ylabel(f"log Bayes factor against {first}")
    axis.margins(x=0.01)
    label_time([axis])
    legend_below(figure, axis)
    return figure

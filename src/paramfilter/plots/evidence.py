"""Which of several models the data speak for, over time."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.errors import DataError
from paramfilter.plots.contents import group_of, time_name
from paramfilter.plots.style import GAP, INK, Asked, label_time, legend_below, panels, picture, styled, thinned

STRONG = np.log(20.0)
"""A log Bayes factor that R. Kass and A. Raftery, Bayes Factors (1995), call strong evidence: odds of 20 to 1."""


@picture
def evidence(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the cumulative log Bayes factor of each model against the first, over time.

    A line above zero means that the data so far speak for that model; beyond the gray band the odds are more than 20 to
    1. All results must have taken in the same observations.

    The last point is the difference of the states' `log_evidence`, and earlier ones go back from there by the steps'
    increments. With node filters the line need not start at exactly zero: each renewal of the nodes estimates the
    evidence of all data again.

    Args:
        results: A dict of at least two results of the same data; all are compared with the first.
        names: Labels of the results to draw beside the first; None for all.
        truth: Changes nothing: the evidence does not depend on it.
        level: Changes nothing: no interval is drawn.
        last: Number of steps to draw, which then start from zero; None for all.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    if len(trees) < 2:
        raise DataError('evidence compares models: pass a dict of at least two results, {"A": tree, "B": other}.')
    steps = {}
    for label, tree in trees.items():
        gains = np.asarray(group_of(tree, "filter_stats")["log_evidence_increment"], float)
        steps[label] = np.where(np.isfinite(gains), gains, 0.0)  # a step that was rolled back adds nothing
    for what, counts in (
        ("histories", {label: len(one) for label, one in steps.items()}),
        ("runs", {label: int(tree.attrs["num_observations"]) for label, tree in trees.items()}),
    ):
        if len(set(counts.values())) > 1:
            raise DataError(f"evidence needs results of the same observations; the {what} have lengths {counts}.")
    first, *others = steps
    if asked.names is not None:
        others = [label for label in others if label in asked.names]
    figure, (axis,) = panels(1, 3.0)
    axis.axhspan(-STRONG, STRONG, color=GAP, linewidth=0, label="odds below 20 to 1")
    axis.axhline(0.0, color=INK, linewidth=0.8)
    for label, tree, look in styled(trees):
        if label in others:
            times = tree["filter_stats"]["time"].to_numpy()
            factor = np.cumsum(steps[label] - steps[first])
            if asked.last is None:  # renewed nodes estimate the evidence of all data again
                factor += tree.attrs["log_evidence"] - trees[first].attrs["log_evidence"] - factor[-1]
            some = thinned(len(times))
            said = f"{label}: {factor[-1]:+.1f} at the end"
            # From the end, so that thinning keeps the last point.
            style = {"color": look.color, "linestyle": look.dashes, "linewidth": 1.5, "label": said}
            axis.plot(times[::-1][some], factor[::-1][some], **style)
    axis.set_ylabel(f"log Bayes factor against {first}")
    axis.margins(x=0.01)
    label_time([axis], time_name(trees))
    legend_below(figure, axis)
    return figure

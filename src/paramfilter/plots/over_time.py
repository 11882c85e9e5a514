"""Pictures whose panels stand below each other under one time axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from paramfilter.errors import DataError
from paramfilter.labels import Component
from paramfilter.plots.contents import (
    Asked,
    components_drawn,
    first_of,
    group_of,
    observed_components,
    stat,
    time_name,
)
from paramfilter.plots.picture import picture
from paramfilter.plots.ribbons import (
    draw_data,
    draw_forecast,
    draw_one_step,
    draw_parameter,
    draw_state,
    shade_gaps,
)
from paramfilter.plots.style import GAP, INK, Look, finish, panels, share_ends, styled

STRONG = np.log(20.0)
"""A log Bayes factor that R. Kass and A. Raftery, Bayes Factors (1995), call strong evidence: odds of 20 to 1."""

NO_DATA = "data are not drawn: their shape or size is not the state's"


@picture
def parameters(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw posterior mean and intervals of each parameter after each observation, with the prior at the left.

    The intervals are those of the quantiles that `run` records. Several results are drawn as lines, the ends of the
    `level` interval thin. A prior much wider than the posterior is cut at the edge of the panel.
    """
    parts, remark = components_drawn(trees, "filtered", asked)
    figure, axes = panels(len(parts), 1.8, sharex=True)
    for axis, one in zip(axes, parts, strict=True):
        draw_parameter(axis, trees, one, asked)
    shade_gaps(axes, first_of(trees))
    return finish(figure, axes, remark, time_name(trees, asked))


@picture
def state(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw filtered mean and intervals of each component of the state, a panel for each result.

    Data are drawn behind a state that they have the shape and size of: an array behind an array, component by
    component, or a part of y behind the part of x that has its name. `truth` has true states, each with a leading time
    axis.
    """
    parts, remark = components_drawn(trees, "filtered_state", asked)
    has_data = []

    def draw(axis: Any, tree: Any, one: Component, look: Look) -> str:
        has_data.append(draw_data(axis, tree, one, asked.level))
        draw_state(axis, tree, one, asked, look)
        return ""

    figure, axes = _panel_for_each_result(trees, parts, draw, 2.1 if len(trees) == 1 else 1.7)
    shade_gaps(axes, first_of(trees))
    is_left_out = not any(has_data) and "observed_data" in first_of(trees).children
    remarks = [one for one in (remark, NO_DATA if is_left_out else "") if one]
    return finish(figure, axes, "; ".join(remarks), time_name(trees, asked))


@picture
def one_step(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the one-step forecast of each observation as a band under the data, a panel for each result.

    Observations outside the wide band are marked, and their share stands above the panel: with a right model it is
    about 1 - `level`. Bands of a node filter are those of a normal distribution with the forecast's mean and variance.
    `names` takes observed variables or columns.
    """

    def draw(axis: Any, tree: Any, one: Component, look: Look) -> str:
        share = draw_one_step(axis, tree, one, asked, look)
        return f"{share:.0%} of the observations outside (expected {1 - asked.level:.0%})"

    figure, axes = _panel_for_each_result(trees, observed_components(first_of(trees), asked), draw, 2.2)
    shade_gaps(axes, first_of(trees))
    return finish(figure, axes, times=time_name(trees, asked))


@picture
def forecast(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw median and intervals of the coming observations, after the last ones seen, a panel for each result.

    The results need a forecast: `to_datatree(..., forecast=pf.predict(...))`. The time axis goes on with the dates or
    numbers of the observations; where these are texts, it counts steps. `names` takes observed variables or columns,
    `truth` what came in the end, and `last` is the number of past observations to draw, by default twice as many as
    there are steps ahead.
    """

    def draw(axis: Any, tree: Any, one: Component, look: Look) -> str:
        draw_forecast(axis, tree, one, asked, look)
        return ""

    figure, axes = _panel_for_each_result(trees, observed_components(first_of(trees), asked), draw, 2.2)
    has_times = "time" in first_of(trees)["predictions"].coords
    return finish(figure, axes, times=time_name(trees, asked) if has_times else asked.label("steps ahead"))


def _panel_for_each_result(
    trees: dict[str, Any], parts: list[Component], draw: Callable, height: float
) -> tuple[Any, list[Any]]:
    """Draw each component of each result into a panel, under its label and what `draw` returns."""
    cells = [(one, *row) for one in parts for row in styled(trees)]
    figure, axes = panels(len(cells), height, sharex=True)
    for axis, (one, label, tree, look) in zip(axes, cells, strict=True):
        said = draw(axis, tree, one, look)
        axis.set_title(": ".join(filter(None, [label, said])))
    for first in range(0, len(axes), len(trees)):  # results of one component share their scale
        share_ends(axes[first : first + len(trees)], "y")
    return figure, axes


@picture
def evidence(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the cumulative log Bayes factor of each model against the first, over time.

    A line above zero means that the data so far speak for that model; beyond the gray band the odds are more than 20 to
    1. `results` is a dict of at least two results of the same observations, and `names` takes labels of these. With
    `last` the lines start from zero.

    The last point is the difference of the states' `log_evidence`, and earlier ones go back from there by the steps'
    increments. With node filters the line need not start at exactly zero: each renewal of the nodes estimates the
    evidence of all data again.
    """
    if len(trees) < 2:
        raise DataError('evidence compares models: pass a dict of at least two results, {"A": tree, "B": other}.')
    gains = {label: stat(tree, "log_evidence_increment") for label, tree in trees.items()}
    lengths = {label: (len(gains[label]), int(tree.attrs["num_observations"])) for label, tree in trees.items()}
    if len(set(lengths.values())) > 1:
        raise DataError(f"evidence needs histories and runs of the same observations; their lengths are {lengths}.")
    # A step that was rolled back adds nothing.
    steps = {label: np.where(np.isfinite(one), one, 0.0) for label, one in gains.items()}
    first = next(iter(trees))
    figure, (axis,) = panels(1, 3.0)
    axis.axhspan(-STRONG, STRONG, color=GAP, linewidth=0, label="odds below 20 to 1")
    axis.axhline(0.0, color=INK, linewidth=0.8)
    for label, tree, look in styled(trees):
        if label == first or (asked.names is not None and label not in asked.names):
            continue
        factor = np.cumsum(steps[label] - steps[first])
        if asked.last is None:  # renewed nodes estimate the evidence of all data again
            factor += tree.attrs["log_evidence"] - trees[first].attrs["log_evidence"] - factor[-1]
        times = group_of(tree, "filter_stats")["time"].to_numpy()
        axis.plot(times, factor, **look.line(), label=f"{label}: {factor[-1]:+.1f} at the end")
    axis.set_ylabel(asked.label(f"log Bayes factor against {first}"))
    axis.margins(x=0.01)
    return finish(figure, [axis], times=time_name(trees, asked))

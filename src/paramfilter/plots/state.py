"""The filtered state over time, with the data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paramfilter.errors import DataError
from paramfilter.labels import Component
from paramfilter.plots.contents import approximately, components_drawn, time_name
from paramfilter.plots.gaps import shade_gaps
from paramfilter.plots.observed import draw_data
from paramfilter.plots.ribbon import draw_ribbon, label_of
from paramfilter.plots.style import INK, Asked, Look, label_time, legend_below, note, panels, picture, styled

NO_DATA = "data are not drawn: their shape is not the state's"


@picture
def state(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw filtered mean and intervals of each component of the state, a panel for each result.

    Data are drawn behind a state that they have the shape of: an array behind an array, component by component, or a
    part of y behind the part of x that has its name. Where data lie far from the state (a volatility, the logarithm of
    a rate), they have a scale of their own on the right.

    Args:
        results: A result, its path, `(state, history, data)`, or a dict of these to compare.
        names: Components to draw, such as "x[0]"; None for the first twelve.
        truth: True states by name, each with a leading time axis.
        level: Of the wide interval, 0.9 by default; the dark one holds half of the mass.
        last: Number of steps to draw, up to the last; None for all.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    parts, remark = components_drawn(trees, "filtered_state", asked)
    cells = [(one, *row) for one in parts for row in styled(trees)]
    figure, axes = panels(len(cells), 2.1 if len(trees) == 1 else 1.7, sharex=True)
    has_data = []
    for axis, (one, label, tree, look) in zip(axes, cells, strict=True):
        has_data.append(draw_state(axis, tree, one, asked, look))
        axis.set_ylabel(str(one))
        if label:
            axis.set_title(label, fontsize=9)
    for first in range(0, len(axes), len(trees)):  # results of one component share their scale
        _share_y(axes[first : first + len(trees)])
    shade_gaps(axes, next(iter(trees.values())))
    label_time(axes, time_name(trees))
    legend_below(figure, *axes)
    if not any(has_data) and "observed_data" in next(iter(trees.values())).children:
        remark = f"{remark}; {NO_DATA}" if remark else NO_DATA
    note(figure, remark)
    return figure


def draw_state(axis: Any, tree: Any, one: Component, asked: Asked, look: Look, with_data: bool = True) -> bool:
    """Draw a component of the state of one result into a panel; return whether data were drawn."""
    has_data = with_data and draw_data(axis, tree, one, asked.level)
    said = label_of(asked.level) + approximately(tree)
    said = said if with_data else f"state: {said}"  # beside parameters of the same look
    draw_ribbon(axis, tree, "filtered_state", one, asked.level, Look(look.color, "-"), said)
    if one.name in asked.truth:
        _draw_path(axis, tree["filtered_state"][one.name], asked.truth[one.name], one, asked.last)
    axis.margins(x=0.01)
    return has_data


def _share_y(axes: Sequence[Any]) -> None:
    ends = [axis.get_ylim() for axis in axes]
    for axis in axes:
        axis.set_ylim(min(low for low, _ in ends), max(high for _, high in ends))


def _draw_path(axis: Any, variable: Any, values: Any, one: Component, last: int | None) -> None:
    values, shape = np.asarray(values), variable.shape[1:]
    if last is not None:
        values = values[-last:]
    if values.shape != shape:
        raise DataError(f"truth of {one.name!r} needs the shape of the filtered states, {shape}; got {values.shape}.")
    times = variable["time"].to_numpy()
    axis.plot(times, values[:, *one.place], color=INK, linewidth=0.8, linestyle="--", label="truth")

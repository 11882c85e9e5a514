"""Data, state, parameters, forecast and health of one run in one figure."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from paramfilter.errors import DataError
from paramfilter.labels import Component
from paramfilter.plots.contents import Asked, column_of, components_drawn, observed_components, time_name
from paramfilter.plots.health import ESS, WELL, draw_strip, warnings_of
from paramfilter.plots.picture import picture
from paramfilter.plots.ribbons import draw_forecast, draw_one_step, draw_parameter, draw_state, shade_gaps
from paramfilter.plots.style import COLORS, Look, finish, share_ends, subplots

MOST_EACH = 3
"""Components of the state, and observed ones; parameters have twice as many panels."""
STATE, DATA = Look(COLORS[0], "-"), Look(COLORS[2], "-")


@picture
def dashboard(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw one run in one figure: data with one-step forecasts, state and health at the left, parameters at the right.

    A forecast of the coming observations is drawn below the parameters, if the result has one. `truth` may have
    parameters, and states with a leading time axis.
    """
    if len(trees) > 1:
        raise DataError("dashboard draws one run; compare several with parameters, health or evidence.")
    (tree,) = trees.values()
    every = replace(asked, names=None)
    unknown, remark = components_drawn(trees, "filtered", asked, 2 * MOST_EACH)
    states, more = components_drawn(trees, "filtered_state", every, MOST_EACH)
    observed = observed_components(tree, every)[:MOST_EACH] if "observed_data" in tree.children else []
    left = [partial(_data, tree=tree, one=one, asked=every) for one in observed]
    left += [partial(draw_state, tree=tree, one=one, asked=every, look=STATE, what="state: ") for one in states]
    left += [partial(draw_strip, strip=ESS, tree=tree, look=STATE, label="_")]
    right = [partial(draw_parameter, trees=trees, one=one, asked=asked, what="parameters: ") for one in unknown]
    ahead = replace(every, truth={}, last=None)
    coming = observed[:1] if "predictions" in tree.children else []
    fans = [partial(draw_forecast, tree=tree, one=one, asked=ahead, look=DATA) for one in coming]
    columns = left, right + fans
    figure, axes = subplots(max(map(len, columns)), 2, 12.0, 1.7)
    for draws, column in zip(columns, axes.T, strict=True):
        for draw, axis in zip(draws, column, strict=False):
            draw(axis)
        for axis in column[len(draws) :]:
            axis.set_axis_off()
        column[len(draws) - 1].set_xlabel(time_name(trees, asked))
    axes[len(left) - 1, 0].set_ylabel(asked.label(ESS.label))
    for axis in axes[len(right) : len(right) + len(fans), 1]:
        axis.set_title("forecast")
    over_time = [*axes[: len(left), 0], *axes[: len(right), 1]]
    share_ends(over_time, "x")
    shade_gaps(over_time, tree)
    said = "; ".join(warnings_of(trees)[""]) or WELL
    return finish(figure, list(axes.T.flat), "; ".join(filter(None, [said, remark, more])))


def _data(axis: Any, tree: Any, one: Component, asked: Asked) -> None:
    share = draw_one_step(axis, tree, one, asked, DATA)
    axis.set_title(f"{column_of(tree['observed_data'][one.name], one)}: {share:.0%} outside")

"""Data, state, parameters, forecast and health of one run in one figure."""

from __future__ import annotations

from typing import Any

from paramfilter.errors import DataError, extra
from paramfilter.plots.contents import column_of, components_drawn, observed_components, time_name
from paramfilter.plots.forecast import draw_forecast
from paramfilter.plots.gaps import shade_gaps
from paramfilter.plots.health import STRIPS, draw_strip, warnings_of
from paramfilter.plots.one_step import draw_one_step
from paramfilter.plots.parameters import draw_parameter
from paramfilter.plots.state import draw_state
from paramfilter.plots.style import COLORS, EXTRA, INK, Asked, Look, legend_below, note, picture

MOST_EACH = 3
"""Components of the state, and observed ones; parameters have twice as many panels."""
LOOKS = Look(COLORS[0], "-"), Look(COLORS[2], "-")


@picture
def dashboard(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw one run in one figure: data with one-step forecasts, state and health at the left, parameters at the right.

    A forecast of the coming observations is drawn below the parameters, if the result has one.

    Args:
        results: One result, its path, or `(state, history)` with or without the data.
        names: Parameters to draw; None for the first six.
        truth: Known parameters and true states by name; states have a leading time axis.
        level: Of the wide intervals, 0.9 by default; the dark ones hold half of the mass.
        last: Number of steps to draw, up to the last; None for all.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    if len(trees) > 1:
        raise DataError("dashboard draws one run; compare several with parameters, health or evidence.")
    (tree,) = trees.values()
    every = Asked(None, asked.truth, asked.level, asked.last)
    unknown, remark = components_drawn(trees, "filtered", asked, 2 * MOST_EACH)
    states, more = components_drawn(trees, "filtered_state", every, MOST_EACH)
    observed = observed_components(tree, every)[:MOST_EACH] if "observed_data" in tree.children else []
    strip = STRIPS[0]
    left = [lambda axis, one=one: _data(axis, tree, one, every) for one in observed]
    left += [lambda axis, one=one: _state(axis, tree, one, every) for one in states]
    right = [lambda axis, one=one: draw_parameter(axis, trees, one, asked, "parameters: ") for one in unknown]
    coming = observed[:1] if "predictions" in tree.children else []
    ahead = [lambda axis, one=one: _forecast(axis, tree, one, every) for one in coming]
    figure, axes = _columns(len(left) + 1, len(right) + len(ahead))
    for axis, draw in zip([*axes[0], *axes[1]], [*left, lambda axis: None, *right, *ahead], strict=True):
        draw(axis)
    draw_strip(axes[0][-1], strip, tree, LOOKS[0], "")
    axes[0][-1].set(ylim=(0, 1.05), ylabel=strip.label)
    axes[0][-1].margins(x=0.01)
    over_time = [*axes[0], *axes[1][: len(right)]]
    _share_times(over_time)
    shade_gaps(over_time, tree)
    for axis in (axes[0][-1], axes[1][-1]):
        axis.set_xlabel(time_name(trees))
    legend_below(figure, *axes[0], *axes[1])
    note(figure, "; ".join(filter(None, [*warnings_of(trees).values(), remark, more])))
    return figure


def _columns(num_left: int, num_right: int) -> tuple[Any, list[list[Any]]]:
    """Return a figure with two columns of panels, each filling its height."""
    figure_class = extra("matplotlib.pyplot", EXTRA)
    figure = figure_class.figure(figsize=(12, 1.2 + 1.7 * max(num_left, num_right)), layout="constrained")
    parts = figure.add_gridspec(1, 2)
    columns = []
    for part, num in zip(parts, (num_left, num_right), strict=True):
        cells = part.subgridspec(num, 1)
        columns.append([figure.add_subplot(cell) for cell in cells])
        figure.align_ylabels(columns[-1])
    return figure, columns


def _share_times(axes: list[Any]) -> None:
    """Give panels one time axis, so that what stands below each other happened at the same time."""
    ends = [axis.get_xlim() for axis in axes]
    for axis in axes:
        axis.set_xlim(min(left for left, _ in ends), max(right for _, right in ends))


def _data(axis: Any, tree: Any, one: Any, asked: Asked) -> None:
    share = draw_one_step(axis, tree, one, asked, LOOKS[1])
    axis.set_title(f"{column_of(tree['observed_data'][one.name], one)}: {share:.0%} outside", fontsize=9, color=INK)


def _state(axis: Any, tree: Any, one: Any, asked: Asked) -> None:
    draw_state(axis, tree, one, asked, LOOKS[0], with_data=False)
    axis.set_ylabel(str(one))


def _forecast(axis: Any, tree: Any, one: Any, asked: Asked) -> None:
    draw_forecast(axis, tree, one, Asked(None, {}, asked.level), LOOKS[1])
    axis.set_title("forecast", fontsize=9)

"""Each parameter against each other, now."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.errors import extra
from paramfilter.plots.contents import components_drawn, true_value
from paramfilter.plots.density import collapsed, draw_density, draw_spike, draws_of
from paramfilter.plots.style import EXTRA, INK, Asked, Look, legend_below, note, picture, styled, without_y

MOST_PAIRS = 6
MOST_DOTS = 3000


@picture
def pairs(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw parameters in pairs: draws below the diagonal, densities on it, correlations above.

    Each density is scaled to its own peak. A filter that holds next to one value of a parameter has collapsed: it is
    drawn as a line on the diagonal and a cross below, and has no correlation.

    Args:
        results: A result, its path, `(state, history)`, or a dict of these to compare.
        names: Parameters to draw; None for the first six.
        truth: Known values by name, drawn as dashed lines.
        level: Changes nothing: no interval is drawn.
        last: Changes nothing: the draws are those of the last step.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    pyplot = extra("matplotlib.pyplot", EXTRA)
    parts, remark = components_drawn(trees, "filtered", asked, MOST_PAIRS)
    size = len(parts)
    width = max(4.5, 1 + 1.6 * size)
    figure, axes = pyplot.subplots(size, size, figsize=(width, width), layout="constrained", squeeze=False)
    gone = [collapsed({label: draws_of(tree, "posterior", one)[0] for label, tree in trees.items()}) for one in parts]
    for place, (label, tree, look) in enumerate(styled(trees)):
        found = [draws_of(tree, "posterior", one) for one in parts]
        is_gone = [label in labels for labels in gone]
        _cells(axes, found, is_gone, look, label, (place, len(trees)))
    for row, column in np.ndindex(size, size):
        _trim(axes[row, column], [str(one) for one in parts], row, column)
        _mark(axes[row, column], row, column, [true_value(asked, one) for one in parts])
    axes[0, 0].plot([], [], color=INK, linewidth=0.8, linestyle="--", label="truth" if asked.truth else "_")
    if len(trees) > 1 or any(gone) or asked.truth:
        legend_below(figure, *axes.diagonal())
    note(figure, remark)
    return figure


def _cells(
    axes: Any, found: list[tuple[np.ndarray, Any]], is_gone: list[bool], look: Look, label: str, of: tuple[int, int]
) -> None:
    """Draw one result into all cells; `of` is its place among how many."""
    draws = [values for values, _ in found]
    some = slice(None, None, max(1, len(draws[0]) // MOST_DOTS))
    for row, column in np.ndindex(axes.shape):
        axis, is_flat = axes[row, column], is_gone[row] or is_gone[column]
        if row == column and is_gone[row]:
            draw_spike(axis, draws[row], look, label)
        elif row == column:
            draw_density(axis, draws[row], found[row][1], look, label)
        elif row > column:
            dots = {"marker": "x", "ms": 6} if is_flat else {"marker": ".", "ms": 2, "alpha": 0.25, "mew": 0}
            x, y = draws[column][some], draws[row][some]
            axis.plot(x, y, linestyle="", color=look.color, rasterized=True, **dots)
        else:
            text = "–" if is_flat else f"{np.corrcoef(draws[column], draws[row])[0, 1]:+.2f}"
            height = (of[1] - of[0]) / (of[1] + 1)
            axis.text(0.5, height, text, color=look.color, ha="center", va="center", transform=axis.transAxes)


def _trim(axis: Any, labels: list[str], row: int, column: int) -> None:
    """Leave ticks and labels to the outer panels."""
    if row < column:
        axis.set_axis_off()
        return
    if row == len(labels) - 1:
        axis.set_xlabel(labels[column])
    else:
        axis.tick_params(labelbottom=False)
    if row == column:
        without_y(axis)
        axis.set_ylim(bottom=0)
    elif column == 0:
        axis.set_ylabel(labels[row])
    else:
        axis.tick_params(labelleft=False)
    axis.locator_params(nbins=4)


def _mark(axis: Any, row: int, column: int, values: list[float | None]) -> None:
    across, up = values[column], values[row]
    if row >= column and across is not None:
        axis.axvline(across, color=INK, linewidth=0.8, linestyle="--")
    if row > column and up is not None:
        axis.axhline(up, color=INK, linewidth=0.8, linestyle="--")

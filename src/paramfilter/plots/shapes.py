"""Shapes of the posterior at one moment: against the prior, and in pairs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import gaussian_kde

from paramfilter.extras import extra
from paramfilter.labels import Component
from paramfilter.plots.contents import MOST_PANELS, Results, components_drawn, group_of, opened, true_value
from paramfilter.plots.style import EXTRA, INK, QUIET, Asked, coloured, grid, picture, without_y
from paramfilter.results.tables import bounds_of

MOST_PAIRS = 6
MOST_DOTS = 3000
NUM_POINTS = 200
WIDE = 0.005
"""Share of the draws left out on each side of an axis."""


@picture
def prior_posterior(results: Results, asked: Asked) -> Any:
    """Draw the posterior of each parameter over its prior, with the contraction 1 - var(posterior) / var(prior)."""
    trees = opened(results)
    parts = components_drawn(trees, "filtered", asked)[:MOST_PANELS]
    figure, axes = grid(len(parts), 2.3)
    for axis, one in zip(axes, parts, strict=True):
        first = next(iter(trees.values()))
        before, bounds = draws_of(first, "prior", one)
        _density(axis, before, bounds, QUIET, "prior")
        contractions = []
        for legend, tree, colour in coloured(trees):
            after, _ = draws_of(tree, "posterior", one)
            _density(axis, after, bounds, colour, legend or "posterior")
            ends = np.quantile(after, [0.5 - asked.level / 2, 0.5 + asked.level / 2])
            axis.plot(ends, [0, 0], color=colour, linewidth=4, solid_capstyle="butt", clip_on=False)
            contractions.append(f"{1 - np.var(after) / np.var(before):.1%}")
        if (value := true_value(asked, one)) is not None:
            axis.axvline(value, color=INK, linewidth=1, linestyle="--", label="truth")
        axis.set_title(f"{one}: contraction {', '.join(contractions)}")
        without_y(axis)
        axis.set_ylim(bottom=0)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


@picture
def pairs(results: Results, asked: Asked) -> Any:
    """Draw each parameter against each other, now: draws below the diagonal, densities on it, correlations above.

    `level` has no part in this picture.
    """
    pyplot = extra("matplotlib.pyplot", EXTRA)
    trees = opened(results)
    parts = components_drawn(trees, "filtered", asked)[:MOST_PAIRS]
    size = len(parts)
    figure, axes = pyplot.subplots(size, size, figsize=(1 + 1.7 * size,) * 2, layout="constrained", squeeze=False)
    for legend, tree, colour in coloured(trees):
        draws = [draws_of(tree, "posterior", one)[0] for one in parts]
        correlation = np.atleast_2d(np.corrcoef(draws))
        for row, column in np.ndindex(size, size):
            axis = axes[row, column]
            if row == column:
                _density(axis, draws[row], draws_of(tree, "posterior", parts[row])[1], colour, legend)
            elif row > column:
                some = slice(None, None, max(1, len(draws[row]) // MOST_DOTS))
                dots = {"markersize": 2, "alpha": 0.25, "rasterized": True}
                axis.plot(draws[column][some], draws[row][some], ".", color=colour, markeredgewidth=0, **dots)
            else:
                _write(axis, f"{correlation[row, column]:+.2f}", colour, list(trees).index(legend), len(trees))
    for row, column in np.ndindex(size, size):
        _trim(axes[row, column], [str(one) for one in parts], row, column, size)
        _mark(axes[row, column], row, column, [true_value(asked, one) for one in parts])
    if len(trees) > 1:
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure


def draws_of(tree: Any, group: str, one: Component) -> tuple[np.ndarray, dict[str, float]]:
    """Return all draws of a component, and the bounds of its parameter."""
    variable = group_of(tree, group)[one.name]
    values = np.asarray(variable, float)
    return values[:, :, *one.place].reshape(-1), bounds_of(variable)


def _density(axis: Any, draws: np.ndarray, bounds: Mapping[str, float], colour: str, label: str) -> None:
    """Draw a smooth density; at a bound the kernel is folded back, so that no mass is drawn outside."""
    low, high = np.quantile(draws, [WIDE, 1 - WIDE])
    margin = 0.15 * (high - low)
    points = np.linspace(max(low - margin, bounds["lower"]), min(high + margin, bounds["upper"]), NUM_POINTS)
    kernel = gaussian_kde(draws)
    values = kernel(points)
    for bound in bounds.values():
        if np.isfinite(bound):
            values = values + kernel(2 * bound - points)
    axis.plot(points, values, color=colour, linewidth=1.5, label=label)
    axis.fill_between(points, values, color=colour, alpha=0.15, linewidth=0)


def _write(axis: Any, text: str, colour: str, place: int, num: int) -> None:
    height = (num - place) / (num + 1)
    axis.text(0.5, height, text, color=colour, ha="center", va="center", fontsize=12, transform=axis.transAxes)


def _trim(axis: Any, labels: list[str], row: int, column: int, size: int) -> None:
    """Leave ticks and labels to the outer panels."""
    if row < column:
        axis.set_axis_off()
        return
    if row == size - 1:
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

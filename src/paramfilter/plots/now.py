"""Pictures of what is known of the parameters now: densities, pairs and intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from paramfilter.errors import DataError
from paramfilter.labels import Component, components_of
from paramfilter.plots.contents import (
    INNER,
    Asked,
    FleetTable,
    chosen,
    components_drawn,
    first_of,
    group_of,
    true_value,
)
from paramfilter.plots.density import COLLAPSED_SHARE, collapsed, density_of, draw_density, draws_of
from paramfilter.plots.picture import picture
from paramfilter.plots.style import (
    CELL_WIDTH,
    GAP,
    INK,
    QUIET,
    TRUTH,
    WIDTH,
    columns_for,
    finish,
    grid,
    styled,
    subplots,
    without_y,
)

ZOOM = 0.3
"""Share of the prior's range below which the panel shows the posterior's range, and the whole prior in an inset."""
LARGEST = 0.999
"""Contraction that is written; of what is nearer to 1 the digits say nothing."""
HIGHEST = 1.6
"""Of the panel, where densities have the height 1: above them there is room for contractions and the inset."""
MOST_PAIRS, MOST_DOTS = 6, 3000
MOST_ROWS, ROW_HEIGHT = 60, 0.22


@picture
def prior_posterior(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the posterior of each parameter over its prior, each density scaled to its own peak.

    A panel shows the posterior's range; where this is a small part of the prior's, an inset shows the whole prior. The
    contraction 1 - var(posterior) / var(prior) stands at the left, in the color of each result. A filter that holds
    next to one value has collapsed: it is drawn as a line with a cross and has no contraction.
    """
    parts, remark = components_drawn(trees, "filtered", asked)
    figure, axes = grid(len(parts), 2.2)
    for axis, one in zip(axes, parts, strict=True):
        _over_prior(axis, trees, one, asked)
    return finish(figure, axes, remark)


def _over_prior(axis: Any, trees: dict[str, Any], one: Component, asked: Asked) -> None:
    before, bounds = draws_of(first_of(trees), "prior", one)
    after = {label: draws_of(tree, "posterior", one)[0] for label, tree in trees.items()}
    gone, prior, value = collapsed(after), density_of(before, bounds), true_value(asked, one)
    axis.plot(*prior, color=QUIET, linewidth=1.2, label="prior")
    for place, (label, _, look) in enumerate(styled(trees)):
        draw_density(axis, after[label], bounds, look, label or "posterior", label in gone)
        said = "collapsed"
        if label not in gone:
            ends = np.quantile(after[label], [0.5 - asked.level / 2, 0.5 + asked.level / 2])
            axis.plot(ends, [-0.06 * (1 + place)] * 2, color=look.color, linewidth=3, solid_capstyle="butt")
            contraction = 1 - np.var(after[label]) / np.var(before)
            said = f"{contraction:.1%}" if contraction < LARGEST else f"> {LARGEST:.1%}"
        style = {"color": look.color, "size": 8, "va": "top", "bbox": {"color": "white", "pad": 0.5, "alpha": 0.8}}
        axis.text(0.01, 0.98 - 0.1 * place, said, transform=axis.transAxes, **style)
    if value is not None:
        axis.axvline(value, **TRUTH)
    alive = [draws for label, draws in after.items() if label not in gone] or [before]
    _zoom(axis, [*alive, *([[value]] if value is not None else [])], prior, [after[label] for label in gone])
    axis.set_title(f"{asked.label(one)}: contraction", fontsize=9)
    axis.set_ylim(-0.06 * (1 + len(trees)) - 0.03, HIGHEST)
    without_y(axis)


def _zoom(axis: Any, shown: list[Any], prior: tuple[np.ndarray, np.ndarray], spikes: list[np.ndarray]) -> None:
    """Show the posterior's range, and the whole prior in an inset if that range is a small part of it."""
    low = min(float(np.quantile(draws, 0.0005)) for draws in shown)
    high = max(float(np.quantile(draws, 0.9995)) for draws in shown)
    low, high = low - 0.15 * (high - low), high + 0.15 * (high - low)
    if high - low > ZOOM * np.ptp(prior[0]):
        return
    axis.set_xlim(low, high)
    inset = axis.inset_axes((0.66, 0.76, 0.33, 0.22))
    inset.fill_between(*prior, color=QUIET, alpha=0.35, linewidth=0)
    inset.axvspan(low, high, color=INK, alpha=0.5, linewidth=0)
    for draws in spikes:
        inset.axvline(float(np.mean(draws)), color=QUIET, linewidth=0.8)
    without_y(inset)
    inset.tick_params(labelsize=6, length=2, pad=1)
    inset.locator_params(axis="x", nbins=3)


@picture
def pairs(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw parameters in pairs, at most six: draws below the diagonal, densities on it, correlations above.

    Each density is scaled to its own peak. A filter that holds next to one value of a parameter has collapsed: it is
    drawn as a line on the diagonal and a cross below, and has no correlation.
    """
    parts, remark = components_drawn(trees, "filtered", asked, MOST_PAIRS)
    width = max(4.5, 1 + 1.6 * len(parts))
    figure, axes = subplots(len(parts), len(parts), figsize=(width, width))
    draws = {label: [draws_of(tree, "posterior", one) for one in parts] for label, tree in trees.items()}
    gone = [collapsed({label: own[place][0] for label, own in draws.items()}) for place in range(len(parts))]
    for row, column in np.ndindex(axes.shape):
        for place, (label, _, look) in enumerate(styled(trees)):
            x, y = draws[label][column][0], draws[label][row][0]
            is_flat = label in gone[row] | gone[column]
            height = (len(trees) - place) / (len(trees) + 1)
            if row == column:
                draw_density(axes[row, row], x, draws[label][row][1], look, label, is_flat)
            else:
                (_dots if row > column else _correlation)(axes[row, column], x, y, is_flat, look.color, height)
        _finish_cell(axes[row, column], [asked.label(one) for one in parts], row, column)
        _mark(axes[row, column], row, column, [true_value(asked, one) for one in parts])
    axes[0, 0].plot([], [], **TRUTH | {"label": "truth" if asked.truth else "_"})
    has_legend = len(trees) > 1 or any(gone) or asked.truth
    return finish(figure, list(axes.diagonal()) if has_legend else [], remark)


def _dots(axis: Any, x: np.ndarray, y: np.ndarray, is_flat: bool, color: str, height: float) -> None:
    style = {"marker": "x", "ms": 6} if is_flat else {"marker": ".", "ms": 2, "alpha": 0.25, "mew": 0}
    some = slice(None, None, max(1, len(x) // MOST_DOTS))
    axis.plot(x[some], y[some], linestyle="", color=color, rasterized=True, **style)


def _correlation(axis: Any, x: np.ndarray, y: np.ndarray, is_flat: bool, color: str, height: float) -> None:
    text = "–" if is_flat else f"{np.corrcoef(x, y)[0, 1]:+.2f}"
    axis.text(0.5, height, text, color=color, ha="center", va="center", transform=axis.transAxes)


def _finish_cell(axis: Any, labels: list[str], row: int, column: int) -> None:
    """Leave ticks and labels to the outer panels."""
    if row < column:
        axis.set_axis_off()
        return
    is_last, is_first = row == len(labels) - 1, column == 0
    axis.set(xlabel=labels[column] if is_last else "", ylabel=labels[row] if is_first and row > 0 else "")
    axis.tick_params(labelbottom=is_last, labelleft=is_first)
    if row == column:
        without_y(axis)
        axis.set_ylim(bottom=0)
    axis.locator_params(nbins=4)


def _mark(axis: Any, row: int, column: int, values: list[float | None]) -> None:
    if row >= column and values[column] is not None:
        axis.axvline(values[column], **TRUTH | {"label": "_"})
    if row > column and values[row] is not None:
        axis.axhline(values[row], **TRUTH | {"label": "_"})


@picture
def forest(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the interval of each component of each parameter, or of each series of a fleet, one row each.

    `results` may be `(fleet, fleet_state)`. Each parameter has a panel and a scale of its own; gray is the prior's
    interval, a cross a posterior that has collapsed to one value. Intervals of a fleet are those of a normal
    distribution with the posterior's mean and sd.
    """
    tables = {label: _table_of(tree, asked.level) for label, tree in trees.items()}
    first = first_of(tables)
    names = chosen(list(first), asked)
    sizes = [min(len(first[name]), MOST_ROWS) for name in names]
    columns = columns_for(len(names)) if len(set(sizes)) == 1 else 1
    heights = [0.35 + ROW_HEIGHT * size * (1 + 0.4 * (len(trees) - 1)) for size in sizes[::columns]]
    size = max(0.75 * WIDTH, 0.6 + CELL_WIDTH * columns), 0.9 + sum(heights) + 0.3 * len(heights)
    figure, axes = subplots(len(heights), columns, figsize=size, height_ratios=heights)
    for axis, name in zip(axes.flat, names, strict=False):
        _rows(axis, name, trees, tables, asked)
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    most = max(len(first[name]) for name in names)
    return finish(figure, list(axes.flat), f"{MOST_ROWS} of {most} rows shown" if most > MOST_ROWS else "")


def _rows(axis: Any, name: str, trees: dict[str, Any], tables: dict[str, Any], asked: Asked) -> None:
    known = first_of(tables)[name]
    labels = list(known)[:MOST_ROWS]
    if not isinstance(first_of(trees), FleetTable):
        _draw_prior(axis, first_of(trees), name, labels, asked.level)
    least = COLLAPSED_SHARE * max(row[-1] - row[0] for row in known.values())
    apart = np.linspace(-0.25, 0.25, len(trees)) if len(trees) > 1 else [0.0]
    for shift, (legend, _, look) in zip(apart, styled(trees), strict=True):
        said = legend or f"median, {INNER:.0%} and {asked.level:.0%}"
        for place, label in enumerate(labels):
            if (row := tables[legend].get(name, {}).get(label)) is None:
                continue
            height = place + shift
            for ends, width in ((row[[0, -1]], 1), (row[[1, 3]], 3)):
                axis.plot(ends, [height] * 2, color=look.color, solid_capstyle="butt", linewidth=width)
            is_point = row[-1] - row[0] < least
            dot = {"marker": "x", "ms": 5} if is_point else {"marker": "o", "ms": 4, "mec": "white", "mew": 0.5}
            axis.plot(row[2], height, ls="", color=look.color, label=None if place else said, **dot)
    if name in asked.truth:
        values = np.broadcast_to(np.ravel(np.asarray(asked.truth[name], float)), len(known))[: len(labels)]
        axis.plot(values, np.arange(len(labels)), "|", color=INK, ms=9, mew=1.4, label="truth")
    has_rows = labels != [name]  # else the title says it
    axis.set_yticks(np.arange(len(labels)) if has_rows else [], map(asked.label, labels) if has_rows else [])
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.set_title(asked.label(name))


def _draw_prior(axis: Any, tree: Any, name: str, labels: list[str], level: float) -> None:
    """Shade the prior's interval behind each row, without making the panel wider for it."""
    shape = group_of(tree, "prior")[name].shape[2:]
    for place, one in enumerate(components_of(name, shape)[: len(labels)]):
        low, high = np.quantile(draws_of(tree, "prior", one)[0], [0.5 - level / 2, 0.5 + level / 2])
        axis.barh(place, high - low, left=low, height=0.8, color=GAP, label="prior" if place == 0 else None)


def _table_of(tree: Any, level: float) -> dict[str, dict[str, np.ndarray]]:
    """Return five quantiles of each row, by parameter and row."""
    levels = np.array([0.5 - level / 2, 0.5 - INNER / 2, 0.5, 0.5 + INNER / 2, 0.5 + level / 2])
    if isinstance(tree, FleetTable):
        moments = lambda one, place: (float(part[one.name][(place, *one.place)]) for part in (tree.mean, tree.sd))
        row = lambda mean, sd: mean + sd * ndtri(levels)
        return {
            str(one): {str(id): row(*moments(one, place)) for place, id in enumerate(tree.ids)}
            for name, mean in tree.mean.items()
            for one in components_of(name, mean.shape[1:])
        }
    if not hasattr(tree, "children"):
        raise DataError(f"forest draws results and fleets, not a {type(tree).__name__}.")
    quantiles = lambda one: np.quantile(draws_of(tree, "posterior", one)[0], levels)
    return {
        str(name): {str(one): quantiles(one) for one in components_of(str(name), variable.shape[2:])}
        for name, variable in group_of(tree, "posterior").data_vars.items()
    }

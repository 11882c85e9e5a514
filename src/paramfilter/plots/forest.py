"""Many posteriors as intervals below each other: components of parameters, or the series of a fleet."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import ndtri

from paramfilter.errors import DataError, extra
from paramfilter.labels import components_of
from paramfilter.plots.contents import FleetTable, chosen, group_of
from paramfilter.plots.density import COLLAPSED_SHARE, draws_of
from paramfilter.plots.ribbon import INNER
from paramfilter.plots.style import (
    CELL_WIDTH,
    EXTRA,
    GAP,
    INK,
    WIDTH,
    Asked,
    columns_for,
    legend_below,
    note,
    picture,
    styled,
)

MOST_ROWS = 60
ROW_HEIGHT = 0.22


@picture
def forest(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the interval of each component of each parameter, or of each series of a fleet, one row each.

    Each parameter has a panel and a scale of its own; gray is the prior's interval, a cross a posterior that has
    collapsed to one value. Intervals of a fleet are those of a normal distribution with the posterior's mean and sd.

    Args:
        results: A result, its path, `(state, history)`, `(fleet, fleet_state)`, or a dict of these to compare.
        names: Parameters to draw; None for all.
        truth: Known values by name, drawn as vertical marks.
        level: Of the thin line, 0.9 by default; the thick one holds half of the mass.
        last: Changes nothing: posteriors are those of the last step.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    pyplot = extra("matplotlib.pyplot", EXTRA)
    tables = {label: _table_of(tree, asked.level) for label, tree in trees.items()}
    first = next(iter(tables.values()))
    names = chosen(list(first), asked)
    sizes = [min(len(first[name]), MOST_ROWS) for name in names]
    is_even = len(set(sizes)) == 1
    columns = columns_for(len(names)) if is_even else 1
    heights = [0.35 + ROW_HEIGHT * size * (1 + 0.4 * (len(trees) - 1)) for size in sizes[::columns]]
    figure, axes = pyplot.subplots(
        len(heights),
        columns,
        figsize=(max(0.75 * WIDTH, 0.6 + CELL_WIDTH * columns), 0.9 + sum(heights) + 0.3 * len(heights)),
        layout="constrained",
        squeeze=False,
        height_ratios=heights,
    )
    for axis, name in zip(axes.flat, names, strict=False):
        _panel(axis, name, trees, tables, asked)
    for axis in axes.flat[len(names) :]:
        axis.set_axis_off()
    legend_below(figure, *axes.flat)
    most = max(len(first[name]) for name in names)
    note(figure, f"{MOST_ROWS} of {most} rows shown" if most > MOST_ROWS else "")
    return figure


def _panel(axis: Any, name: str, trees: dict[str, Any], tables: dict[str, Any], asked: Asked) -> None:
    known = next(iter(tables.values()))[name]
    labels = list(known)[:MOST_ROWS]
    tree = next(iter(trees.values()))
    if not isinstance(tree, FleetTable):
        _draw_prior(axis, tree, name, labels, asked.level)
    apart = np.linspace(-0.25, 0.25, len(trees)) if len(trees) > 1 else [0.0]
    for shift, (legend, _, look) in zip(apart, styled(trees), strict=True):
        rows = [tables[legend].get(name, {}).get(label) for label in labels]
        for place, row in enumerate(rows):
            if row is None:
                continue
            low, inner_low, middle, inner_high, high = row
            line = {"color": look.color, "solid_capstyle": "butt"}
            axis.plot([low, high], [place + shift] * 2, **line, linewidth=1)
            axis.plot([inner_low, inner_high], [place + shift] * 2, **line, linewidth=3)
            said = (legend or f"median, {INNER:.0%} and {asked.level:.0%}") if place == 0 else None
            is_point = high - low < COLLAPSED_SHARE * np.max([one[-1] - one[0] for one in known.values()])
            dot = {"marker": "x", "ms": 5} if is_point else {"marker": "o", "ms": 4, "mec": "white", "mew": 0.5}
            axis.plot([middle], [place + shift], linestyle="", color=look.color, label=said, **dot)
    if name in asked.truth:
        values = np.broadcast_to(np.ravel(np.asarray(asked.truth[name], float)), len(known))[: len(labels)]
        axis.plot(values, np.arange(len(labels)), "|", color=INK, ms=9, mew=1.4, label="truth")
    axis.set_yticks(np.arange(len(labels)), labels)
    if labels == [name]:  # the title says it
        axis.set_yticks([])
    axis.set_ylim(len(labels) - 0.4, -0.6)
    axis.set_title(name)


def _draw_prior(axis: Any, tree: Any, name: str, labels: list[str], level: float) -> None:
    """Shade the prior's interval behind each row, without making the panel wider for it."""
    shape = group_of(tree, "prior")[name].shape[2:]
    for place, one in enumerate(components_of(name, shape)[: len(labels)]):
        low, high = np.quantile(draws_of(tree, "prior", one)[0], [0.5 - level / 2, 0.5 + level / 2])
        axis.barh(place, high - low, left=low, height=0.8, color=GAP, label="prior" if place == 0 else None)


def _table_of(tree: Any, level: float) -> dict[str, dict[str, np.ndarray]]:
    """Return five quantiles of each row, by parameter and row."""
    levels = [0.5 - level / 2, 0.5 - INNER / 2, 0.5, 0.5 + INNER / 2, 0.5 + level / 2]
    if isinstance(tree, FleetTable):
        return {
            str(one): {
                str(row): float(tree.mean[name][(place, *one.place)])
                + float(tree.sd[name][(place, *one.place)]) * ndtri(levels)
                for place, row in enumerate(tree.ids)
            }
            for name, mean in tree.mean.items()
            for one in components_of(name, mean.shape[1:])
        }
    if not hasattr(tree, "children"):
        raise DataError(f"forest draws results and fleets, not a {type(tree).__name__}.")
    posterior = group_of(tree, "posterior").data_vars
    return {
        str(name): {
            str(one): np.quantile(draws_of(tree, "posterior", one)[0], levels)
            for one in components_of(str(name), variable.shape[2:])
        }
        for name, variable in posterior.items()
    }

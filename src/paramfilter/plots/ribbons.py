"""Ribbons over time: what was believed about theta and x after each observation."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.plots.contents import Results, component, labels_of, opened, true_value
from paramfilter.plots.gaps import shade_gaps
from paramfilter.plots.style import INK, QUIET, Asked, coloured, legend_above, panels, picture, thinned
from paramfilter.results.bands import band
from paramfilter.results.tables import bounds_of

INNER = 0.5
"""Level of the darker ribbon inside."""


@picture
def parameters(results: Results, asked: Asked) -> Any:
    """Draw mean and interval of each parameter after each observation.

    The wide intervals of the first steps may run out of the picture, so that the later ones can be seen.
    """
    trees = opened(results)
    labels = labels_of(trees, "filtered", asked)
    figure, axes = panels(len(labels), 1.9, sharex=True)
    for axis, label in zip(axes, labels, strict=True):
        ends = []
        for legend, tree, colour in coloured(trees):
            said = legend or f"mean, {INNER:.0%} and {asked.level:.0%}"
            ends += _ribbon(axis, component(tree, "filtered", label), asked.level, colour, said)
        if (value := true_value(asked, label)) is not None:
            axis.axhline(value, color=INK, linewidth=1, linestyle="--", label="truth")
            ends.append(value)
        _frame(axis, ends)
        axis.set_ylabel(label)
        axis.margins(x=0.01)
    shade_gaps(axes, next(iter(trees.values())))
    legend_above(axes[0])
    axes[-1].set_xlabel("time")
    return figure


@picture
def state(results: Results, asked: Asked) -> Any:
    """Draw mean and interval of each component of the state, with the data where they are of the same shape.

    Args:
        results: One result, or a dict of results.
        names: Components to draw.
        truth: True states by name, each with a leading time axis.
        level: Of the interval.
    """
    trees = opened(results)
    labels = labels_of(trees, "filtered_state", asked)
    figure, axes = panels(len(labels), 2.2, sharex=True)
    first = next(iter(trees.values()))
    for axis, label in zip(axes, labels, strict=True):
        _data(axis, first, label, labels)
        for legend, tree, colour in coloured(trees):
            said = legend or f"state, {INNER:.0%} and {asked.level:.0%}"
            _ribbon(axis, component(tree, "filtered_state", label), asked.level, colour, said)
        name = label.partition("[")[0]
        if name in asked.truth:
            place = labels.index(label) if name != label else slice(None)
            values = np.asarray(asked.truth[name])
            values = values if values.ndim == 1 else values.reshape(len(values), -1)[:, place]
            times = first["filtered_state"]["time"].to_numpy()
            axis.plot(times, values, color=INK, linewidth=0.8, linestyle="--", label="truth")
        axis.set_ylabel(label)
        axis.margins(x=0.01)
    shade_gaps(axes, first)
    legend_above(axes[0])
    axes[-1].set_xlabel("time")
    return figure


def _ribbon(axis: Any, found: tuple[Any, np.ndarray, np.ndarray], level: float, colour: str, label: str) -> list[float]:
    """Draw a mean and two intervals around it; return how low and how high the wide one goes once it has settled."""
    variable, mean, sd = found
    some = thinned(len(mean))
    times, mean, sd = variable["time"].to_numpy()[some], mean[some], sd[some]
    low, high = map(np.asarray, band(mean, sd, level, **bounds_of(variable)))
    axis.fill_between(times, low, high, color=colour, alpha=0.22, lw=0)
    axis.fill_between(times, *band(mean, sd, INNER, **bounds_of(variable)), color=colour, alpha=0.25, lw=0)
    axis.plot(times, mean, color=colour, linewidth=1.3, label=label)
    settled = slice(len(mean) // 20, None)
    return [np.nanmin(low[settled], initial=np.inf), np.nanmax(high[settled], initial=-np.inf)]


def _frame(axis: Any, ends: list[float]) -> None:
    """Let the wide ribbons of the first steps run out of the picture: what came after is what one wants to see."""
    low, high = min(ends), max(ends)
    if np.isfinite(low) and np.isfinite(high) and high > low:
        axis.set_ylim(low - 0.08 * (high - low), high + 0.08 * (high - low))


def _data(axis: Any, tree: Any, label: str, labels: list[str]) -> None:
    """Show the observations behind a state that has as many components."""
    if "observed_data" not in tree.children:
        return
    seen = list(tree["observed_data"].data_vars.values())
    values = np.asarray(seen[0], float)
    values = values.reshape(len(values), -1)
    if len(seen) == 1 and values.shape[1] == len(labels):
        times = tree["observed_data"]["time"].to_numpy()
        axis.plot(times, values[:, labels.index(label)], ".", color=QUIET, markersize=3, label="data", rasterized=True)

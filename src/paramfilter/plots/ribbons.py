"""Ribbons over time: what was believed about theta and x after each observation."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from paramfilter.plots.style import (
    INK,
    QUIET,
    Results,
    coloured,
    component,
    labels_of,
    opened,
    panels,
    picture,
    shade_gaps,
    thinned,
    true_value,
)
from paramfilter.results.bands import band
from paramfilter.results.tables import bounds_of

INNER = 0.5
"""Level of the darker ribbon inside."""


@picture
def parameters(
    results: Results,
    *,
    names: Iterable[str] | None = None,
    truth: Mapping[str, Any] | None = None,
    level: float = 0.9,
) -> Any:
    """Draw mean and interval of each parameter after each observation; the prior stands at the left."""
    trees = opened(results)
    labels = labels_of(trees, "filtered", names)
    figure, axes = panels(len(labels), 1.9, sharex=True)
    for axis, label in zip(axes, labels, strict=True):
        for legend, tree, colour in coloured(trees):
            variable, mean, sd = component(tree, "filtered", label)
            _ribbon(axis, variable, mean, sd, level, colour, legend or f"mean, {INNER:.0%} and {level:.0%}")
        shade_gaps(axis, next(iter(trees.values())))
        if (value := true_value(truth, label)) is not None:
            axis.axhline(value, color=INK, linewidth=1, linestyle="--", label="truth")
        axis.set_ylabel(label)
        axis.margins(x=0.01)
        _frame(axis, [component(tree, "filtered", label) for tree in trees.values()], level, true_value(truth, label))
    axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4)
    axes[-1].set_xlabel("time")
    return figure


@picture
def state(
    results: Results,
    *,
    names: Iterable[str] | None = None,
    truth: Mapping[str, Any] | None = None,
    level: float = 0.9,
) -> Any:
    """Draw mean and interval of each component of the state, with the data where they are of the same shape.

    Args:
        results: One result, or a dict of results.
        names: Components to draw.
        truth: True states by name, each with a leading time axis.
        level: Of the interval.
    """
    trees = opened(results)
    labels = labels_of(trees, "filtered_state", names)
    figure, axes = panels(len(labels), 2.2, sharex=True)
    first = next(iter(trees.values()))
    for axis, label in zip(axes, labels, strict=True):
        _data(axis, first, label, labels)
        for legend, tree, colour in coloured(trees):
            variable, mean, sd = component(tree, "filtered_state", label)
            _ribbon(axis, variable, mean, sd, level, colour, legend or f"state, {INNER:.0%} and {level:.0%}")
        name = label.partition("[")[0]
        if truth is not None and name in truth:
            place = labels.index(label) if name != label else slice(None)
            values = np.asarray(truth[name])
            values = values if values.ndim == 1 else values.reshape(len(values), -1)[:, place]
            times = first["filtered_state"]["time"].to_numpy()
            axis.plot(times, values, color=INK, linewidth=0.8, linestyle="--", label="truth")
        shade_gaps(axis, first)
        axis.set_ylabel(label)
        axis.margins(x=0.01)
    axes[0].legend(loc="lower right", bbox_to_anchor=(1, 1), ncols=4)
    axes[-1].set_xlabel("time")
    return figure


def _ribbon(axis: Any, variable: Any, mean: np.ndarray, sd: np.ndarray, level: float, colour: str, label: str) -> None:
    some = thinned(len(mean))
    times, mean, sd = variable["time"].to_numpy()[some], mean[some], sd[some]
    for its_level, alpha in ((level, 0.22), (INNER, 0.25)):
        axis.fill_between(times, *band(mean, sd, its_level, **bounds_of(variable)), color=colour, alpha=alpha, lw=0)
    axis.plot(times, mean, color=colour, linewidth=1.3, label=label)


def _frame(axis: Any, found: list[tuple[Any, np.ndarray, np.ndarray]], level: float, value: float | None) -> None:
    """Let the wide ribbons of the first steps run out of the picture: what came after is what one wants to see."""
    lows, highs = [], []
    for variable, mean, sd in found:
        settled = slice(len(mean) // 20, None)
        low, high = band(mean[settled], sd[settled], level, **bounds_of(variable))
        lows.append(np.nanmin(low, initial=np.inf))
        highs.append(np.nanmax(high, initial=-np.inf))
    ends = [*lows, *highs] if value is None else [*lows, *highs, value]
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

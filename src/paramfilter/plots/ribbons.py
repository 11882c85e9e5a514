"""Ribbons over time: what was believed about theta and x after each observation."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.errors import DataError
from paramfilter.labels import Component
from paramfilter.plots.contents import Results, components_drawn, opened, over_time, true_value
from paramfilter.plots.gaps import shade_gaps
from paramfilter.plots.style import INK, QUIET, Asked, coloured, legend_above, panels, picture, thinned
from paramfilter.results.bands import band
from paramfilter.results.tables import bounds_of

INNER = 0.5
"""Level of the darker ribbon inside."""


SMALLEST_SHARE = 0.25
"""Of the picture's height that a state has beside its data; else they get a scale of their own."""


@picture
def parameters(results: Results, asked: Asked) -> Any:
    """Draw mean and interval of each parameter after each observation.

    The wide intervals of the first steps may run out of the picture, so that the later ones can be seen.
    """
    trees = opened(results)
    parts = components_drawn(trees, "filtered", asked)
    figure, axes = panels(len(parts), 1.9, sharex=True)
    for axis, one in zip(axes, parts, strict=True):
        ends = []
        for legend, tree, colour in coloured(trees):
            said = legend or f"mean, {INNER:.0%} and {asked.level:.0%}"
            ends += _ribbon(axis, over_time(tree, "filtered", one), asked.level, colour, said)
        if (value := true_value(asked, one)) is not None:
            axis.axhline(value, color=INK, linewidth=1, linestyle="--", label="truth")
            ends.append(value)
        _frame(axis, ends)
        axis.set_ylabel(str(one))
        axis.margins(x=0.01)
    shade_gaps(axes, next(iter(trees.values())))
    legend_above(axes[0])
    axes[-1].set_xlabel("time")
    return figure


@picture
def state(results: Results, asked: Asked) -> Any:
    """Draw mean and interval of each component of the state.

    Data are drawn behind a state that they have the shape of: an array behind an array, component by component, or a
    part of y behind the part of x that has its name. Where the state is not what is observed (a volatility, the
    logarithm of a rate) and data lie far from it, they have a scale of their own on the right.

    Args:
        results: One result, or a dict of results.
        names: Components to draw.
        truth: True states by name, each with a leading time axis.
        level: Of the interval.
    """
    trees = opened(results)
    parts = components_drawn(trees, "filtered_state", asked)
    figure, axes = panels(len(parts), 2.2, sharex=True)
    first = next(iter(trees.values()))
    for axis, one in zip(axes, parts, strict=True):
        _data(axis, first, one, asked.level)
        for legend, tree, colour in coloured(trees):
            said = legend or f"state, {INNER:.0%} and {asked.level:.0%}"
            _ribbon(axis, over_time(tree, "filtered_state", one), asked.level, colour, said)
        if one.name in asked.truth:
            _true_path(axis, first["filtered_state"][one.name], asked.truth[one.name], one)
        axis.set_ylabel(str(one))
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


def _data(axis: Any, tree: Any, one: Component, level: float) -> None:
    """Show the observations behind a state that they have the shape of."""
    if "observed_data" not in tree.children:
        return
    seen, states = tree["observed_data"].data_vars, tree["filtered_state"].data_vars
    name = "y" if list(seen) == ["y"] and list(states) == ["x"] else one.name
    if name in seen and seen[name].shape[1:] == states[one.name].shape[2:]:
        values, times = np.asarray(seen[name], float)[:, *one.place], seen[name]["time"].to_numpy()
        look = {"color": QUIET, "markersize": 3, "linestyle": "", "marker": "."}
        if _is_near(values, over_time(tree, "filtered_state", one), level):
            axis.plot(times, values, **look, label="data", rasterized=True)
            return
        own = axis.twinx()
        own.plot(times, values, **look, rasterized=True)
        own.tick_params(axis="y", colors=QUIET)
        own.spines["right"].set(visible=True, color=QUIET)
        own.set_zorder(axis.get_zorder() - 1)
        axis.patch.set_visible(False)
        axis.plot([], [], **look, label="data (right)")


def _is_near(values: np.ndarray, found: tuple[Any, np.ndarray, np.ndarray], level: float) -> bool:
    """Tell whether a state can still be read beside its data on one scale."""
    if not np.any(np.isfinite(values)):
        return True
    variable, mean, sd = found
    low, high = band(mean, sd, level, **bounds_of(variable))
    state = np.nanquantile(low, 0.02), np.nanquantile(high, 0.98)
    data = np.nanquantile(values, 0.02), np.nanquantile(values, 0.98)
    both = max(state[1], data[1]) - min(state[0], data[0])
    return bool(state[1] - state[0] >= SMALLEST_SHARE * both)


def _true_path(axis: Any, variable: Any, values: Any, one: Component) -> None:
    values, shape = np.asarray(values), variable.shape[1:]
    if values.shape != shape:
        raise DataError(f"truth of {one.name!r} needs the shape of the filtered states, {shape}; got {values.shape}.")
    times = variable["time"].to_numpy()
    axis.plot(times, values[:, *one.place], color=INK, linewidth=0.8, linestyle="--", label="truth")

"""Observations behind a state or a forecast."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.labels import Component
from paramfilter.plots.contents import interval, variable_of
from paramfilter.plots.style import QUIET

SMALLEST_SHARE = 0.25
"""Of the panel's height that a state has beside its data; else they get a scale of their own."""

DOTS = {"color": QUIET, "markersize": 3, "linestyle": "", "marker": "."}


def draw_data(axis: Any, tree: Any, one: Component, level: float) -> bool:
    """Draw the observations behind a state of their shape; return whether there are any to draw."""
    if "observed_data" not in tree.children:
        return False
    seen, states = tree["observed_data"].data_vars, tree["filtered_state"].data_vars
    name = "y" if list(seen) == ["y"] and list(states) == ["x"] else one.name
    if name not in seen or seen[name].shape[1:] != states[one.name].shape[2:]:
        return False
    values, times = np.asarray(seen[name], float)[:, *one.place], seen[name]["time"].to_numpy()
    if _is_near(values, interval(variable_of(tree, "filtered_state", one), one, level)):
        axis.plot(times, values, **DOTS, label="data", rasterized=True)
        return True
    own = axis.twinx()
    own.plot(times, values, **DOTS, rasterized=True)
    own.tick_params(axis="y", colors=QUIET)
    own.spines["right"].set(visible=True, color=QUIET)
    own.set_zorder(axis.get_zorder() - 1)
    axis.patch.set_visible(False)
    axis.plot([], [], **DOTS, label="data (right)")
    return True


def _is_near(values: np.ndarray, ends: tuple[np.ndarray, np.ndarray]) -> bool:
    """Tell whether a state can still be read beside its data on one scale."""
    if not np.any(np.isfinite(values)):
        return True
    state = np.nanquantile(ends[0], 0.02), np.nanquantile(ends[1], 0.98)
    data = np.nanquantile(values, 0.02), np.nanquantile(values, 0.98)
    both = max(state[1], data[1]) - min(state[0], data[0])
    return bool(state[1] - state[0] >= SMALLEST_SHARE * both)

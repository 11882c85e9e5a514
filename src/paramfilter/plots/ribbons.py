"""What is drawn into panels over time: intervals around a line, the data, a prior, and where nothing was observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paramfilter.labels import Component
from paramfilter.plots.contents import (
    INNER,
    Asked,
    approximately,
    column_of,
    draws_of,
    first_of,
    group_of,
    intervals,
    true_path,
    variable_of,
)
from paramfilter.plots.style import ALARM, GAP, INK, QUIET, TRUTH, Look, styled, thinned
from paramfilter.results.tables import values_of

SMALLEST_SHARE = 0.25
"""Of the panel's height that a state keeps beside its data; else the data are left out."""
PAST_PER_STEP_AHEAD, FEWEST_PAST = 2, 20
DOTS = {"color": QUIET, "markersize": 3, "linestyle": "", "marker": "."}


def band(axis: Any, times: Any, ends: Sequence[Any], middle: Any, look: Look, said: str, level: float) -> None:
    """Draw a line in a wide interval and a narrow one."""
    some = thinned(len(times))
    for (low, high), alpha in zip(ends, (0.2, 0.28), strict=True):
        axis.fill_between(times[some], low[some], high[some], color=look.color, alpha=alpha, linewidth=0)
    label = f"{said}, {INNER:.0%} and {level:.0%} intervals"
    axis.plot(times[some], middle[some], color=look.color, linewidth=1.4, label=label)
    axis.margins(x=0.01)


def draw_parameter(axis: Any, trees: dict[str, Any], one: Component, asked: Asked, what: str = "") -> None:
    """Draw one parameter of each result, its prior and its true value into a panel; `what` begins the legend."""
    ends = []
    for label, tree, look in styled(trees):
        ends += _draw_moments(axis, variable_of(tree, "filtered", one), one, asked, look, label, what + "mean")
    if len(trees) > 1:
        axis.plot([], [], color=QUIET, linewidth=0.7, label=f"thin: {asked.level:.0%} interval")
    ends += _draw_truth(axis, first_of(trees)["filtered"][one.name], one, asked)
    low, high = np.nanmin(ends, initial=np.inf), np.nanmax(ends, initial=-np.inf)
    if asked.last is None:
        low, high = _draw_prior(axis, first_of(trees), one, asked.level, low, high)
    if np.isfinite([low, high]).all() and high > low:
        axis.set_ylim(low - 0.06 * (high - low), high + 0.06 * (high - low))
    axis.set_ylabel(asked.label(one))


def _draw_moments(
    axis: Any, variable: Any, one: Component, asked: Asked, look: Look, label: str, said: str
) -> list[float]:
    """Draw mean and intervals of a component, of a result with a label as lines; return the range once settled."""
    times, mean = variable["time"].to_numpy(), values_of(variable, one, "mean")
    ends = intervals(variable, one, asked.level)
    if label:
        some = thinned(len(times))
        for end in ends[0]:
            axis.plot(times[some], end[some], **look.line(0.7), alpha=0.8)
        axis.plot(times[some], mean[some], **look.line(), label=label)
        axis.margins(x=0.01)
    else:
        band(axis, times, ends, mean, look, said, asked.level)
    low, high = (end[len(end) // 20 :] for end in ends[0])
    return [np.nanmin(low, initial=np.inf), np.nanmax(high, initial=-np.inf)]


def _draw_truth(axis: Any, variable: Any, one: Component, asked: Asked) -> list[float]:
    """Draw the known values of a component, if there are any; return their range."""
    path = true_path(asked, one, variable)
    if path is None:
        return []
    some = thinned(len(path))
    axis.plot(variable["time"].to_numpy()[some], path[some], **TRUTH)
    return [np.min(path), np.max(path)]


def _draw_prior(axis: Any, tree: Any, one: Component, level: float, low: float, high: float) -> tuple[float, float]:
    """Draw the prior's interval as a bar in front of the first step; return the range that the panel shows.

    A prior that reaches further than what was learned is high is cut.
    """
    prior = np.quantile(draws_of(tree, "prior", one), [0.5 - level / 2, 0.5 + level / 2])
    times = np.asarray(axis.convert_xunits(tree["filtered"]["time"].to_numpy()[[0, -1]]), float)
    before = times[0] - 0.02 * max(times[1] - times[0], 1.0)
    axis.plot([before] * 2, prior, color=QUIET, linewidth=4, alpha=0.55, solid_capstyle="butt", label="prior")
    if not high > low:
        return prior[0], prior[1]
    return min(low, max(prior[0], 2 * low - high)), max(high, min(prior[1], 2 * high - low))


def draw_state(axis: Any, tree: Any, one: Component, asked: Asked, look: Look, what: str = "") -> None:
    """Draw a component of the state of one result into a panel; `what` begins the legend."""
    variable = variable_of(tree, "filtered_state", one)
    _draw_moments(axis, variable, one, asked, look, "", f"{what}mean{approximately(tree)}")
    _draw_truth(axis, variable, one, asked)
    axis.set_ylabel(asked.label(one))


def draw_data(axis: Any, tree: Any, one: Component, level: float) -> bool:
    """Draw the observations behind a state of their shape and size; return whether there are any to draw."""
    if "observed_data" not in tree.children:
        return False
    seen, states = tree["observed_data"].data_vars, tree["filtered_state"].data_vars
    name = "y" if list(seen) == ["y"] and list(states) == ["x"] else one.name
    if name not in seen or seen[name].shape[1:] != states[one.name].shape[2:]:
        return False
    values, ends = np.asarray(seen[name], float)[:, *one.place], intervals(states[one.name], one, level)[0]
    inside = np.nanquantile(ends[0], 0.02), np.nanquantile(ends[1], 0.98)
    both = np.nanquantile(np.concatenate([values, inside]), [0.02, 0.98])
    if inside[1] - inside[0] < SMALLEST_SHARE * (both[1] - both[0]):
        return False
    axis.plot(seen[name]["time"].to_numpy(), values, **DOTS, label="data", rasterized=True)
    return True


def draw_one_step(axis: Any, tree: Any, one: Component, asked: Asked, look: Look) -> float:
    """Draw the forecasts of one component under the data; return the share of the observations outside."""
    foretold, observed = group_of(tree, "one_step")[one.name], group_of(tree, "observed_data")[one.name]
    seen, times = np.asarray(observed, float)[:, *one.place], observed["time"].to_numpy()
    ends, said = intervals(foretold, one, asked.level), f"one-step forecast: median{approximately(tree)}"
    band(axis, times, ends, values_of(foretold, one, "q50"), look, said, asked.level)
    is_out = (seen < ends[0][0]) | (seen > ends[0][1])
    axis.plot(times, np.where(is_out, np.nan, seen), ".", color=INK, ms=3, label="data", rasterized=True)
    axis.plot(times, np.where(is_out, seen, np.nan), "x", color=ALARM, ms=5, label="outside", rasterized=True)
    axis.set_ylabel(asked.label(column_of(observed, one)))
    return float(np.sum(is_out) / max(np.sum(np.isfinite(seen)), 1))


def draw_forecast(axis: Any, tree: Any, one: Component, asked: Asked, look: Look) -> None:
    """Draw the last observations and the fan of one component of one result into a panel."""
    coming, observed = group_of(tree, "predictions"), group_of(tree, "observed_data")[one.name]
    seen, num_ahead = np.asarray(observed, float)[:, *one.place], coming.sizes["ahead"]
    num_past = min(len(seen), asked.last or max(FEWEST_PAST, PAST_PER_STEP_AHEAD * num_ahead))
    has_times = "time" in coming.coords
    past = observed["time"].to_numpy()[-num_past:] if has_times else np.arange(1 - num_past, 1)
    ahead = coming["time" if has_times else "ahead"].to_numpy()
    axis.plot(past, seen[-num_past:], ".-", color=QUIET, lw=0.7, ms=4, label="data")
    draws = np.asarray(coming[one.name], float)[..., *one.place].reshape(-1, num_ahead)
    ends = [np.quantile(draws, [0.5 - inside / 2, 0.5 + inside / 2], axis=0) for inside in (asked.level, INNER)]
    band(axis, ahead, ends, np.median(draws, axis=0), look, "forecast: median", asked.level)
    if one.name in asked.truth:
        came = np.asarray(asked.truth[one.name])[:num_ahead, *one.place]
        axis.plot(ahead[: len(came)], came, "o", color=INK, ms=3, mfc="none", label="what came")
    axis.set_ylabel(asked.label(column_of(observed, one)))


def shade_gaps(axes: Sequence[Any], tree: Any) -> None:
    """Show where nothing was observed, on axes that share their times and have their lines already."""
    if "observed_data" not in tree.children:
        return
    observed = tree["observed_data"]
    seen = [np.asarray(one, float).reshape(len(one), -1) for one in observed.data_vars.values()]
    starts = np.arange(len(seen[0]))[thinned(len(seen[0]))]
    is_missing = np.logical_and.reduceat(np.isnan(np.concatenate(seen, axis=1)).all(axis=1), starts)
    times = np.asarray(axes[0].convert_xunits(observed["time"].to_numpy()[starts]), float)
    half = np.median(np.diff(times)) / 2 if len(times) > 1 else 0.5
    ends = np.flatnonzero(np.diff(is_missing, prepend=False, append=False)).reshape(-1, 2)
    spans = [(times[first] - half, times[last - 1] - times[first] + 2 * half) for first, last in ends]
    for axis in axes:
        limits = axis.get_xlim()
        axis.broken_barh(spans, (0, 1), transform=axis.get_xaxis_transform(), color=GAP, linewidth=0, zorder=0)
        axis.set_xlim(limits)

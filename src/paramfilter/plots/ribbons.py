"""What is drawn into panels over time: intervals around a line, the data, a prior, and where nothing was observed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paramfilter.errors import DataError, extra
from paramfilter.labels import Component
from paramfilter.plots.contents import (
    INNER,
    Asked,
    approximately,
    column_of,
    first_of,
    group_of,
    intervals,
    true_path,
    variable_of,
)
from paramfilter.plots.density import draws_of
from paramfilter.plots.style import ALARM, EXTRA, GAP, INK, QUIET, TRUTH, Look, styled, thinned
from paramfilter.results.tables import values_of

CUT_SHARE = 0.35
"""Of the panel's height that what was learned has at least; a wider prior is cut, and an arrow says so."""
SMALLEST_SHARE = 0.25
"""Of the panel's height that a state has beside its data; else they get a scale of their own."""
PAST_PER_STEP_AHEAD, FEWEST_PAST = 2, 20
DOTS = {"color": QUIET, "markersize": 3, "linestyle": "", "marker": "."}


def band(axis: Any, times: Any, ends: Sequence[Any], middle: Any, color: str, label: str) -> None:
    """Draw a line in a wide interval and a narrow one."""
    for (low, high), alpha in zip(ends, (0.2, 0.28), strict=True):
        axis.fill_between(times, low, high, color=color, alpha=alpha, linewidth=0)
    axis.plot(times, middle, color=color, linewidth=1.4, label=label)
    axis.margins(x=0.01)


def parts_of_band(what: str, level: float) -> str:
    """Name the parts of a band."""
    return f"{what}, {INNER:.0%} and {level:.0%} intervals"


def draw_parameter(axis: Any, trees: dict[str, Any], one: Component, asked: Asked, what: str = "") -> None:
    """Draw one parameter of each result, its prior and its true value into a panel; `what` begins the legend."""
    first, ends = first_of(trees), []
    for label, tree, look in styled(trees):
        ends += _draw_moments(axis, tree, "filtered", one, asked, look, label, what)
    if len(trees) > 1:
        axis.plot([], [], color=QUIET, linewidth=0.7, label=f"thin: {asked.level:.0%} interval")
    times = first["filtered"]["time"].to_numpy()
    if (path := true_path(asked, one, len(times))) is not None:
        some = thinned(len(times))
        axis.plot(times[some], path[some], **TRUTH) if np.ptp(path) > 0 else axis.axhline(path[0], **TRUTH)
        ends += [np.min(path), np.max(path)]
    if asked.last is None:
        _draw_prior(axis, first, one, asked.level, ends)
    elif np.isfinite(ends).all() and max(ends) > min(ends):
        axis.set_ylim(*_padded(min(ends), max(ends)))
    axis.set_ylabel(asked.label(one))


def _draw_moments(
    axis: Any, tree: Any, group: str, one: Component, asked: Asked, look: Look, label: str, what: str
) -> list[float]:
    """Draw mean and intervals of a component, of a result with a label as lines; return the range once settled."""
    variable = variable_of(tree, group, one)
    times, mean = variable["time"].to_numpy(), values_of(variable, one, "mean")
    some = thinned(len(times))
    ends = [(low[some], high[some]) for low, high in intervals(variable, one, asked.level)]
    if label:
        for end in ends[0]:
            axis.plot(times[some], end, color=look.color, linestyle=look.dashes, linewidth=0.7, alpha=0.8)
        axis.plot(times[some], mean[some], color=look.color, linestyle=look.dashes, linewidth=1.4, label=label)
        axis.margins(x=0.01)
    else:
        band(axis, times[some], ends, mean[some], look.color, what + parts_of_band("mean", asked.level))
    low, high = (end[len(end) // 20 :] for end in ends[0])
    return [np.nanmin(low, initial=np.inf), np.nanmax(high, initial=-np.inf)]


def _draw_prior(axis: Any, tree: Any, one: Component, level: float, ends: list[float]) -> None:
    """Draw the prior's interval as a bar in front of the first step, and choose what the panel shows."""
    draws, _ = draws_of(tree, "prior", one)
    prior = np.quantile(draws, [0.5 - level / 2, 0.5 + level / 2])
    low, high = _padded(*_shown(np.array([min(ends), max(ends)]), prior))
    times = np.asarray(axis.convert_xunits(tree["filtered"]["time"].to_numpy()[[0, -1]]), float)
    length = max(times[1] - times[0], 1.0)
    # The prior is older than all times: its bar stands in front of the first of them.
    before = times[0] - 0.02 * length
    axis.plot([before, before], prior, color=QUIET, linewidth=4, alpha=0.55, solid_capstyle="butt", label="prior")
    for end, marker, is_cut in ((low, "v", prior[0] < low), (high, "^", prior[1] > high)):
        if is_cut:
            axis.plot([before], [end], marker, color=QUIET, markersize=5, clip_on=False)
    axis.set(xlim=(before - 0.01 * length, times[1] + 0.01 * length), ylim=(low, high))


def _shown(learned: np.ndarray, prior: np.ndarray) -> tuple[float, float]:
    """Return what a panel shows: the prior too, as long as what was learned keeps its share of the height."""
    low, high = min(learned[0], prior[0]), max(learned[1], prior[1])
    height = learned[1] - learned[0]
    if not np.isfinite([low, high]).all():
        return float(prior[0]), float(prior[1])
    room = height / CUT_SHARE - height
    if height > 0 and high - low > height + room:
        low, high = max(low, learned[0] - room / 2), min(high, learned[1] + room / 2)
    return float(low), float(high)


def _padded(low: float, high: float) -> tuple[float, float]:
    margin = 0.06 * (high - low) or 0.5
    return low - margin, high + margin


def draw_state(axis: Any, tree: Any, one: Component, asked: Asked, look: Look, what: str = "") -> None:
    """Draw a component of the state of one result into a panel; `what` begins the legend."""
    _draw_moments(axis, tree, "filtered_state", one, asked, look, "", what)
    line = axis.lines[-1]
    line.set_label(line.get_label() + approximately(tree))
    if one.name in asked.truth:
        variable, values = tree["filtered_state"][one.name], np.asarray(asked.truth[one.name])
        values, shape = (values if asked.last is None else values[-asked.last :]), variable.shape[1:]
        if values.shape != shape:
            raise DataError(
                f"truth of {one.name!r} needs the shape of the filtered states, {shape}; got {values.shape}."
            )
        axis.plot(variable["time"].to_numpy(), values[:, *one.place], **TRUTH)
    axis.set_ylabel(asked.label(one))


def draw_data(axis: Any, tree: Any, one: Component, level: float) -> bool:
    """Draw the observations behind a state of their shape; return whether there are any to draw."""
    if "observed_data" not in tree.children:
        return False
    seen, states = tree["observed_data"].data_vars, tree["filtered_state"].data_vars
    name = "y" if list(seen) == ["y"] and list(states) == ["x"] else one.name
    if name not in seen or seen[name].shape[1:] != states[one.name].shape[2:]:
        return False
    values, times = np.asarray(seen[name], float)[:, *one.place], seen[name]["time"].to_numpy()
    if _is_near(values, intervals(variable_of(tree, "filtered_state", one), one, level)[0]):
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
    return bool(state[1] - state[0] >= SMALLEST_SHARE * (max(state[1], data[1]) - min(state[0], data[0])))


def draw_one_step(axis: Any, tree: Any, one: Component, asked: Asked, look: Look) -> float:
    """Draw the forecasts of one component under the data; return the share of the observations outside."""
    foretold, observed = group_of(tree, "one_step")[one.name], group_of(tree, "observed_data")[one.name]
    seen, times = np.asarray(observed, float)[:, *one.place], observed["time"].to_numpy()
    ends, some = intervals(foretold, one, asked.level), thinned(len(times))
    is_out = (seen < ends[0][0]) | (seen > ends[0][1])
    said = parts_of_band("one-step forecast: median", asked.level) + approximately(tree)
    middle, drawn = values_of(foretold, one, "q50")[some], [(low[some], high[some]) for low, high in ends]
    band(axis, times[some], drawn, middle, look.color, said)
    axis.plot(times, np.where(is_out, np.nan, seen), ".", color=INK, ms=3, label="data", rasterized=True)
    outside = {"color": ALARM, "ms": 5, "mew": 1.2, "linestyle": "", "marker": "x"}
    axis.plot(times, np.where(is_out, seen, np.nan), **outside, label="outside", rasterized=True)
    axis.set_ylabel(asked.label(column_of(observed, one)))
    num_seen = np.sum(np.isfinite(seen))
    return float(np.sum(is_out) / num_seen) if num_seen else float("nan")


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
    said = parts_of_band("forecast: median", asked.level)
    band(axis, ahead, ends, np.median(draws, axis=0), look.color, said)
    if one.name in asked.truth:
        came = np.asarray(asked.truth[one.name])[:num_ahead, *one.place]
        axis.plot(ahead[: len(came)], came, "o", color=INK, ms=3, mfc="none", label="what came")
    axis.axvline(past[-1], color=QUIET, linewidth=0.8, linestyle=":")
    axis.set_ylabel(asked.label(column_of(observed, one)))


def shade_gaps(axes: Sequence[Any], tree: Any) -> None:
    """Show where nothing was observed, on axes that share their times and have their lines already."""
    if "observed_data" not in tree.children:
        return
    first, last, share = _gaps(tree)
    times = np.asarray(axes[0].convert_xunits(tree["observed_data"]["time"].to_numpy()), float)
    around = np.median(np.diff(times)) / 2 if len(times) > 1 else 0.5
    left, right = times[first] - around, times[last] + around
    bottom, top = np.zeros(len(left)), np.ones(len(left))
    corners = np.stack([(left, bottom), (right, bottom), (right, top), (left, top)]).transpose(2, 0, 1)
    polygons = extra("matplotlib.collections", EXTRA).PolyCollection
    colors = extra("matplotlib.colors", EXTRA).to_rgba_array(GAP, share)
    for axis in axes:
        across = axis.get_xaxis_transform()
        axis.add_collection(polygons(corners, transform=across, color=colors, linewidth=0, zorder=0), autolim=False)


def _gaps(tree: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return where nothing was observed: first and last place of each stretch, and how much of it is missing.

    A long run is cut into `MOST_POINTS` stretches, so that fifty thousand gaps cost no more than a few; neighbors of
    which the same share is missing are one stretch.
    """
    seen = tree["observed_data"].data_vars.values()
    missing = np.all([np.isnan(np.asarray(one, float)).reshape(len(one), -1).all(axis=1) for one in seen], axis=0)
    starts = np.arange(len(missing))[thinned(len(missing))]
    share = np.add.reduceat(missing, starts, dtype=float) / np.diff(starts, append=len(missing))
    begins = np.flatnonzero(np.diff(share, prepend=-1.0))
    first, share = starts[begins], share[begins]
    last = np.append(first[1:], len(missing)) - 1
    return first[share > 0], last[share > 0], share[share > 0]

"""The health of a run over time, under one time axis, with the alarm bands shaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from paramfilter.beliefs import ERROR_LIMIT
from paramfilter.diagnostics.diagnosis import LEAST_ESS, RHAT_LIMIT
from paramfilter.plots.contents import Results, chosen, group_of, opened
from paramfilter.plots.gaps import shade_gaps
from paramfilter.plots.style import ALARM, Asked, coloured, legend_above, panels, picture, thinned


@picture
def health(results: Results, asked: Asked) -> Any:
    """Draw effective sample size, ancestors, disagreement of islands, error of beliefs and flags over time.

    Where a long run is thinned, the worst of the steps between two points is shown. `names` picks strips; `truth` and
    `level` have no part in this picture.
    """
    trees = opened(results)
    known = {one.label: one for one in STRIPS if any(np.isfinite(one.figures(tree)).any() for tree in trees.values())}
    strips = [known[label] for label in chosen(list(known), asked)]
    figure, axes = panels(len(strips), 1.25, sharex=True)
    for axis, strip in zip(axes, strips, strict=True):
        for legend, tree, colour in coloured(trees):
            times = group_of(tree, "filter_stats")["time"].to_numpy()
            where, values = _worst_of_each(strip.figures(tree), strip.worst)
            axis.plot(times[where], values, color=colour, linewidth=1, drawstyle="steps-mid", label=legend)
        axis.set_yscale(strip.scale)
        if strip.span is not None:
            axis.set_ylim(*strip.span)
        _shade_alarm(axis, strip)
        axis.set_ylabel(strip.label, rotation=0, ha="right", va="center")
        if strip.figures is _is_flagged:
            axis.set_yticks([0, 1], ["no", "yes"])
        axis.margins(x=0.01)
    shade_gaps(axes, next(iter(trees.values())))
    if len(trees) > 1:
        legend_above(axes[0])
    axes[-1].set_xlabel("time")
    return figure


def _share_of_ess(tree: Any) -> np.ndarray:
    return np.asarray(group_of(tree, "filter_stats")["ess"]) / tree.attrs["num_particles"]


def _ancestors(tree: Any) -> np.ndarray:
    return np.asarray(tree["filter_stats"]["num_unique_ancestors"], float)


def _rhat(tree: Any) -> np.ndarray:
    each = np.asarray(tree["filter_stats"]["rhat"], float)
    return np.max(np.where(np.isnan(each), -np.inf, each), axis=1)


def _error(tree: Any) -> np.ndarray:
    found = np.asarray(tree["filter_stats"]["approximation_error"], float)
    return np.where(found > 0, found, np.nan)


def _is_flagged(tree: Any) -> np.ndarray:
    return (np.asarray(tree["filter_stats"]["outcome"]) != 0).astype(float)


@dataclass(frozen=True)
class Strip:
    """One figure of each step.

    Attributes:
        label: Its name.
        figures: Takes it out of a result.
        worst: Which of two is worse: `np.fmin` or `np.fmax`.
        alarm: Where the alarm begins.
        scale: Of the axis.
        span: Of the axis; None for what the figures need.
    """

    label: str
    figures: Callable[[Any], np.ndarray]
    worst: np.ufunc
    alarm: float
    scale: str = "linear"
    span: tuple[float, float] | None = None


STRIPS = (
    Strip("ESS / N", _share_of_ess, np.fmin, LEAST_ESS, span=(0.0, 1.05)),
    Strip("ancestors", _ancestors, np.fmin, 1.0, scale="log"),
    Strip("R-hat", _rhat, np.fmax, RHAT_LIMIT),
    Strip("error, nats", _error, np.fmax, ERROR_LIMIT, scale="log"),
    Strip("flagged", _is_flagged, np.fmax, 0.5, span=(-0.1, 1.1)),
)


def _worst_of_each(values: np.ndarray, worst: np.ufunc) -> tuple[np.ndarray, np.ndarray]:
    """Return the worst value of each of at most MOST_POINTS stretches, and where each begins."""
    starts = np.arange(len(values))[thinned(len(values))]
    return starts, worst.reduceat(values, starts)


def _shade_alarm(axis: Any, strip: Strip) -> None:
    low, high = axis.get_ylim()
    if strip.worst is np.fmin:
        low = min(low, 0.8 * strip.alarm)
        axis.axhspan(low, strip.alarm, color=ALARM, alpha=0.12, linewidth=0)
    elif strip.alarm < high:
        axis.axhspan(strip.alarm, high, color=ALARM, alpha=0.12, linewidth=0)
    axis.set_ylim(low, high)

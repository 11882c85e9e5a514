"""The posterior over time, as a moving picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.interpolate import PchipInterpolator
from scipy.special import ndtri

from paramfilter.errors import extra
from paramfilter.labels import Component
from paramfilter.numerics.quantiles import LEVELS
from paramfilter.plots.contents import (
    Results,
    bounds_of,
    components_drawn,
    heading_of,
    opened,
    require_known,
    true_value,
    variable_of,
)
from paramfilter.plots.density import density_of, draws_of
from paramfilter.plots.style import (
    EXTRA,
    INK,
    LOOK,
    QUIET,
    asked_for,
    grid,
    legend_below,
    note,
    relabel,
    set_title,
    styled,
    without_y,
)
from paramfilter.results.tables import values_of
from paramfilter.results.tree import QUANTILES

NUM_FRAMES = 60
MILLISECONDS = 120
SCORES = np.linspace(-2.6, 2.6, 121)
"""Where a density is drawn, on the scale of a normal distribution."""
WIDEST = 3.0
"""Quantiles are extended to this score by their outermost slopes."""


def animation(
    results: Results,
    *,
    names: Iterable[str] | None = None,
    truth: Mapping[str, Any] | None = None,
    level: float = 0.9,
    last: int | None = None,
    title: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> Any:
    """Return an animation of the density of each parameter, from the first observation to the last, over its prior.

    Keep it with `animation.save("posterior.gif")`; in a notebook `animation.to_jshtml()` plays it. Densities follow the
    quantiles of the history and are scaled to their peaks. Frames skip more and more steps, as learning slows down.

    Args:
        results: A result, its path, `(state, history)`, or a dict of these to compare.
        names: Parameters to draw; None for the first twelve.
        truth: Known values by name, drawn as dashed lines.
        level: Changes nothing: densities are drawn, not intervals.
        last: Number of steps to play, up to the last; None for all.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    matplotlib, pyplot = extra("matplotlib", EXTRA), extra("matplotlib.pyplot", EXTRA)
    trees, asked = opened(results, last), asked_for(names, truth, level, last)
    require_known(trees, asked.truth)
    parts, remark = components_drawn(trees, "filtered", asked)
    with matplotlib.rc_context(LOOK):
        figure, axes = grid(len(parts), 2.0)
        curves = {}
        for axis, one in zip(axes, parts, strict=True):
            curves |= _prepared(axis, trees, one, true_value(asked, one))
        legend_below(figure, *axes)
        note(figure, remark)
        relabel(figure, labels or {})
        set_title(figure, heading_of(trees) if title is None else title)
        clock = axes[0].text(0.0, 1.04, "", transform=axes[0].transAxes, color=QUIET, fontsize=9)
    first = next(iter(trees.values()))
    num_steps, num_seen = len(first["filtered"]["time"]), first.attrs["num_observations"]
    steps = np.unique(np.geomspace(1, num_steps, NUM_FRAMES).astype(int)) - 1

    def frame(step: int) -> list[Any]:
        for (one, label), curve in curves.items():
            curve.set_data(*_density(variable_of(trees[label], "filtered", one), one, step))
        clock.set_text(f"after {num_seen - num_steps + step + 1} steps")
        return [*curves.values(), clock]

    pyplot.close(figure)
    moving = extra("matplotlib.animation", EXTRA)
    return moving.FuncAnimation(figure, frame, frames=steps.tolist(), interval=MILLISECONDS, blit=False)


def _prepared(axis: Any, trees: Mapping[str, Any], one: Component, truth: float | None) -> dict[Any, Any]:
    """Draw what stays: prior, truth and axes; return the curves that will move."""
    draws, bounds = draws_of(next(iter(trees.values())), "prior", one)
    prior = density_of(draws, bounds)
    axis.fill_between(*prior, color=QUIET, alpha=0.25, linewidth=0, label="prior")
    curves = {}
    for label, _, look in styled(trees):
        said = label or "posterior"
        (curves[one, label],) = axis.plot([], [], color=look.color, linestyle=look.dashes, linewidth=1.8, label=said)
    if truth is not None:
        axis.axvline(truth, color=INK, linewidth=1, linestyle="--", label="truth")
    first = [_density(variable_of(tree, "filtered", one), one, 0)[0] for tree in trees.values()]
    ends = np.quantile(draws, [0.02, 0.98])
    axis.set_xlim(min(ends[0], *(one.min() for one in first)), max(ends[1], *(one.max() for one in first)))
    axis.set_ylim(0, 1.1)
    axis.set_xlabel(str(one))
    without_y(axis)
    return curves


def _density(variable: Any, one: Component, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of the density whose quantiles a step recorded, its peak at 1; a line where they are all one."""
    known = np.array([values_of(variable, one, name)[step] for name in QUANTILES])
    if known[-1] - known[0] <= 1e-9 * max(1.0, abs(known[2])):
        return np.full(2, known[2]), np.array([0.0, 1.0])
    scores = ndtri(LEVELS)
    slopes = np.diff(known)[[0, -1]] / np.diff(scores)[[0, -1]]
    reach = (WIDEST - scores[-1]) * slopes
    known = np.concatenate([[known[0] - reach[0]], known, [known[-1] + reach[1]]])
    values = PchipInterpolator([-WIDEST, *scores, WIDEST], known + 1e-12 * np.arange(len(known)))
    points, speed = values(SCORES), np.maximum(values(SCORES, 1), 1e-12)
    density = np.exp(-0.5 * SCORES**2) / speed
    smooth = np.convolve(density, np.hanning(15) / np.sum(np.hanning(15)), mode="same")
    is_inside = (points >= bounds_of(variable)[0]) & (points <= bounds_of(variable)[1])
    return points[is_inside], (smooth / np.max(smooth))[is_inside]

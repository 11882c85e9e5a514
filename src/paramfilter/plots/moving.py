"""The posterior over time, as a moving picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from scipy.stats import norm

from paramfilter.extras import extra
from paramfilter.plots.contents import Results, components_drawn, opened, over_time, true_value
from paramfilter.plots.style import EXTRA, INK, LOOK, QUIET, asked_for, coloured, without_y
from paramfilter.results.bands import band
from paramfilter.results.tables import bounds_of

NUM_FRAMES = 60
MILLISECONDS = 120
NUM_LEVELS = 99


def animation(
    results: Results,
    *,
    names: Iterable[str] | None = None,
    truth: Mapping[str, Any] | None = None,
    level: float = 0.9,
    title: str | None = None,
) -> Any:
    """Return an animation of the density of each parameter, from the first observation to the last.

    Keep it with `animation.save("posterior.gif")`; in a notebook `animation.to_jshtml()` plays it. Densities are drawn
    from mean and sd, inside the parameter's bounds. Steps follow each other faster as time goes on, as learning slows.
    `level` has no part in it: it draws densities, not intervals.
    """
    matplotlib, pyplot = extra("matplotlib", EXTRA), extra("matplotlib.pyplot", EXTRA)
    moving = extra("matplotlib.animation", EXTRA)
    trees, asked = opened(results), asked_for(names, truth, level)
    parts = components_drawn(trees, "filtered", asked)
    with matplotlib.rc_context(LOOK):
        figure, axes = pyplot.subplots(
            1, len(parts), figsize=(0.6 + 3.2 * len(parts), 3), layout="constrained", squeeze=False
        )
        curves = {}
        for axis, one in zip(axes.flat, parts, strict=True):
            for legend, _, colour in coloured(trees):
                (curves[one, legend],) = axis.plot([], [], color=colour, linewidth=1.8, label=legend)
            if (value := true_value(asked, one)) is not None:
                axis.axvline(value, color=INK, linewidth=1, linestyle="--")
            _limits(axis, [over_time(tree, "filtered", one) for tree in trees.values()])
            axis.set_xlabel(str(one))
            without_y(axis)
        if len(trees) > 1:
            axes.flat[0].legend(loc="upper left")
        heading = figure.suptitle(" ", x=0.01, ha="left", fontsize=11, color=QUIET)
    first = next(iter(trees.values()))["filtered"]["time"].to_numpy()
    steps = np.unique(np.geomspace(1, len(first), NUM_FRAMES).astype(int)) - 1

    def frame(step: int) -> list[Any]:
        for (one, legend), curve in curves.items():
            curve.set_data(*_density(*over_time(trees[legend], "filtered", one), step))
        heading.set_text(f"{title}, after {step + 1} observations" if title else f"after {step + 1} observations")
        return [*curves.values(), heading]

    pyplot.close(figure)
    return moving.FuncAnimation(figure, frame, frames=steps.tolist(), interval=MILLISECONDS, blit=False)


def _density(variable: Any, mean: np.ndarray, sd: np.ndarray, step: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points of the density whose intervals `band` draws: by the slope of its quantiles, its top at 1."""
    levels = np.linspace(0.02, 0.998, NUM_LEVELS)
    low, high = map(np.asarray, band(mean[step], sd[step], levels, **bounds_of(variable)))
    values = np.concatenate([low[::-1], high])
    below = np.concatenate([0.5 - levels[::-1] / 2, 0.5 + levels / 2])
    density = norm.pdf(norm.ppf(below)) / np.gradient(values, norm.ppf(below))
    return values, density / np.max(density)


def _limits(axis: Any, found: list[tuple[Any, np.ndarray, np.ndarray]]) -> None:
    """Show what the first observations left open, and a little more."""
    ends = [band(mean[0], sd[0], 0.95, **bounds_of(variable)) for variable, mean, sd in found]
    axis.set_xlim(min(low for low, _ in ends), max(high for _, high in ends))
    axis.set_ylim(0, 1.1)

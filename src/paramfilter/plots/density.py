"""Draws and their densities, each scaled to its own peak, and what to do with a filter that has collapsed."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.labels import Component
from paramfilter.plots.contents import bounds_of, group_of
from paramfilter.plots.style import Look

NUM_POINTS = 200
FEWEST_VALUES = 10
"""Distinct draws below which there is no density to estimate: the filter has collapsed."""
COLLAPSED_SHARE = 1e-3
"""Of the widest posterior's sd, below which another one counts as collapsed."""


def draws_of(tree: Any, group: str, one: Component) -> tuple[np.ndarray, tuple[float, float]]:
    """Return all draws of a component, and the bounds of its parameter."""
    variable = group_of(tree, group)[one.name]
    return np.asarray(variable, float)[:, :, *one.place].reshape(-1), bounds_of(variable)


def collapsed(draws: dict[str, np.ndarray]) -> set[str]:
    """Return the labels of the results that hold next to one value of a parameter."""
    least = COLLAPSED_SHARE * max(float(np.std(values)) for values in draws.values())
    few = lambda values: len(np.unique(values)) < FEWEST_VALUES or np.std(values) < least
    return {label for label, values in draws.items() if few(values)}


def draw_density(
    axis: Any, draws: np.ndarray, bounds: tuple[float, float], look: Look, label: str, is_collapsed: bool
) -> None:
    """Draw a density of height 1, or the value that a collapsed filter holds as a line with a cross."""
    if is_collapsed:
        said = f"{label} (collapsed)" if label else "collapsed"
        style = {"linewidth": 1.2, "marker": "x", "markevery": [1], "label": said}
        axis.plot(np.full(2, np.mean(draws)), [0, 1.0], color=look.color, linestyle=look.dashes, **style)
        return
    points, values = density_of(draws, bounds)
    axis.plot(points, values, color=look.color, linestyle=look.dashes, linewidth=1.5, label=label)
    axis.fill_between(points, values, color=look.color, alpha=0.13, linewidth=0)


def density_of(draws: np.ndarray, bounds: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return points and values of a density with a peak of 1; at a bound the kernel is folded back."""
    from scipy.stats import gaussian_kde  # importing it takes a second, which most pictures do not need

    low, high = np.quantile(draws, [0.005, 0.995])
    margin = 0.15 * (high - low)
    points = np.linspace(max(low - margin, bounds[0]), min(high + margin, bounds[1]), NUM_POINTS)
    kernel = gaussian_kde(draws)
    values = kernel(points) + sum(kernel(2 * bound - points) for bound in bounds if np.isfinite(bound))
    return points, values / np.max(values)

"""The posterior of each parameter over its prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.labels import Component
from paramfilter.plots.contents import Asked, bounds_of, components_drawn, draws_of, first_of, group_of, true_path
from paramfilter.plots.picture import picture
from paramfilter.plots.style import QUIET, TRUTH, finish, grid, styled

NUM_POINTS = 200
FEWEST_VALUES = 10
"""Distinct draws below which there is no density to estimate: the filter has collapsed."""
COLLAPSED_SHARE = 1e-3
"""Of the widest posterior's sd, below which another one counts as collapsed."""
ZOOM = 0.3
"""Share of the prior's range below which a panel shows the posteriors' range."""
LARGEST = 0.999
"""Contraction that is written; of what is nearer to 1 the digits say nothing."""


@picture
def prior_posterior(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the posterior of each parameter over its prior, each density scaled to its own peak.

    Where the posteriors are much narrower than the prior, a panel shows their range. The contraction 1 - var(posterior)
    / var(prior) stands at the left, in the color of each result. A filter that holds next to one value has collapsed:
    it is drawn as a line with a cross and has no contraction.
    """
    parts, remark = components_drawn(trees, "filtered", asked)
    figure, axes = grid(len(parts), 2.2)
    for axis, one in zip(axes, parts, strict=True):
        _over_prior(axis, trees, one, asked)
        axis.set_title(f"{asked.label(one)}: contraction")
        axis.set_yticks([])
        axis.spines["left"].set_visible(False)
    return finish(figure, axes, remark)


def _over_prior(axis: Any, trees: dict[str, Any], one: Component, asked: Asked) -> None:
    first = first_of(trees)
    before, bounds = draws_of(first, "prior", one), bounds_of(group_of(first, "prior")[one.name])
    after = {label: draws_of(tree, "posterior", one) for label, tree in trees.items()}
    gone, shown = collapsed(after), []
    prior = density_of(before, bounds)
    axis.plot(*prior, color=QUIET, linewidth=1.2, label="prior")
    for place, (label, _, look) in enumerate(styled(trees)):
        draws, said, name = after[label], "collapsed", label or "posterior"
        if label in gone:
            cross = {"marker": "x", "markevery": [1], "label": f"{name} (collapsed)"}
            axis.plot([np.mean(draws)] * 2, [0, 1], **look.line(1.2), **cross)
        else:
            points, heights = density_of(draws, bounds)
            axis.plot(points, heights, **look.line(1.5), label=name)
            axis.fill_between(points, heights, color=look.color, alpha=0.13, linewidth=0)
            ends = np.quantile(draws, [0.5 - asked.level / 2, 0.5 + asked.level / 2])
            axis.plot(ends, [-0.06 * (1 + place)] * 2, color=look.color, linewidth=3, solid_capstyle="butt")
            contraction = 1 - np.var(draws) / np.var(before)
            said = f"{contraction:.1%}" if contraction < LARGEST else f"> {LARGEST:.1%}"
            shown += [points[0], points[-1]]
        axis.text(0.01, 0.98 - 0.1 * place, said, color=look.color, size=8, va="top", transform=axis.transAxes)
    if (path := true_path(asked, one, first["filtered"][one.name])) is not None:
        axis.axvline(path[-1], **TRUTH)
        shown.append(path[-1])
    if len(gone) < len(trees) and np.ptp(shown) < ZOOM * np.ptp(prior[0]):
        axis.set_xlim(min(shown), max(shown))
    axis.set_ylim(-0.06 * (1 + len(trees)) - 0.03, 1.1 + 0.2 * len(trees))


def collapsed(draws: dict[str, np.ndarray]) -> set[str]:
    """Return the labels of the results that hold next to one value of a parameter."""
    least = COLLAPSED_SHARE * max(float(np.std(values)) for values in draws.values())
    few = lambda values: len(np.unique(values)) < FEWEST_VALUES or np.std(values) < least
    return {label for label, values in draws.items() if few(values)}


def density_of(draws: np.ndarray, bounds: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return points and values of a density with a peak of 1; at a bound the kernel is folded back."""
    from scipy.stats import gaussian_kde  # importing it takes a second, which most pictures do not need

    low, high = np.quantile(draws, [0.005, 0.995])
    margin = 0.15 * (high - low)
    points = np.linspace(max(low - margin, bounds[0]), min(high + margin, bounds[1]), NUM_POINTS)
    kernel = gaussian_kde(draws)
    values = kernel(points) + sum(kernel(2 * bound - points) for bound in bounds if np.isfinite(bound))
    return points, values / np.max(values)

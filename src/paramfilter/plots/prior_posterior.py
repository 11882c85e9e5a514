"""The posterior of each parameter over its prior."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.labels import Component
from paramfilter.plots.contents import components_drawn, true_value
from paramfilter.plots.density import collapsed, density_of, draw_density, draw_spike, draws_of
from paramfilter.plots.style import INK, QUIET, Asked, grid, legend_below, note, picture, styled, without_y

ZOOM = 0.3
"""Share of the prior's range below which the panel shows the posterior's range, and the whole prior in an inset."""
MARGIN = 0.15
LARGEST = 0.999
"""Contraction that is written; of what is nearer to 1 the digits say nothing."""
HIGHEST = 1.6
"""Of the panel, where densities have the height 1: above them there is room for contractions and the inset."""


@picture
def prior_posterior(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the posterior of each parameter over its prior, each density scaled to its own peak.

    A panel shows the posterior's range; where this is a small part of the prior's, an inset shows the whole prior. The
    contraction 1 - var(posterior) / var(prior) stands at the left, in the color of each result. A filter that
    holds next to one value has collapsed: it is drawn as a line with a cross and has no contraction.

    Args:
        results: A result, its path, `(state, history)`, or a dict of these to compare.
        names: Parameters to draw; None for the first twelve.
        truth: Known values by name, drawn as dashed lines.
        level: Of the interval below each density, 0.9 by default.
        last: Changes nothing: the posterior is that of the last step.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    parts, remark = components_drawn(trees, "filtered", asked)
    figure, axes = grid(len(parts), 2.2)
    for axis, one in zip(axes, parts, strict=True):
        _panel(axis, trees, one, asked)
    legend_below(figure, *axes)
    note(figure, remark)
    return figure


def _panel(axis: Any, trees: dict[str, Any], one: Component, asked: Asked) -> None:
    before, bounds = draws_of(next(iter(trees.values())), "prior", one)
    after = {label: draws_of(tree, "posterior", one)[0] for label, tree in trees.items()}
    gone, value = collapsed(after), true_value(asked, one)
    prior = density_of(before, bounds)
    axis.plot(*prior, color=QUIET, linewidth=1.2, label="prior")
    contractions = []
    for place, (label, _, look) in enumerate(styled(trees)):
        draws = after[label]
        if label in gone:
            draw_spike(axis, draws, look, label or "posterior")
            contractions.append("collapsed")
            continue
        draw_density(axis, draws, bounds, look, label or "posterior")
        ends = np.quantile(draws, [0.5 - asked.level / 2, 0.5 + asked.level / 2])
        height = -0.06 * (1 + place)
        axis.plot(ends, [height, height], color=look.color, linewidth=3, solid_capstyle="butt")
        contraction = 1 - np.var(draws) / np.var(before)
        contractions.append(f"{contraction:.1%}" if contraction < LARGEST else f"> {LARGEST:.1%}")
    if value is not None:
        axis.axvline(value, color=INK, linewidth=1, linestyle="--", label="truth")
    alive = [draws for label, draws in after.items() if label not in gone] or [before]
    _zoom(axis, [*alive, *([[value]] if value is not None else [])], prior, [after[label] for label in gone])
    for place, (said, (_, _, look)) in enumerate(zip(contractions, styled(trees), strict=True)):
        style = {"color": look.color, "size": 8, "va": "top", "bbox": {"color": "white", "pad": 0.5, "alpha": 0.8}}
        axis.text(0.01, 0.98 - 0.1 * place, said, transform=axis.transAxes, **style)
    axis.set_title(f"{one}: contraction", fontsize=9)
    axis.set_ylim(-0.06 * (1 + len(trees)) - 0.03, HIGHEST)
    without_y(axis)


def _zoom(axis: Any, shown: list[Any], prior: tuple[np.ndarray, np.ndarray], spikes: list[np.ndarray]) -> None:
    """Show the posterior's range, and the whole prior in an inset if that range is a small part of it."""
    low = min(float(np.quantile(draws, 0.0005)) for draws in shown)
    high = max(float(np.quantile(draws, 0.9995)) for draws in shown)
    margin = MARGIN * (high - low)
    low, high = low - margin, high + margin
    if high - low > ZOOM * np.ptp(prior[0]):
        return
    axis.set_xlim(low, high)
    inset = axis.inset_axes((0.66, 0.76, 0.33, 0.22))
    inset.fill_between(*prior, color=QUIET, alpha=0.35, linewidth=0)
    inset.axvspan(low, high, color=INK, alpha=0.5, linewidth=0)
    for draws in spikes:
        inset.axvline(float(np.mean(draws)), color=QUIET, linewidth=0.8)
    without_y(inset)
    inset.tick_params(labelsize=6, length=2, pad=1)
    inset.locator_params(axis="x", nbins=3)

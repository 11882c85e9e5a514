"""Ranks: where observations lay among their forecasts, or truths among posterior draws. Flat is right."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from scipy.stats import binom

from paramfilter.calibration import Calibration
from paramfilter.labels import components_of
from paramfilter.plots.contents import Results, chosen, group_of, opened
from paramfilter.plots.style import GAP, Asked, coloured, grid, picture, without_y
from paramfilter.results.tree import PIT

NUM_BINS = 20
FEW = 200
"""Below so many ranks half as many bins are used."""


@picture
def ranks(results: Results | Calibration, asked: Asked) -> Any:
    """Draw histograms of ranks, over the band in which a bar of uniform ranks lies with probability `level`.

    Args:
        results: One result (ranks of observations among one-step forecasts), a `Calibration` (ranks of true parameters
            and states among posterior draws, at its last time), or a dict of these.
        names: Quantities to draw.
        truth: Has no part in this picture.
        level: Of the band.
    """
    found = {(label, name): values for label, one in _all(results).items() for name, values in one.items()}
    drawn = chosen(list(dict.fromkeys(name for _, name in found)), asked)
    wanted = {(label, name): values for (label, name), values in found.items() if name in drawn}
    figure, axes = grid(len(wanted), 2.1)
    colours = {label: colour for label, _, colour in coloured(dict.fromkeys(label for label, _ in wanted))}
    for axis, ((label, name), values) in zip(axes, wanted.items(), strict=True):
        values = values[~np.isnan(values)]
        num_bins = NUM_BINS if len(values) >= FEW else NUM_BINS // 2
        low, high = binom.interval(asked.level, len(values), 1 / num_bins)
        axis.axhspan(low, high, color=GAP, linewidth=0)
        axis.axhline(len(values) / num_bins, color="white", linewidth=1)
        axis.hist(values, num_bins, range=(0, 1), color=colours[label], alpha=0.75, rwidth=0.92)
        axis.set_title(f"{label}: {name}" if label else name)
        axis.set_xlim(0, 1)
        axis.set_xticks([0, 0.5, 1])
        without_y(axis)
    figure.supxlabel(f"rank; grey: {asked.level:.0%} band of uniform ranks", fontsize=9)
    return figure


def _all(results: Any) -> dict[str, dict[str, np.ndarray]]:
    """Return ranks by label and quantity."""
    if isinstance(results, Calibration):
        return {"": {name: results.ranks[:, -1, index] for index, name in enumerate(results.quantities)}}
    if isinstance(results, Mapping) and any(isinstance(one, Calibration) for one in results.values()):
        return {str(label): ranks for label, one in results.items() for ranks in _all(one).values()}
    return {label: _of_forecasts(tree) for label, tree in opened(results).items()}


def _of_forecasts(tree: Any) -> dict[str, np.ndarray]:
    found = {}
    for name, variable in group_of(tree, "filter_stats").data_vars.items():
        if not str(name).startswith(PIT):
            continue
        values = np.asarray(variable, float)
        parts = components_of(str(name).removeprefix(PIT), values.shape[1:])
        found |= {str(one): values[:, *one.place] for one in parts}
    return found

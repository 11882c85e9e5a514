"""How far posterior means are from the truth, in posterior standard deviations."""

from __future__ import annotations

from typing import Any

import numpy as np

from paramfilter.errors import DataError
from paramfilter.plots.contents import components_drawn, true_path, true_value, variable_of
from paramfilter.plots.style import (
    GAP,
    INK,
    MOST_POINTS,
    Asked,
    label_time,
    legend_below,
    note,
    panels,
    picture,
    styled,
)
from paramfilter.results.tables import values_of

BAND = 2.0
"""In posterior sds: where about 95 % of the errors of a calibrated posterior lie."""
END = {"ha": "right", "va": "center", "bbox": {"color": "white", "pad": 0.5, "alpha": 0.8}}
FARTHEST = 12.0
"""Of an axis, in sds: beyond it, lines run out of the panel, and their last value is written there."""


@picture
def convergence(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw the signed error of each posterior mean, in posterior sds, over the band of plus and minus two.

    A calibrated posterior stays inside the band most of the time. A line far outside belongs to an overconfident
    filter; one that ends beyond 12 sds is cut, and the panel says where it ends.

    Args:
        results: A result, its path, `(state, history)`, or a dict of these to compare.
        names: Parameters to draw; None for all that `truth` names, at most twelve.
        truth: Known values by name, with a leading time axis if they change; needed.
        level: Changes nothing: the band is that of two sds.
        last: Number of steps to draw, up to the last; None for all, on a logarithmic axis.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    if not asked.truth:
        raise DataError('convergence needs truth={"name": value} to measure distances from.')
    drawn, remark = components_drawn(trees, "filtered", asked)
    parts = [one for one in drawn if true_value(asked, one) is not None]
    if not parts:
        raise DataError(f"truth names {list(asked.truth)}, and none of them is a parameter of the result.")
    figure, axes = panels(len(parts), 1.9, sharex=True)
    for axis, one in zip(axes, parts, strict=True):
        axis.axhspan(-BAND, BAND, color=GAP, linewidth=0, label="±2 posterior sds")
        axis.axhline(0.0, color=INK, linewidth=0.8)
        for label, tree, look in styled(trees):
            variable = variable_of(tree, "filtered", one)
            errors = _errors(variable, one, true_path(asked, one, variable.sizes["time"]))
            num_before = tree.attrs["num_observations"] - len(errors)
            steps = np.unique(np.geomspace(1, len(errors), min(len(errors), MOST_POINTS)).astype(int))
            values = errors[steps - 1]
            axis.plot(steps + num_before, values, color=look.color, ls=look.dashes, lw=1.3, label=label or "mean")
        largest = max(1.2 * BAND, *(float(np.nanmax(np.abs(line.get_ydata()))) for line in axis.lines[1:]))
        axis.set_ylim(-min(1.1 * largest, FARTHEST), min(1.1 * largest, FARTHEST))
        axis.set_ylabel(f"{one}\n(mean - truth) / sd")
        _say_where_it_ends(axis)
        if asked.last is None:
            axis.set_xscale("log")
    label_time(axes, "step")
    legend_below(figure, *axes)
    note(figure, remark)
    return figure


def _errors(variable: Any, one: Any, truth: Any) -> np.ndarray:
    mean, sd = values_of(variable, one, "mean"), values_of(variable, one, "sd")
    with np.errstate(divide="ignore", invalid="ignore"):
        errors = (mean - truth) / sd
    return np.where(np.isfinite(errors), errors, np.sign(mean - truth) * np.finfo(np.float32).max)


def _say_where_it_ends(axis: Any) -> None:
    """Write the last error of each line that ends outside the panel at its right end."""
    high = axis.get_ylim()[1]
    cut = [line for line in axis.lines[1:] if abs(line.get_ydata()[-1]) > high]
    for place, line in enumerate(cut):
        end = line.get_ydata()[-1]
        said = f"ends at {end:+.0f} sds" if abs(end) < 1e4 else "sd has fallen to 0"
        height = 0.95 - 0.13 * place if end > 0 else 0.05 + 0.13 * place
        axis.text(0.99, height, said, color=line.get_color(), size=8, transform=axis.transAxes, **END)

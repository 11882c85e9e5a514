"""The health of a run over time, under one time axis."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from paramfilter.diagnostics import CODES, examine, record_of
from paramfilter.diagnostics.diagnosis import LEAST_ESS
from paramfilter.particles.accuracy import ERROR_LIMIT
from paramfilter.plots.contents import Asked, chosen, first_of, group_of, stat, time_name
from paramfilter.plots.picture import picture
from paramfilter.plots.ribbons import shade_gaps
from paramfilter.plots.style import ALARM, Look, finish, panels, styled, thinned

WELL = "diagnose: no warning"


class Strip(NamedTuple):
    """One figure of each step.

    Attributes:
        label: Its name.
        figures: Takes it out of a result; NaN where there is none.
        worst: Which of two is worse: `np.fmin` or `np.fmax`.
        limit: Where a warning begins.
        style: Of the axis.
    """

    label: str
    figures: Callable[[Any], np.ndarray]
    worst: np.ufunc
    limit: float
    style: dict[str, Any]


def _error(name: str, tree: Any) -> np.ndarray:
    """Return an error of one family; NaN where the other family made the result."""
    if name not in group_of(tree, "filter_stats"):
        return np.full(len(stat(tree, "ess")), np.nan)
    found = stat(tree, name)
    return np.where(found > 0, found, np.nan)


def _is_raised(flags: int, tree: Any) -> np.ndarray:
    return ((np.asarray(group_of(tree, "filter_stats")["outcome"]) & flags) != 0).astype(float)


ESS = Strip(
    "ESS / N", lambda tree: stat(tree, "ess") / tree.attrs["num_particles"], np.fmin, LEAST_ESS, {"ylim": (0, 1.05)}
)
YES_OR_NO = {"ylim": (-0.1, 1.1), "yticks": [0, 1], "yticklabels": ["no", "yes"]}
STRIPS = (
    ESS,
    Strip("error, nats", partial(_error, "approximation_error"), np.fmax, ERROR_LIMIT, {"yscale": "log"}),
    Strip("error, sds", partial(_error, "surface_error"), np.fmax, ERROR_LIMIT, {"yscale": "log"}),
    *(Strip(one.code, partial(_is_raised, int(one.flags)), np.fmax, 0.5, YES_OR_NO) for one in CODES if one.flags),
)
"""What can be drawn: two figures, and each warning that single steps raise."""


@picture
def health(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw effective sample size and the error of beliefs over time, and each warning that was given.

    Values beyond their limit are filled. A strip with a warning's code shows the steps that raised it; the warnings of
    `diagnose` stand below. Where a long run is thinned, the worst of the steps between two points is shown. `names`
    takes strips, such as "ESS / N".
    """
    known = {strip.label: strip for strip in STRIPS if any(_has_values(strip, tree) for tree in trees.values())}
    drawn = [known[label] for label in chosen(list(known), asked)]
    figure, axes = panels(len(drawn), 1.15, sharex=True)
    found = warnings_of(trees)
    for axis, strip in zip(axes, drawn, strict=True):
        for label, tree, look in styled(trees):
            codes = ", ".join(said.split()[0] for said in found[label]) or "no warning"
            if _has_values(strip, tree):
                draw_strip(axis, strip, tree, look, f"{label}: {codes}" if label else "_")
        axis.set_ylabel(asked.label(strip.label), rotation=0, ha="right", va="center")
    shade_gaps(axes, first_of(trees))
    return finish(figure, axes, "; ".join(found.get("", ())) or WELL * ("" in found), time_name(trees, asked))


def _has_values(strip: Strip, tree: Any) -> bool:
    """Tell whether there is something to draw: of a warning, that it was raised."""
    return bool(np.any(strip.figures(tree) > 0) if strip.style is YES_OR_NO else np.isfinite(strip.figures(tree)).any())


def warnings_of(trees: dict[str, Any]) -> dict[str, list[str]]:
    """Return by label which warnings `diagnose` gives, each a code and a few words."""
    findings = {label: examine(record_of(tree)).findings for label, tree in trees.items()}
    return {label: [f"{one.code.code} {one.code.title}" for one in found] for label, found in findings.items()}


def draw_strip(axis: Any, strip: Strip, tree: Any, look: Look, label: str) -> None:
    """Draw one figure of one result, filled where it is beyond its limit."""
    times = group_of(tree, "filter_stats")["time"].to_numpy()
    starts = np.arange(len(times))[thinned(len(times))]
    times, values = times[starts], strip.worst.reduceat(strip.figures(tree), starts)
    axis.plot(times, values, **look.line(1.0), drawstyle="steps-mid", label=label)
    is_beyond = values <= strip.limit if strip.worst is np.fmin else values > strip.limit
    if is_beyond.any():
        axis.fill_between(times, values, strip.limit, where=is_beyond, step="mid", color=ALARM, alpha=0.3, linewidth=0)
        axis.axhline(strip.limit, color=ALARM, linewidth=0.8, linestyle=":")
    axis.set(**strip.style)
    axis.margins(x=0.01)

"""The health of a run over time, under one time axis."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from paramfilter.diagnostics import examine
from paramfilter.diagnostics.codes import CODES
from paramfilter.diagnostics.diagnosis import LEAST_ESS
from paramfilter.diagnostics.saved import record_of
from paramfilter.particles.accuracy import ERROR_LIMIT
from paramfilter.plots.contents import Asked, chosen, first_of, group_of, has_nodes, stat, time_name
from paramfilter.plots.picture import picture
from paramfilter.plots.ribbons import shade_gaps
from paramfilter.plots.style import ALARM, Look, finish, label_time, panels, styled, thinned

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


def _error(is_of_nodes: bool) -> Callable[[Any], np.ndarray]:
    def figures(tree: Any) -> np.ndarray:
        found = stat(tree, "approximation_error")
        return np.where((found > 0) & (has_nodes(tree) == is_of_nodes), found, np.nan)

    return figures


ESS = Strip(
    "ESS / N", lambda tree: stat(tree, "ess") / tree.attrs["num_particles"], np.fmin, LEAST_ESS, {"ylim": (0.0, 1.05)}
)
STRIPS = (
    ESS,
    Strip("error, nats", _error(False), np.fmax, ERROR_LIMIT, {"yscale": "log"}),
    Strip("error, sds", _error(True), np.fmax, ERROR_LIMIT, {"yscale": "log"}),
)


@picture
def health(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw effective sample size and the error of beliefs over time, and each warning that was given.

    Values beyond their limit are filled. A strip with a warning's code shows the steps that raised it; the warnings of
    `diagnose` stand below. Where a long run is thinned, the worst of the steps between two points is shown. `names`
    takes strips, such as "ESS / N".
    """
    has_values = lambda strip, tree: bool(np.isfinite(strip.figures(tree)).any())
    strips = [*STRIPS, *_of_codes(trees)]
    known = {strip.label: strip for strip in strips if any(has_values(strip, tree) for tree in trees.values())}
    drawn = [known[label] for label in chosen(list(known), asked)]
    figure, axes = panels(len(drawn), 1.15, sharex=True)
    for axis, strip in zip(axes, drawn, strict=True):
        for label, tree, look in styled(trees):
            if has_values(strip, tree):
                draw_strip(axis, strip, tree, look, label)
        axis.set_ylabel(asked.label(strip.label), rotation=0, ha="right", va="center")
    shade_gaps(axes, first_of(trees))
    found = warnings_of(trees)
    if len(trees) == 1:
        label_time(axes, time_name(trees, asked))
        figure.set_label("; ".join(found[""]) or WELL)
        return figure
    for line in axes[0].lines:
        codes = [said.split()[0] for said in found.get(line.get_label(), ())]
        line.set_label(f"{line.get_label()}: {', '.join(codes) or 'no warning'}")
    return finish(figure, axes[:1], times=time_name(trees, asked))


def warnings_of(trees: dict[str, Any]) -> dict[str, list[str]]:
    """Return by label which warnings `diagnose` gives, each a code and a few words."""
    findings = {label: examine(record_of(tree)).findings for label, tree in trees.items()}
    return {label: [f"{one.code.code} {one.code.title}" for one in found] for label, found in findings.items()}


def draw_strip(axis: Any, strip: Strip, tree: Any, look: Look, label: str) -> None:
    """Draw one figure of one result, filled where it is beyond its limit."""
    times = group_of(tree, "filter_stats")["time"].to_numpy()
    values, limit = strip.figures(tree), strip.limit
    starts = np.arange(len(values))[thinned(len(values))]
    times, values = times[starts], strip.worst.reduceat(values, starts)
    axis.plot(times, values, color=look.color, ls=look.dashes, lw=1, drawstyle="steps-mid", label=label)
    is_beyond = values <= limit if strip.worst is np.fmin else values > limit
    if is_beyond.any():
        far = np.nanmax(values) * 1.3 if strip.worst is np.fmin else np.nanmin(values)
        edge = np.full(len(values), max(limit, far if limit <= np.nanmin(values) else limit))
        axis.fill_between(times, values, edge, where=is_beyond, step="mid", color=ALARM, alpha=0.3, linewidth=0)
        axis.axhline(limit, color=ALARM, linewidth=0.8, linestyle=":")
    axis.set(**strip.style)
    axis.margins(x=0.01)


def _of_codes(trees: dict[str, Any]) -> list[Strip]:
    """Return a strip for each warning that single steps raised."""
    outcomes = lambda tree: np.asarray(group_of(tree, "filter_stats")["outcome"])
    raised = np.bitwise_or.reduce([np.bitwise_or.reduce(outcomes(tree)) for tree in trees.values()])
    style = {"ylim": (-0.1, 1.1), "yticks": [0, 1], "yticklabels": ["no", "yes"]}
    flagged_by = lambda flags: lambda tree: ((outcomes(tree) & flags) != 0).astype(float)
    flags = {code.code: int(code.flags) for code in CODES if int(code.flags) & int(raised)}
    return [Strip(code, flagged_by(flag), np.fmax, 0.5, style) for code, flag in flags.items()]

"""The health of a run over time, under one time axis."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from paramfilter.beliefs import ERROR_LIMIT
from paramfilter.diagnostics import examine
from paramfilter.diagnostics.codes import CODES
from paramfilter.diagnostics.diagnosis import LEAST_ESS, RHAT_LIMIT
from paramfilter.plots.contents import chosen, group_of, has_nodes, time_name
from paramfilter.plots.gaps import shade_gaps
from paramfilter.plots.style import ALARM, Asked, label_time, legend_below, note, panels, picture, styled, thinned
from paramfilter.results import record_of

WELL = "diagnose: no warning"
CODE_NAMES = frozenset(code.code for code in CODES)


@picture
def health(trees: dict[str, Any], asked: Asked) -> Any:
    """Draw effective sample size, ancestors, R-hat and the error of beliefs over time, and each warning that was given.

    Values beyond their limit are filled. A strip with a warning's code shows the steps that raised it; the warnings of
    `diagnose` stand below. Where a long run is thinned, the worst of the steps between two points is shown.

    Args:
        results: A result, its path, `(state, history)`, or a dict of these to compare.
        names: Strips to draw, such as "ESS / N"; None for all that have values.
        truth: Changes nothing: the health of a run does not depend on it.
        level: Changes nothing: no interval is drawn.
        last: Number of steps to draw, up to the last; None for all.
        title: Replaces the title; "" for none.
        labels: Texts for axes by what they are called otherwise, such as {"x": "level, m"}.
    """
    known = {strip.label: strip for strip in [*STRIPS, *_of_codes(trees)] if any(map(strip.has_values, trees.values()))}
    strips = [known[label] for label in chosen(list(known), asked)]
    figure, axes = panels(len(strips), 1.15, sharex=True)
    for axis, strip in zip(axes, strips, strict=True):
        for label, tree, look in styled(trees):
            if strip.has_values(tree):
                draw_strip(axis, strip, tree, look, label)
        _finish(axis, strip)
    shade_gaps(axes, next(iter(trees.values())))
    label_time(axes, time_name(trees))
    found = warnings_of(trees)
    if len(trees) > 1:
        codes = {label: ", ".join(word for word in said.split() if word in CODE_NAMES) for label, said in found.items()}
        for line in axes[0].lines:
            line.set_label(f"{line.get_label()}: {codes.get(line.get_label()) or 'no warning'}")
        legend_below(figure, axes[0])
    else:
        note(figure, *found.values())
    return figure


def warnings_of(trees: dict[str, Any]) -> dict[str, str]:
    """Return by label which warnings `diagnose` gives, in a few words."""
    said = {}
    for label, tree in trees.items():
        findings = examine(record_of(tree)).findings
        said[label] = "; ".join(f"{one.code.code} {one.code.title}" for one in findings) or WELL
    return said


@dataclass(frozen=True)
class Strip:
    """One figure of each step.

    Attributes:
        label: Its name.
        figures: Takes it out of a result; NaN where there is none.
        worst: Which of two is worse: `np.fmin` or `np.fmax`.
        limit: Takes the value at which a warning begins out of a result.
        scale: Of the axis.
        span: Of the axis; None for what the figures need.
    """

    label: str
    figures: Callable[[Any], np.ndarray]
    worst: np.ufunc
    limit: Callable[[Any], float]
    scale: str = "linear"
    span: tuple[float, float] | None = None

    def has_values(self, tree: Any) -> bool:
        """Tell whether a result has this figure."""
        return bool(np.isfinite(self.figures(tree)).any())


def draw_strip(axis: Any, strip: Strip, tree: Any, look: Any, label: str) -> None:
    """Draw one figure of one result, filled where it is beyond its limit."""
    times = group_of(tree, "filter_stats")["time"].to_numpy()
    values, limit = strip.figures(tree), strip.limit(tree)
    starts = np.arange(len(values))[thinned(len(values))]
    times, values = times[starts], strip.worst.reduceat(values, starts)
    axis.plot(times, values, color=look.color, ls=look.dashes, lw=1, drawstyle="steps-mid", label=label)
    is_beyond = values <= limit if strip.worst is np.fmin else values > limit
    if is_beyond.any():
        far = np.nanmax(values) * 1.3 if strip.worst is np.fmin else np.nanmin(values)
        edge = np.full(len(values), max(limit, far if limit <= np.nanmin(values) else limit))
        axis.fill_between(times, values, edge, where=is_beyond, step="mid", color=ALARM, alpha=0.3, linewidth=0)
        axis.axhline(limit, color=ALARM, linewidth=0.8, linestyle=":")


def _finish(axis: Any, strip: Strip) -> None:
    axis.set_yscale(strip.scale)
    if strip.span is not None:
        axis.set_ylim(*strip.span)
    if strip.label.startswith("W"):
        axis.set_yticks([0, 1], ["no", "yes"])
    axis.set_ylabel(strip.label, rotation=0, ha="right", va="center")
    axis.margins(x=0.01)


def _stat(tree: Any, name: str) -> np.ndarray:
    return np.asarray(group_of(tree, "filter_stats")[name], float)


def _ancestors(tree: Any) -> np.ndarray:
    found = _stat(tree, "num_unique_ancestors")
    return np.full_like(found, np.nan) if has_nodes(tree) else found


def _rhat(tree: Any) -> np.ndarray:
    each = _stat(tree, "rhat")
    worst = np.max(np.where(np.isnan(each), -np.inf, each), axis=1)
    return np.where(np.isfinite(worst), worst, np.nan)


def _error(tree: Any, is_of_nodes: bool) -> np.ndarray:
    found = _stat(tree, "approximation_error")
    return np.where((found > 0) & (has_nodes(tree) == is_of_nodes), found, np.nan)


def _of_codes(trees: dict[str, Any]) -> list[Strip]:
    """Return a strip for each warning that single steps raised."""
    raised = np.bitwise_or.reduce(
        [np.bitwise_or.reduce(np.asarray(group_of(tree, "filter_stats")["outcome"])) for tree in trees.values()]
    )
    flags = {code.code: int(code.flags) for code in CODES if int(code.flags) & int(raised)}
    return [Strip(code, _flagged_by(flag), np.fmax, lambda tree: 0.5, span=(-0.1, 1.1)) for code, flag in flags.items()]


def _flagged_by(flag: int) -> Callable[[Any], np.ndarray]:
    return lambda tree: ((np.asarray(tree["filter_stats"]["outcome"]) & flag) != 0).astype(float)


STRIPS = (
    Strip(
        "ESS / N",
        lambda tree: _stat(tree, "ess") / tree.attrs["num_particles"],
        np.fmin,
        lambda tree: LEAST_ESS,
        span=(0.0, 1.05),
    ),
    Strip("ancestors", _ancestors, np.fmin, lambda tree: float(tree.attrs["num_islands"]), scale="log"),
    Strip("R-hat", _rhat, np.fmax, lambda tree: RHAT_LIMIT),
    Strip("error, nats", lambda tree: _error(tree, False), np.fmax, lambda tree: ERROR_LIMIT, scale="log"),
    Strip("error, sds", lambda tree: _error(tree, True), np.fmax, lambda tree: ERROR_LIMIT, scale="log"),
)

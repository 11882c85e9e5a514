"""Pictures of several filters on the same data: a column of trajectories for each, and below them the errors of all."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from papers.epf2013 import drawing
from papers.epf2013.filter_runs import errors_at_end
from papers.epf2013.numbers import Results

MOST_COLUMNS = 4
FAR_OFF = 6.0
"""Errors, in sds, beyond which their axis is logarithmic."""

SYMBOLS = {"theta": "θ", "gamma": "γ"}
COLOURS = {"SIR": drawing.VERMILION, "Liu–West": drawing.ORANGE, "EPF": drawing.GREEN, "grid": drawing.BLUE}
"""By the first word of a filter's label; a second one of the same kind is purple."""


def draw_filters(results: Results, limits: Mapping[str, tuple[float, float]], with_data: bool = False) -> Any:
    """Draw the trajectories of the first data set and the errors of all.

    Args:
        results: From `filter_runs.compare_filters`.
        limits: What part of each parameter's axis is shown.
        with_data: Whether the first panel shows the states and the observations.
    """
    labels, parameters = list(results["filters"]), list(results["truth"])
    colours = _colours(labels)
    rows = _shared_out(["data", *labels] if with_data else labels)
    figure, panels = _empty(rows, parameters, len(labels))
    if with_data:
        _draw_data(panels[f"data of {parameters[0]}"], results)
    leftmost = {next(name for name in row if name != "data") for row in rows}
    for parameter in parameters:
        for label, colour in colours.items():
            panel = panels[f"{label} of {parameter}"]
            _draw_trajectory(panel, results, label, parameter, colour)
            panel.set_ylim(*limits[parameter])
            panel.tick_params(labelleft=label in leftmost, labelbottom=parameter == parameters[-1])
            panel.set_ylabel(SYMBOLS.get(parameter, parameter) if label in leftmost else "")
        _draw_errors(panels[f"errors of {parameter}"], results, parameter, colours)
        panels[f"errors of {parameter}"].tick_params(labelleft=parameter == parameters[0])
    for label in labels:
        drawing.title(panels[f"{label} of {parameters[0]}"], label)
        panels[f"{label} of {parameters[-1]}"].set_xlabel("t")
    return figure


def _colours(labels: list[str]) -> dict[str, str]:
    kinds = [label.replace(",", "").split()[0] for label in labels]
    return {
        label: drawing.PURPLE if kind in kinds[:place] else COLOURS[kind]
        for place, (label, kind) in enumerate(zip(labels, kinds, strict=True))
    }


def _shared_out(columns: list[str]) -> list[list[str]]:
    """Share panels out over rows of about one length."""
    num_rows = math.ceil(len(columns) / MOST_COLUMNS)
    width = math.ceil(len(columns) / num_rows)
    return [columns[begin : begin + width] for begin in range(0, len(columns), width)]


def _empty(rows: list[list[str]], parameters: list[str], num_filters: int) -> tuple[Any, dict[str, Any]]:
    """Return a figure with rows of panels for each parameter, and a last row shared out among their errors."""
    width = len(rows[0])
    cells = math.lcm(width, len(parameters))
    repeat = lambda names, times: [name for name in names for _ in range(times)]
    layout = [
        repeat([f"{column} of {parameter}" for column in row] + ["."] * (width - len(row)), cells // width)
        for parameter in parameters
        for row in rows
    ]
    heights = [2.2] * len(layout) + [0.9 + 0.22 * num_filters]
    layout.append(repeat([f"errors of {parameter}" for parameter in parameters], cells // len(parameters)))
    return drawing.mosaic(layout, 10.0, sum(heights), height_ratios=heights)


def _draw_data(panel: Any, results: Results) -> None:
    shown = results["first_data_set"]
    panel.plot(shown["y"], color=drawing.GREY, lw=0.6, label="y")
    panel.plot(shown["x"], color=drawing.BLUE, lw=0.8, label="x")
    panel.set_yscale("symlog", linthresh=10)
    panel.set_xlabel("t")
    drawing.title(panel, "data")
    drawing.legend(panel, loc="upper left", ncols=2)


def _draw_trajectory(panel: Any, results: Results, label: str, parameter: str, colour: str) -> None:
    along = results["filters"][label]["along"]
    mean, sd = np.array(along["mean"][parameter]), np.array(along["sd"][parameter])
    panel.fill_between(results["times"], mean - 2 * sd, mean + 2 * sd, color=colour, alpha=0.25, lw=0)
    panel.plot(results["times"], mean, color=colour)
    drawing.mark_truth(panel, results["truth"][parameter])
    exact = results["exact_along"]
    panel.errorbar(
        [one["t"] for one in exact],
        [one["mean"][parameter] for one in exact],
        [2 * one["sd"][parameter] for one in exact],
        fmt="o",
        ms=3,
        lw=1,
        capsize=2.5,
        color=drawing.BLACK,
    )


def _draw_errors(panel: Any, results: Results, parameter: str, colours: Mapping[str, str]) -> None:
    labels = list(colours)
    errors = {label: errors_at_end(results, label, parameter) for label in labels}
    panel.axvspan(-1, 1, color="0.93", lw=0)
    for place, label in enumerate(labels):
        heights = np.full(len(errors[label]), place)
        panel.plot(errors[label], heights, ls="", marker="o", ms=5, alpha=0.75, color=colours[label])
    if max(np.max(np.abs(row)) for row in errors.values()) > FAR_OFF:
        panel.set_xscale("symlog", linthresh=1, linscale=0.8)
    panel.xaxis.set_major_formatter("{x:g}")
    panel.set_yticks(range(len(labels)), labels=labels)
    panel.set_ylim(len(labels) - 0.5, -0.5)
    symbol = SYMBOLS.get(parameter, parameter)
    panel.set_xlabel(f"error of the mean of {symbol} at the end, in exact sds, on {len(results['seeds'])} data sets")

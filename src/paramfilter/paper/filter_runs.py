"""Several filters on the same data, beside the exact posterior: what Figures 5 to 7 of the paper ask for.

A data set is drawn with the key of its seed, in float32, and given to every filter; a filter's own key is another. Kept
are the trajectory on the first data set, and mean and sd of every parameter at the end on all of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from tqdm import tqdm

from paramfilter.filters import ParticleFilter
from paramfilter.model import StateSpaceModel, simulate
from paramfilter.outcome import Outcome
from paramfilter.paper import drawing
from paramfilter.paper.numbers import Results
from paramfilter.running import run
from paramfilter.types import Theta

FIRST_RUN_SEED = 1000
"""Of the filters: data set k is run with the key of this plus k."""

NUM_SHOWN = 125
"""Times at which a trajectory is kept."""


@dataclass(frozen=True)
class Contender:
    """A filter of a figure.

    Args:
        label: Its name in the picture.
        make: Makes it.
        in_float64: Whether it needs double precision: powers of large states do.
    """

    label: str
    make: Callable[[], ParticleFilter]
    in_float64: bool = False


@dataclass(frozen=True)
class Setting:
    """What all filters of a figure share: the model, the truth behind its data, and the exact posterior.

    Args:
        model: The model.
        truth: The parameters that made the data.
        exact: From observations to the exact posterior's means and sds.
    """

    model: StateSpaceModel
    truth: Theta
    exact: Callable[[np.ndarray], tuple[Mapping[str, Any], Mapping[str, Any]]]


DataSets = Mapping[int, tuple[np.ndarray, np.ndarray]]
"""States and observations, by seed."""


def draw_data(model: StateSpaceModel, truth: Theta, seeds: Sequence[int], num_steps: int) -> DataSets:
    """Draw the data sets of some seeds."""
    with jax.enable_x64(False):
        pairs = {seed: simulate(jax.random.key(seed), model, truth, num_steps) for seed in seeds}
        return {seed: (np.asarray(xs), np.asarray(ys)) for seed, (xs, ys) in pairs.items()}


def compare_filters(
    setting: Setting, contenders: Sequence[Contender], num_steps: int, num_data_sets: int, exact_times: Sequence[int]
) -> Results:
    """Run all filters on all data sets.

    Args:
        setting: The model and its exact posterior.
        contenders: The filters.
        num_steps: T.
        num_data_sets: How many; their seeds are 0, 1, ...
        exact_times: When the exact posterior of the first data set is wanted; of the others it is at T.
    """
    seeds = list(range(num_data_sets))
    data = draw_data(setting.model, setting.truth, seeds, num_steps)
    times = np.unique(np.linspace(1, num_steps, min(NUM_SHOWN, num_steps)).astype(int))
    return {
        "model": setting.model.name,
        "truth": setting.truth,
        "num_steps": num_steps,
        "seeds": seeds,
        "run_seeds": [FIRST_RUN_SEED + seed for seed in seeds],
        "times": times,
        "first_data_set": {"x": data[0][0], "y": data[0][1]},
        "exact_along": [{"t": t, **_exact(setting, data[0][1][:t])} for t in exact_times],
        "exact": [
            _exact(setting, data[seed][1]) for seed in tqdm(seeds, "exact posteriors", leave=False, disable=None)
        ],
        "filters": {one.label: run_all(one, data, times) for one in contenders},
    }


def _exact(setting: Setting, ys: np.ndarray) -> Results:
    mean, sd = setting.exact(ys)
    return {"mean": {name: float(mean[name]) for name in mean}, "sd": {name: float(sd[name]) for name in mean}}


def run_all(contender: Contender, data: DataSets, times: np.ndarray) -> Results:
    """Run one filter on all data sets, `{seed: (states, observations)}`.

    Its CPU seconds are those of the last data set, so that compiling is left out.
    """
    first, ends, flags, seconds = {}, [], Outcome.OK, 0.0
    with jax.enable_x64(contender.in_float64):
        filter = contender.make()
        for seed, (_, ys) in tqdm(data.items(), contender.label, leave=False, disable=None):
            began = time.process_time()
            key = jax.random.key(FIRST_RUN_SEED + seed)
            state, history = run(filter, filter.init(key), ys, progress=False)
            mean, sd = (jax.tree.map(np.asarray, part) for part in (history.theta.mean, history.theta.sd))
            seconds = time.process_time() - began
            if not first:
                first = {
                    "mean": {k: v[times - 1] for k, v in mean.items()},
                    "sd": {k: v[times - 1] for k, v in sd.items()},
                }
            ends.append({"mean": {k: v[-1] for k, v in mean.items()}, "sd": {k: v[-1] for k, v in sd.items()}})
            flags |= Outcome(int(state.outcome))
    return {
        "num_particles": filter.num_particles,
        "belief": filter.bound_belief.name,
        "along": first,
        "ends": ends,
        "flags": [flag.name for flag in Outcome if flag in flags and flag],
        "cpu_seconds": round(seconds, 1),
    }


def errors_at_end(results: Results, label: str, parameter: str) -> np.ndarray:
    """Return the errors of a filter's posterior means after the last observation, in sds of the exact posterior."""
    ends, exact = results["filters"][label]["ends"], results["exact"]
    return np.array(
        [
            (end["mean"][parameter] - one["mean"][parameter]) / one["sd"][parameter]
            for end, one in zip(ends, exact, strict=True)
        ]
    )


def sd_ratios_at_end(results: Results, label: str, parameter: str) -> np.ndarray:
    """Return reported sd / right sd after the last observation."""
    ends, exact = results["filters"][label]["ends"], results["exact"]
    return np.array([end["sd"][parameter] / one["sd"][parameter] for end, one in zip(ends, exact, strict=True)])


def verdict(results: Results, label: str) -> dict[str, dict[str, float]]:
    """Return, for each parameter, what a filter came to: over all data sets, at the end."""
    found = {}
    for parameter, truth in results["truth"].items():
        errors = errors_at_end(results, label, parameter)
        means = np.array([end["mean"][parameter] for end in results["filters"][label]["ends"]])
        found[parameter] = {
            "rms_error_in_sds": float(np.sqrt(np.mean(errors**2))),
            "median_abs_error_in_sds": float(np.median(np.abs(errors))),
            "median_sd_ratio": float(np.median(sd_ratios_at_end(results, label, parameter))),
            "rmse_from_truth": float(np.sqrt(np.mean((means - truth) ** 2))),
        }
    return found


SYMBOLS = {"theta": "θ", "gamma": "γ"}
COLOURS = (drawing.VERMILION, drawing.ORANGE, drawing.PURPLE, drawing.SKY, drawing.GREEN)


def draw_filters(results: Results, limits: Mapping[str, tuple[float, float]], with_data: bool = False) -> Any:
    """Draw trajectories on the first data set, a column for each filter, and below them the errors on all.

    Args:
        results: From `compare_filters`.
        limits: What part of each parameter's axis is shown.
        with_data: Whether the first panel shows the states and the observations.
    """
    labels, parameters = list(results["filters"]), list(results["truth"])
    colours = dict(zip(labels, (*COLOURS[: len(labels) - 1], drawing.BLUE), strict=True))
    columns = (["data"] if with_data else []) + labels
    layout = [[f"{label} {parameter}" for label in columns] for parameter in parameters]
    layout.append([f"errors {parameters[place * len(parameters) // len(columns)]}" for place in range(len(columns))])
    height = 2.3 * len(parameters) + 0.32 * len(labels) + 0.9
    figure, panels = drawing.mosaic(
        layout, 10.0, height, height_ratios=[2.3] * len(parameters) + [0.32 * len(labels) + 0.9]
    )
    if with_data:
        _draw_data(panels[f"data {parameters[0]}"], results)
    for parameter in parameters:
        for label in labels:
            _draw_trajectory(panels[f"{label} {parameter}"], results, label, parameter, colours[label])
            panels[f"{label} {parameter}"].set_ylim(*limits[parameter])
            if label != labels[0]:
                panels[f"{label} {parameter}"].set_yticklabels([])
        panels[f"{labels[0]} {parameter}"].set_ylabel(SYMBOLS.get(parameter, parameter))
        _draw_errors(panels[f"errors {parameter}"], results, parameter, colours)
        if parameter != parameters[0]:
            panels[f"errors {parameter}"].set_yticklabels([])
    for label in labels:
        drawing.title(panels[f"{label} {parameters[0]}"], label)
    return figure


def _draw_data(panel: Any, results: Results) -> None:
    shown = results["first_data_set"]
    panel.plot(shown["y"], color=drawing.GREY, lw=0.6, label="y")
    panel.plot(shown["x"], color=drawing.BLUE, lw=0.8, label="x")
    panel.set(yscale="symlog", xlabel="t")
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
    panel.set_xlabel("t")


def _draw_errors(panel: Any, results: Results, parameter: str, colours: Mapping[str, str]) -> None:
    labels = list(colours)
    panel.axvspan(-1, 1, color="0.93", lw=0)
    for place, label in enumerate(labels):
        errors = errors_at_end(results, label, parameter)
        panel.plot(errors, np.full(len(errors), place), ls="", marker="o", ms=5, alpha=0.75, color=colours[label])
    panel.set_xscale("symlog", linthresh=1, linscale=0.8)
    panel.set_yticks(range(len(labels)), labels=labels)
    panel.invert_yaxis()
    symbol = SYMBOLS.get(parameter, parameter)
    panel.set_xlabel(
        f"error of the mean of {symbol} at t = {results['num_steps']}, in exact sds; {len(results['seeds'])} data sets"
    )

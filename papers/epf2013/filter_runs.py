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

import paramfilter as pf
from papers.epf2013.numbers import Results

FIRST_RUN_SEED = 1000
"""Of the filters: data set k is run with the key of this plus k."""

EVERY_KIND = ("sir", "liu_west", "printed", "grid", "other readings")
"""Of what a figure runs."""

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
    make: Callable[[], pf.ParticleFilter]
    in_float64: bool = False


@dataclass(frozen=True)
class Setting:
    """What all filters of a figure share: the model, the truth behind its data, and the exact posterior.

    Args:
        model: The model.
        truth: The parameters that made the data.
        exact: From observations to the exact posterior's means and sds.
    """

    model: pf.StateSpaceModel
    truth: Mapping[str, Any]
    exact: Callable[[np.ndarray], tuple[Mapping[str, Any], Mapping[str, Any]]]


@dataclass(frozen=True)
class Size:
    """How much is run.

    Args:
        num_data_sets: Drawn from the truth, with seeds 0, 1, ...; the paper shows one.
        num_steps: T; the paper says 1000 for STAR and nothing for the others.
        exact_times: When the exact posterior of the first data set is wanted.
        kinds: Which filters are run.
        with_exact: Whether the exact posteriors of all data sets are found; without them nothing can be drawn.
    """

    num_data_sets: int = 10
    num_steps: int = 1000
    exact_times: tuple[int, ...] = (30, 100, 300, 600, 1000)
    kinds: tuple[str, ...] = EVERY_KIND
    with_exact: bool = True


DataSets = Mapping[int, tuple[np.ndarray, np.ndarray]]
"""States and observations, by seed."""


def draw_data(model: pf.StateSpaceModel, truth: Mapping[str, Any], seeds: Sequence[int], num_steps: int) -> DataSets:
    """Draw the data sets of some seeds."""
    with jax.enable_x64(False):
        pairs = {seed: pf.simulate(jax.random.key(seed), model, truth, num_steps) for seed in seeds}
        return {seed: (np.asarray(xs), np.asarray(ys)) for seed, (xs, ys) in pairs.items()}


def compare_filters(setting: Setting, contenders: Sequence[Contender], size: Size) -> Results:
    """Run all filters on all data sets."""
    seeds, num_steps = list(range(size.num_data_sets)), size.num_steps
    data = draw_data(setting.model, setting.truth, seeds, num_steps)
    times = np.unique(np.linspace(1, num_steps, min(NUM_SHOWN, num_steps)).astype(int))
    asked = tqdm(seeds if size.with_exact else [], "exact posteriors", leave=False, disable=None)
    return {
        "model": setting.model.name,
        "truth": setting.truth,
        "num_steps": num_steps,
        "seeds": seeds,
        "run_seeds": [FIRST_RUN_SEED + seed for seed in seeds],
        "times": times,
        "first_data_set": {"x": data[0][0], "y": data[0][1]},
        "exact_along": [{"t": t, **_exact(setting, data[0][1][:t])} for t in size.exact_times],
        "exact": [_exact(setting, data[seed][1]) for seed in asked],
        "filters": {one.label: run_all(one, data, times) for one in contenders},
    }


def _exact(setting: Setting, ys: np.ndarray) -> Results:
    mean, sd = setting.exact(ys)
    return {"mean": {name: float(mean[name]) for name in mean}, "sd": {name: float(sd[name]) for name in mean}}


def run_all(contender: Contender, data: DataSets, times: np.ndarray) -> Results:
    """Run one filter on all data sets, `{seed: (states, observations)}`.

    Its CPU seconds are those of the last data set, so that compiling is left out.
    """
    first, ends, flags, seconds = {}, [], pf.Outcome.OK, 0.0
    with jax.enable_x64(contender.in_float64):
        filter = contender.make()
        for seed, (_, ys) in tqdm(data.items(), contender.label, leave=False, disable=None):
            began = time.process_time()
            key = jax.random.key(FIRST_RUN_SEED + seed)
            state, history = pf.run(filter, filter.init(key), ys, progress=False)
            mean, sd = (jax.tree.map(np.asarray, part) for part in (history.theta.mean, history.theta.sd))
            seconds = time.process_time() - began
            if not first:
                first = {
                    "mean": {k: v[times - 1] for k, v in mean.items()},
                    "sd": {k: v[times - 1] for k, v in sd.items()},
                }
            ends.append({"mean": {k: v[-1] for k, v in mean.items()}, "sd": {k: v[-1] for k, v in sd.items()}})
            flags |= pf.Outcome(int(state.outcome))
    return {
        "num_particles": filter.engine.num_particles,
        "belief": filter.bound_belief.name,
        "along": first,
        "ends": ends,
        "flags": [flag.name for flag in pf.Outcome if flag in flags and flag],
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

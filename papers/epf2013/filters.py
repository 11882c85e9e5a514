"""Figures 5, 6 and 7 of the paper: SIR, Liu-West and the extended parameter filter on SIN, Cauchy AR(1) and STAR.

The paper's filters have its sizes: 50,000 particles for SIR and Liu-West, 100 to 1000 for its own. The last of each
figure is this library's default with 100 particles, on the same data.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from papers.epf2013.cauchy_posterior import cauchy_posterior_of
from papers.epf2013.filter_pictures import draw_filters
from papers.epf2013.filter_runs import Contender, Setting, Size, compare_filters, draw_data, run_all
from papers.epf2013.numbers import Results
from papers.epf2013.series import PAPER_LOOP, printed_cauchy, printed_sin, printed_star
from paramfilter.beliefs import Belief, TaylorOfLogDensity
from paramfilter.filters import ParticleFilter
from paramfilter.model import StateSpaceModel
from paramfilter.models import cauchy_ar1, sin, star
from paramfilter.models.cauchy_ar1 import TRUTH as CAUCHY_TRUTH
from paramfilter.models.sin import TRUTH as SIN_TRUTH
from paramfilter.models.star import TRUTH as STAR_TRUTH
from paramfilter.presets import extended_parameter_filter, liu_west_filter, sir_filter
from paramfilter.references import grid_posterior
from paramfilter.types import Theta

Contenders = list[tuple[str, Contender]]
"""Filters, each with its kind."""


def sir(model: StateSpaceModel, num_particles: int) -> tuple[str, Contender]:
    """Return the paper's Algorithm 1 on (x, theta)."""
    return "sir", Contender(f"SIR, {num_particles:,}", lambda: sir_filter(model, num_particles, **PAPER_LOOP))


def liu_west(model: StateSpaceModel, num_particles: int) -> tuple[str, Contender]:
    """Return Liu and West's filter with the rho of Section 5.1."""
    make = partial(liu_west_filter, model, num_particles, rho=0.9, **PAPER_LOOP)
    return "liu_west", Contender(f"Liu–West, {num_particles:,}", make)


def printed(model: StateSpaceModel, num_particles: int, belief: Belief) -> tuple[str, Contender]:
    """Return the paper's Algorithm 3 with one of its series."""
    make = lambda: ParticleFilter(model, num_particles, belief, **PAPER_LOOP)
    return "printed", Contender(f"EPF as printed, {num_particles:,}", make, in_float64=True)


def default(model: StateSpaceModel, num_particles: int) -> tuple[str, Contender]:
    """Return what this library chooses by itself."""
    return "default", Contender(
        f"our default, {num_particles:,}", lambda: extended_parameter_filter(model, num_particles)
    )


def by_grid(model: StateSpaceModel) -> Callable[[np.ndarray], tuple[Theta, Theta]]:
    """Return the function that finds the exact posterior's moments, by quadrature over states and parameters."""

    def exact(ys):
        found = grid_posterior(model, ys)
        return found.mean(), found.sd()

    return exact


def compute_sin_filters(size: Size = Size(), many: int = 50_000, some: int = 1000, few: int = 100) -> Results:
    """Run Figure 5."""
    model = sin()
    contenders = [sir(model, many), liu_west(model, many), printed(model, some, printed_sin()), default(model, few)]
    return _compare(Setting(model, SIN_TRUTH, by_grid(model)), contenders, size)


def draw_sin_filters(results: Results) -> Any:
    """Draw Figure 5."""
    return draw_filters(results, {"theta": (-0.3, 1.0)})


def compute_cauchy_filters(size: Size = Size(), many: int = 50_000, some: int = 10_000, few: int = 100) -> Results:
    """Run Figure 6, and the paper's filter once more under two other readings of its text."""
    model = cauchy_ar1()
    contenders = [
        sir(model, many),
        liu_west(model, few),
        liu_west(model, some),
        printed(model, few, printed_cauchy()),
        default(model, few),
    ]

    def exact(ys):
        found = cauchy_posterior_of(model, ys)
        return {"a": found.mean}, {"a": found.sd}

    results = _compare(Setting(model, CAUCHY_TRUTH, exact), contenders, size)
    if "other readings" in size.kinds:
        quiet = cauchy_ar1(observation_sd=10.0**0.5)
        results["other_readings"] = {
            "series in a at 0": _reading(model, TaylorOfLogDensity(10, center=0.0), few, size),
            "observation variance 10": _reading(quiet, printed_cauchy(), few, size),
        }
    return results


def _compare(setting: Setting, contenders: Contenders, size: Size) -> Results:
    chosen = [contender for kind, contender in contenders if kind in size.kinds]
    return compare_filters(setting, chosen, size)


def _reading(model: StateSpaceModel, belief: Belief, num_particles: int, size: Size) -> Results:
    """Return where the paper's filter ends under another reading."""
    data = draw_data(model, CAUCHY_TRUTH, range(size.num_data_sets), size.num_steps)
    found = run_all(printed(model, num_particles, belief)[1], data, np.array([size.num_steps]))
    return {name: found[name] for name in ("ends", "flags")}


def draw_cauchy_filters(results: Results) -> Any:
    """Draw Figure 6, data first."""
    return draw_filters(results, {"a": (-0.25, 1.35)}, with_data=True)


def compute_star_filters(size: Size = Size(num_data_sets=2), many: int = 50_000, few: int = 100) -> Results:
    """Run Figure 7, (b) and (c): the printed belief has 703 coefficients, and a run takes more than a CPU minute."""
    model = star()
    contenders = [liu_west(model, many), printed(model, few, printed_star()), default(model, few)]
    return _compare(Setting(model, STAR_TRUTH, by_grid(model)), contenders, size)


def draw_star_filters(results: Results) -> Any:
    """Draw Figure 7, (b) and (c), a row for each parameter."""
    return draw_filters(results, {"gamma": (-0.75, 3.5), "c": (-3.0, 9.0)})

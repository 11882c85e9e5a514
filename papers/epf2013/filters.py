"""Figures 5, 6 and 7 of the paper: SIR, Liu-West and the extended parameter filter on SIN, Cauchy AR(1) and STAR.

The paper's filters have its sizes: 50,000 particles for SIR and Liu-West, 100 to 1000 for its own. The last of each
figure has 100 or 400 particles with values on a grid of theta in place of the series.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import paramfilter as pf
from papers.epf2013.cauchy_posterior import cauchy_posterior_of
from papers.epf2013.filter_pictures import draw_filters
from papers.epf2013.filter_runs import Contender, Setting, Size, compare_filters, draw_data, run_all
from papers.epf2013.numbers import Results
from paramfilter.models.cauchy_ar1 import TRUTH as CAUCHY_TRUTH
from paramfilter.models.sin import TRUTH as SIN_TRUTH
from paramfilter.models.star import TRUTH as STAR_TRUTH

MULTINOMIAL = pf.resampling.Multinomial()
"""As in Algorithms 1 to 3, at every step."""

Contenders = list[tuple[str, Contender]]
"""Filters, each with its kind."""


def sir(model: pf.StateSpaceModel, num_particles: int) -> tuple[str, Contender]:
    """Return the paper's Algorithm 1 on (x, theta)."""
    make = partial(pf.sir_filter, model, num_particles, resampling=MULTINOMIAL)
    return "sir", Contender(f"SIR, {num_particles:,}", make)


def liu_west(model: pf.StateSpaceModel, num_particles: int) -> tuple[str, Contender]:
    """Return Liu and West's filter with the rho of Section 5.1."""
    make = partial(pf.liu_west_filter, model, num_particles, rho=0.9, resampling=MULTINOMIAL)
    return "liu_west", Contender(f"Liu–West, {num_particles:,}", make)


def printed(model: pf.StateSpaceModel, num_particles: int, belief: pf.particles.Belief) -> tuple[str, Contender]:
    """Return the paper's Algorithm 3 with one of its series."""
    make = lambda: pf.extended_parameter_filter(model, num_particles, belief=belief)
    return "printed", Contender(f"EPF as printed, {num_particles:,}", make, in_float64=True)


def on_grid(
    model: pf.StateSpaceModel, num_particles: int, num_values: int, mixing: pf.particles.AncestorMixing | None
) -> tuple[str, Contender]:
    """Return the same loop with a grid in place of a series, and a look ahead."""
    parts = {"proposal": pf.proposals.LookAhead(), "mixing": mixing}
    make = lambda: pf.ParticleFilter(model, num_particles, pf.particles.Grid(num_values), **parts)
    return "grid", Contender(f"grid, {num_particles:,}", make)


def by_grid(model: pf.StateSpaceModel) -> Callable[[np.ndarray], tuple[dict, dict]]:
    """Return the function that finds the exact posterior's moments, by quadrature over states and parameters."""

    def exact(ys):
        found = pf.references.grid_posterior(model, ys)
        return found.mean(), found.sd()

    return exact


def compute_sin_filters(size: Size = Size(), many: int = 50_000, some: int = 1000, few: int = 100) -> Results:
    """Run Figure 5."""
    model = pf.models.sin()
    contenders = [
        sir(model, many),
        liu_west(model, many),
        printed(model, some, pf.particles.TaylorOfMean(7, center=0.0)),
        on_grid(model, few, 33, pf.particles.AncestorMixing(8)),
    ]
    return _compare(Setting(model, SIN_TRUTH, by_grid(model)), contenders, size)


def draw_sin_filters(results: Results) -> Any:
    """Draw Figure 5."""
    return draw_filters(results, {"theta": (-0.3, 1.0)})


def compute_cauchy_filters(size: Size = Size(), many: int = 50_000, some: int = 10_000, few: int = 100) -> Results:
    """Run Figure 6, and the paper's filter once more under two other readings of its text."""
    model = pf.models.cauchy_ar1()
    contenders = [
        sir(model, many),
        liu_west(model, few),
        liu_west(model, some),
        printed(model, few, pf.particles.printed_cauchy()),
        on_grid(model, 4 * few, 129, pf.particles.AncestorMixing(8)),
    ]

    def exact(ys):
        found = cauchy_posterior_of(model, ys)
        return {"a": found.mean}, {"a": found.sd}

    results = _compare(Setting(model, CAUCHY_TRUTH, exact), contenders, size)
    if "other readings" in size.kinds:
        quiet = pf.models.cauchy_ar1(observation_sd=10.0**0.5)
        results["other_readings"] = {
            "series in a at 0": _reading(model, pf.particles.TaylorOfLogDensity(10, center=0.0), few, size),
            "observation variance 10": _reading(quiet, pf.particles.printed_cauchy(), few, size),
        }
    return results


def _compare(setting: Setting, contenders: Contenders, size: Size) -> Results:
    chosen = [contender for kind, contender in contenders if kind in size.kinds]
    return compare_filters(setting, chosen, size)


def _reading(model: pf.StateSpaceModel, belief: pf.particles.Belief, num_particles: int, size: Size) -> Results:
    """Return where the paper's filter ends under another reading."""
    data = draw_data(model, CAUCHY_TRUTH, range(size.num_data_sets), size.num_steps)
    found = run_all(printed(model, num_particles, belief)[1], data, np.array([size.num_steps]))
    return {name: found[name] for name in ("ends", "flags")}


def draw_cauchy_filters(results: Results) -> Any:
    """Draw Figure 6, data first."""
    return draw_filters(results, {"a": (-0.25, 1.35)}, with_data=True)


def compute_star_filters(size: Size = Size(num_data_sets=2), many: int = 50_000, few: int = 100) -> Results:
    """Run Figure 7, (b) and (c): the printed belief has 703 coefficients, and a run takes more than a CPU minute."""
    model = pf.models.star()
    # Its sensor is precise: along their own paths particles hold what a mixture over ancestors would.
    contenders = [
        liu_west(model, many),
        printed(model, few, pf.particles.printed_star()),
        on_grid(model, few, 49, mixing=None),
    ]
    return _compare(Setting(model, STAR_TRUTH, by_grid(model)), contenders, size)


def draw_star_filters(results: Results) -> Any:
    """Draw Figure 7, (b) and (c), a row for each parameter."""
    return draw_filters(results, {"gamma": (-0.75, 3.5), "c": (-3.0, 9.0)})

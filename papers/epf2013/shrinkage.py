"""Figures 3 and 7(a) of the paper: the Gibbs density shrinks as T grows, on SIN and on STAR.

Nothing is approximated here: the densities are the exact ones given the true states, so this asks whether the
parameters can be learned at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import paramfilter as pf
from papers.epf2013 import drawing
from papers.epf2013.gibbs import exact_log_densities, grid_moments, simulate_states
from papers.epf2013.numbers import Results
from paramfilter.models.sin import TRUTH as SIN_TRUTH
from paramfilter.models.star import TRUTH as STAR_TRUTH

SIN_GRID = np.linspace(-1.0, 1.5, 2501)
GAMMA_GRID, C_GRID = np.linspace(-1.0, 5.0, 121), np.linspace(-4.0, 8.0, 121)
SHOWN_GAMMA, SHOWN_C = slice(20, 91), slice(50, 106)
"""What the picture shows: gamma from 0 to 3.5, c from 1 to 6.5."""

SHARE = 0.9
"""Of the density inside a contour."""


def compute_sin_shrinkage(times: Sequence[int] = (16, 64, 256, 1024, 4096), num_data_sets: int = 20) -> Results:
    """Return the densities of the first data set, and mean and sd on all."""
    model, z = pf.models.sin(), SIN_GRID[:, None]
    paths = [simulate_states(model, SIN_TRUTH, seed, max(times)) for seed in range(num_data_sets)]
    log_densities = [exact_log_densities(model, path, z, times) for path in paths]
    moments = [[grid_moments(row, z) for row in rows] for rows in log_densities]
    densities = np.exp(log_densities[0] - log_densities[0].max(axis=1, keepdims=True))
    densities /= (SIN_GRID[1] - SIN_GRID[0]) * densities.sum(axis=1, keepdims=True)
    part = slice(1000, 2201, 4)
    return {
        "truth": SIN_TRUTH,
        "times": times,
        "seeds": list(range(num_data_sets)),
        "theta": SIN_GRID[part],
        "density": densities[:, part],
        "mean": [[mean[0] for mean, _ in rows] for rows in moments],
        "sd": [[sd[0] for _, sd in rows] for rows in moments],
    }


def draw_sin_shrinkage(results: Results) -> Any:
    """Draw the densities, and the standard deviation against T."""
    figure, panels = drawing.mosaic([["densities", "sd"]], 9.2, 3.2, width_ratios=[1.5, 1])
    left, right = panels["densities"], panels["sd"]
    for time, density, colour in zip(results["times"], results["density"], drawing.LADDER, strict=False):
        left.plot(results["theta"], density, color=colour, label=f"T = {time}")
    left.axvline(results["truth"]["theta"], color=drawing.BLACK, lw=0.9, ls=(0, (5, 3)), label="truth")
    left.set(xlabel="θ", ylabel="$p(θ | x_{0:T})$", xlim=(0, 1.1), ylim=(0, None))
    drawing.title(left, "one data set")
    drawing.legend(left, loc="upper left")
    times, sds = np.array(results["times"]), np.array(results["sd"])
    errors = np.sqrt(np.mean((np.array(results["mean"]) - results["truth"]["theta"]) ** 2, axis=0))
    right.plot(times, np.mean(sds, axis=0), color=drawing.BLUE, marker="o", ms=5, label="posterior sd")
    right.plot(times, errors, color=drawing.VERMILION, marker="s", ms=5, label="rms distance of the mean from 0.7")
    right.plot(times, sds[:, -1].mean() * np.sqrt(times[-1] / times), color=drawing.GREY, lw=0.9, ls=":", label="1/√T")
    right.set(xscale="log", yscale="log", xlabel="T")
    drawing.title(right, f"mean of {len(sds)} data sets")
    _plain_ticks(right.xaxis, times)
    _plain_ticks(right.yaxis, (0.02, 0.05, 0.1, 0.2, 0.5))
    drawing.legend(right, loc="lower left")
    return figure


def _plain_ticks(axis: Any, ticks: Any) -> None:
    axis.set_ticks(ticks, labels=[f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def compute_star_shrinkage(times: Sequence[int] = (100, 300, 1000, 3000), num_data_sets: int = 10) -> Results:
    """Return the densities of the first data set, and mean and sd on all."""
    model, z = pf.models.star(), np.stack(np.meshgrid(GAMMA_GRID, C_GRID, indexing="ij"), axis=-1).reshape(-1, 2)
    paths = [simulate_states(model, STAR_TRUTH, seed, max(times)) for seed in range(num_data_sets)]
    log_densities = [exact_log_densities(model, path, z, times) for path in paths]
    moments = [[grid_moments(row, z) for row in rows] for rows in log_densities]
    return {
        "truth": STAR_TRUTH,
        "times": times,
        "seeds": list(range(num_data_sets)),
        "gamma": GAMMA_GRID[SHOWN_GAMMA],
        "c": C_GRID[SHOWN_C],
        "log_density": [_shown(row) for row in log_densities[0]],
        "mean": [[mean for mean, _ in rows] for rows in moments],
        "sd": [[sd for _, sd in rows] for rows in moments],
    }


def _shown(log_density: np.ndarray) -> np.ndarray:
    """Return the part that is shown, under its maximum, to a hundredth of a nat and no deeper than twenty."""
    grid = log_density.reshape(len(GAMMA_GRID), len(C_GRID))
    return np.round(np.maximum(grid - np.max(grid), -20.0), 2)[SHOWN_GAMMA, SHOWN_C]


def draw_star_shrinkage(results: Results) -> Any:
    """Draw regions that hold nine tenths of the density, and the standard deviations against T."""
    figure, panels = drawing.mosaic([["regions", "sd"]], 9.2, 3.6, width_ratios=[1.3, 1])
    left, right = panels["regions"], panels["sd"]
    for time, log_density, colour in zip(results["times"], results["log_density"], drawing.LADDER, strict=False):
        density = np.exp(np.array(log_density))
        left.contour(
            results["gamma"], results["c"], density.T, levels=[_level(density)], colors=[colour], linewidths=1.8
        )
        left.plot([], [], color=colour, label=f"T = {time}")
    left.plot(*results["truth"].values(), "x", color=drawing.BLACK, ms=8, mew=2, label="truth")
    left.set(xlabel="γ", ylabel="c", xlim=(0, 3.5), ylim=(1, 6.5))
    drawing.title(left, f"{SHARE:.0%} of $p(γ, c | x_{{0:T}})$, one data set")
    drawing.legend(left, loc="upper right")
    times, sds = np.array(results["times"]), np.mean(results["sd"], axis=0)
    for place, (name, colour) in enumerate((("γ", drawing.BLUE), ("c", drawing.VERMILION))):
        right.plot(times, sds[:, place], color=colour, marker="o", ms=5, label=f"sd of {name}")
    right.plot(times, sds[-1, 0] * np.sqrt(times[-1] / times), color=drawing.GREY, lw=0.9, ls=":", label="1/√T")
    right.set(xscale="log", yscale="log", xlabel="T")
    drawing.title(right, f"mean of {len(results['sd'])} data sets")
    _plain_ticks(right.xaxis, times)
    _plain_ticks(right.yaxis, (0.2, 0.5, 1.0))
    drawing.legend(right)
    return figure


def _level(density: np.ndarray) -> float:
    """Return the height of the contour that holds a share of the density."""
    falling = np.sort(density.ravel())[::-1]
    held = np.cumsum(falling) / np.sum(falling)
    return float(falling[np.searchsorted(held, SHARE)])

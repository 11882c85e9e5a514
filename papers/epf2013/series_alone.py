"""What the paper's series do on their own: the Gibbs density of Cauchy and STAR, exact and by the series.

Not a figure of the paper, but the reason why two of its figures cannot be had from its formulas. The true states are
given and theta is found by brute force from the cut-off log density itself, so neither particles, nor sampling, nor
the rounding of coefficients has a part in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import paramfilter as pf
from papers.epf2013 import drawing
from papers.epf2013.gibbs import exact_log_densities, grid_moments, simulate_states
from papers.epf2013.numbers import Results
from paramfilter.models.cauchy_ar1 import TRUTH as CAUCHY_TRUTH
from paramfilter.models.star import TRUTH as STAR_TRUTH
from paramfilter.particles.printed import cauchy_with_series, log_coefficients, star_with_series
from paramfilter.references import theta_grid

WINDOW = (-1.5, 2.5)
"""In which a mode of the Cauchy model is sought: more than seven prior sds on each side of 0."""

NUM_POINTS = (20_001, 401, 401)
"""Of the grid, and of two finer ones around its summit. The likelihood of a has peaks as narrow as 1 / |x|, and |x|
reaches thousands."""

STAR_NODES = 33


def compute_series_alone(
    cauchy_orders: Sequence[int] = (2, 4, 6, 8, 10),
    star_orders: Sequence[int] = (3, 5, 7, 9),
    num_data_sets: int = 20,
    num_steps: int = 1000,
) -> Results:
    """Return estimates given the true states, and how many data lie outside the radius of convergence."""
    seeds, cauchy_model, star_model = range(num_data_sets), pf.models.cauchy_ar1(), pf.models.star()
    cauchy_paths = [simulate_states(cauchy_model, CAUCHY_TRUTH, seed, num_steps) for seed in seeds]
    star_paths = [simulate_states(star_model, STAR_TRUTH, seed, num_steps) for seed in seeds]
    shocks = [path[1:] - CAUCHY_TRUTH["a"] * path[:-1] for path in cauchy_paths]
    switches = [STAR_TRUTH["gamma"] * (path[:-1] - STAR_TRUTH["c"]) for path in star_paths]
    modes = lambda model: [_mode(model, path) for path in cauchy_paths]
    moments = lambda model: [_star_moments(model, path) for path in star_paths]
    return {
        "seeds": list(seeds),
        "num_steps": num_steps,
        "cauchy": {
            "truth": CAUCHY_TRUTH,
            "outside_radius": [np.mean(np.abs(shock) > 1) for shock in shocks],
            "exact": modes(cauchy_model),
            "series": {order: modes(cauchy_with_series(order)) for order in cauchy_orders},
            "improper": {order: bool(log_coefficients(order)[order] < 0) for order in cauchy_orders},
            "window": WINDOW,
        },
        "star": {
            "truth": STAR_TRUTH,
            "outside_radius": [np.mean(np.abs(switch) > np.pi) for switch in switches],
            "exact": moments(star_model),
            "series": {order: moments(star_with_series(order)) for order in star_orders},
        },
    }


def _mode(model: pf.StateSpaceModel, path: np.ndarray) -> float:
    """Return the a of highest density, found by zooming; the posterior is far narrower than its errors."""
    (low, high), mode = WINDOW, 0.0
    for num_points in NUM_POINTS:
        grid = np.linspace(low, high, num_points)
        mode = float(grid[np.argmax(exact_log_densities(model, path, grid[:, None], (len(path) - 1,))[0])])
        reach = 20 * (grid[1] - grid[0])
        low, high = max(WINDOW[0], mode - reach), min(WINDOW[1], mode + reach)
    return mode


def _star_moments(model: pf.StateSpaceModel, path: np.ndarray) -> dict[str, list[float]]:
    """Return means and sds of gamma and c, on a grid that zooms in on the density."""
    coordinates = theta_grid.prior_coordinates(model.parameters)

    def log_density(v):
        at_z = exact_log_densities(model, path, coordinates.to_z(v), (len(path) - 1,))[0]
        return at_z + coordinates.log_jacobian(v)

    frame = theta_grid.zoom(log_density, theta_grid.prior_frame(2, STAR_NODES), free_nodes=True)
    mean, sd = grid_moments(log_density(frame.nodes), coordinates.to_z(frame.nodes))
    return {"mean": list(mean), "sd": list(sd)}


def draw_series_alone(results: Results) -> Any:
    """Draw the estimates by order, on Cauchy, and in the plane, on STAR."""
    figure, panels = drawing.mosaic([["cauchy", "star"]], 9.2, 3.6)
    left, cauchy = panels["cauchy"], results["cauchy"]
    names = ["exact", *cauchy["series"]]
    for place, name in enumerate(names):
        values = np.array(cauchy["exact"] if name == "exact" else cauchy["series"][name])
        spread = place + 0.25 * np.linspace(-1, 1, len(values))
        improper = name != "exact" and cauchy["improper"][name]
        colour = drawing.BLUE if name == "exact" else drawing.VERMILION
        left.plot(spread, values, ls="", marker="o", ms=4, color=colour, mfc="white" if improper else colour)
    drawing.mark_truth(left, cauchy["truth"]["a"])
    left.set_xticks(range(len(names)), labels=["exact", *(f"order {name}" for name in names[1:])], rotation=20)
    left.set(ylabel="mode of a given the states")
    drawing.title(left, "Cauchy; hollow: no density, the mode is the window's end")
    right, star_results = panels["star"], results["star"]
    rows = {"exact": star_results["exact"], **{f"order {k}": rows for k, rows in star_results["series"].items()}}
    colours = (drawing.BLUE, drawing.SKY, drawing.GREEN, drawing.ORANGE, drawing.VERMILION)
    for (label, row), colour in zip(rows.items(), colours, strict=False):
        points = np.array([one["mean"] for one in row])
        right.plot(points[:, 0], points[:, 1], ls="", marker="o", ms=4.5, alpha=0.8, color=colour, label=label)
    right.plot(*star_results["truth"].values(), "x", color=drawing.BLACK, ms=9, mew=2, label="truth")
    right.set(xlabel="mean of γ given the states", ylabel="mean of c")
    drawing.title(right, "STAR")
    drawing.legend(right)
    return figure

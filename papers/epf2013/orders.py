"""Figure 4 of the paper and its Theorems 3 and 4: the Gibbs density of SIN against its approximation of order M.

(a) At T = 1024 the approximate densities converge to the exact one as M grows. (b) The divergence against T and M. What
the figure of the paper cannot show is what Theorem 4 leaves open: at a *fixed* order the divergence does not vanish as
T grows. The approximate density settles on the theta whose cut-off series fits best, which is not the truth, while the
exact one closes in on the truth. Centred at the truth itself, any order does converge, as the proof says.

The beliefs are the library's own, fed with the true states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.special import logsumexp

import paramfilter as pf
from papers.epf2013 import drawing
from papers.epf2013.gibbs import (
    believed_log_densities,
    exact_log_densities,
    grid_moments,
    kl_divergence,
    simulate_states,
)
from papers.epf2013.numbers import Results
from paramfilter.models.sin import TRUTH

GRID = np.linspace(-1.5, 1.5, 3001)
"""Five points a posterior sd at T = 65,536, the longest path: the trapezoid rule then errs far less than 1e-10."""

SHOWN = slice(1800, 2501, 4)
PRIOR_SD = 0.2


def compute_sin_orders(
    orders: Sequence[int] = (3, 5, 7, 9, 11), num_data_sets: int = 20, num_steps: int = 1024
) -> Results:
    """Return the densities of the first data set, and what each order gets wrong on all."""
    model, z = pf.models.sin(), GRID[:, None]
    paths = [simulate_states(model, TRUTH, seed, num_steps) for seed in range(num_data_sets)]
    exact = [exact_log_densities(model, path, z, (num_steps,))[0] for path in paths]
    densities, errors = {}, {}
    for order in orders:
        series = pf.particles.TaylorOfMean(order, center=0.0)
        believed = believed_log_densities(series, model, paths, z, (num_steps,))[:, 0]
        densities[order] = _normalised(believed[0])[SHOWN]
        errors[order] = {
            "kl": [kl_divergence(p, q) for p, q in zip(exact, believed, strict=True)],
            "mean_error": [_mean_error(p, q) for p, q in zip(exact, believed, strict=True)],
            "mode_with_signs_of_appendix": [GRID[np.argmax(_signs_of_appendix(row))] for row in believed],
        }
    return {
        "truth": TRUTH,
        "num_steps": num_steps,
        "seeds": list(range(num_data_sets)),
        "orders": orders,
        "theta": GRID[SHOWN],
        "exact": _normalised(exact[0])[SHOWN],
        "approximate": densities,
        "errors": errors,
    }


def _normalised(log_density: np.ndarray) -> np.ndarray:
    return np.exp(log_density - logsumexp(log_density)) / (GRID[1] - GRID[0])


def _mean_error(exact: np.ndarray, believed: np.ndarray) -> float:
    """Return the error of a belief's mean, in sds."""
    mean, sd = grid_moments(exact, GRID[:, None])
    return float((grid_moments(believed, GRID[:, None])[0] - mean)[0] / sd[0])


def _signs_of_appendix(log_density: np.ndarray) -> np.ndarray:
    """Return the log density with the statistic's sign turned, as the paper's Appendix D prints it."""
    log_prior = -0.5 * (GRID / PRIOR_SD) ** 2
    return log_prior - (log_density - log_prior)


def draw_sin_orders(results: Results) -> Any:
    """Draw the densities, and the divergence against the order."""
    figure, panels = drawing.mosaic([["densities", "divergence"]], 9.2, 3.2, width_ratios=[1.5, 1])
    left, right = panels["densities"], panels["divergence"]
    left.fill_between(results["theta"], results["exact"], color="0.88", label="exact")
    widths = (1.6, 3.6, 2.4, 1.2)  # curves that coincide show one inside the other
    for (order, density), colour, width in zip(results["approximate"].items(), drawing.LADDER, widths, strict=False):
        left.plot(results["theta"], density, color=colour, lw=width, label=f"M = {order}")
    left.axvline(results["truth"]["theta"], color=drawing.BLACK, lw=0.9, ls=(0, (5, 3)), label="truth")
    left.set(xlabel="θ", ylabel=f"$p(θ | x_{{0:{results['num_steps']}}})$", xlim=(0.35, 0.95), ylim=(0, None))
    drawing.title(left, "one data set")
    drawing.legend(left, loc="upper left")
    orders = np.array(results["orders"])
    kls = np.array([results["errors"][str(order)]["kl"] for order in orders])
    right.plot(np.repeat(orders, kls.shape[1]), kls.ravel(), ls="", marker="o", ms=3.5, color=drawing.BLUE, alpha=0.35)
    right.plot(orders, np.median(kls, axis=1), color=drawing.BLUE, marker="_", ms=14, mew=2, lw=1, label="median")
    right.set(yscale="log", xlabel="order M", ylabel="KL divergence, nats", xticks=orders)
    drawing.title(right, f"{kls.shape[1]} data sets")
    drawing.legend(right)
    return figure


def compute_sin_divergence(
    orders: Sequence[int] = (3, 5, 7, 9),
    orders_at_truth: Sequence[int] = (1, 2, 3),
    times: Sequence[int] = tuple(2**power for power in range(4, 17)),
    num_data_sets: int = 10,
) -> Results:
    """Return divergences for every order, data set and T, from series centerd at 0 and at the truth."""
    model, z = pf.models.sin(), GRID[:, None]
    paths = [simulate_states(model, TRUTH, seed, max(times)) for seed in range(num_data_sets)]
    exact = [exact_log_densities(model, path, z, times) for path in paths]

    def divergences(order, center):
        believed = believed_log_densities(pf.particles.TaylorOfMean(order, center=center), model, paths, z, times)
        return [
            [kl_divergence(*pair) for pair in zip(*rows, strict=True)] for rows in zip(exact, believed, strict=True)
        ]

    return {
        "truth": TRUTH,
        "seeds": list(range(num_data_sets)),
        "times": times,
        "centred_at_0": {order: divergences(order, 0.0) for order in orders},
        "centred_at_truth": {order: divergences(order, TRUTH["theta"]) for order in orders_at_truth},
    }


def draw_sin_divergence(results: Results) -> Any:
    """Draw the median divergence against T, a line for each order."""
    figure, panels = drawing.mosaic([["zero", "truth"]], 9.2, 3.4, sharey=True)
    times = np.array(results["times"])
    every_order = sorted({*results["centred_at_0"], *results["centred_at_truth"]}, key=int)
    colours = dict(zip(every_order, (drawing.PURPLE, drawing.BLUE, *drawing.LADDER), strict=False))
    for panel, table, title in (
        (panels["zero"], results["centred_at_0"], "series at 0, as in the paper"),
        (panels["truth"], results["centred_at_truth"], "series at the true θ"),
    ):
        for order, rows in table.items():
            colour = colours[order]
            low, middle, high = np.quantile(np.array(rows), [0.25, 0.5, 0.75], axis=0)
            low = np.where(low > 0, low, middle)  # rounding makes a few divergences negative
            panel.fill_between(times, low, high, color=colour, alpha=0.15, lw=0)
            panel.plot(times, middle, color=colour, marker="o", ms=3.5)
            panel.annotate(
                f"M = {order}", (times[-1], middle[-1]), (6, 0), textcoords="offset points", color=colour, va="center"
            )
        panel.set(xscale="log", yscale="log", xlabel="T")
        drawing.title(panel, title)
        panel.set_xlim(times[0] * 0.8, times[-1] * 4)
    panels["zero"].set_ylabel("KL divergence, nats")
    return figure

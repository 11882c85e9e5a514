"""Figure 2 of the paper and its Theorem 2: exp(S) against exp of the Taylor polynomial of S.

The theorem promises a divergence that falls faster than any exponential in the order M, if the derivatives of S are
bounded. Those of the paper's example, S(x) = -x^2 + 5 sin^2 x, grow like 2^M, which a factorial outruns. Those of
log(1 + v^2), on which the paper's Cauchy experiment rests, grow like M! themselves: there the series has a radius of
convergence, 1, and beyond it the divergence grows.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import factorial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from papers.epf2013 import drawing
from papers.epf2013.gibbs import kl_divergence
from papers.epf2013.numbers import Results
from paramfilter.particles.printed import log_coefficients

ORDERS = tuple(range(2, 21, 2))
SHOWN = (4, 8, 12)
REACH, CAUCHY_REACH = 4.0, 2.0
"""Theorem 2 speaks of an interval; these are ours, for the paper gives none."""


def example(x: Any) -> Any:
    """Return the paper's S, the log density up to a constant."""
    return -(x**2) + 5 * jnp.sin(x) ** 2


def example_coefficients(order: int) -> np.ndarray:
    """Return the Taylor coefficients of the example at 0, from 5 sin^2 x = 2.5 (1 - cos 2x).

    >>> example_coefficients(4)
    array([ 0.        ,  0.        ,  4.        ,  0.        , -1.66666667])
    """
    coefficients = np.zeros(order + 1)
    for power in range(2, order + 1, 2):
        coefficients[power] = -2.5 * (-1) ** (power // 2) * 2.0**power / factorial(power)
    coefficients[2] -= 1.0
    return coefficients


def compute_taylor_densities(orders: Sequence[int] = ORDERS, num_points: int = 20_001) -> Results:
    """Return densities for the picture, and divergences on the two intervals."""
    grid, narrow = np.linspace(-REACH, REACH, num_points), np.linspace(-CAUCHY_REACH, CAUCHY_REACH, num_points)
    with jax.enable_x64(True):
        exact = np.asarray(example(jnp.asarray(grid)))
    shown = np.linspace(0, num_points - 1, 241).astype(int)
    coefficients = example_coefficients(max(orders))
    polynomial = np.polynomial.polynomial.polyval
    log_densities = {order: polynomial(grid, coefficients[: order + 1]) for order in orders}
    return {
        "orders": orders,
        "kl": [kl_divergence(exact, log_densities[order]) for order in orders],
        "improper_on_the_line": [bool(coefficients[order] > 0) for order in orders],
        "kl_cauchy": [
            kl_divergence(-np.log1p(narrow**2), -polynomial(narrow, log_coefficients(order))) for order in orders
        ],
        "x": grid[shown],
        "exact": _normalised(exact, grid)[shown],
        "approximate": {order: _normalised(log_densities[order], grid)[shown] for order in SHOWN},
    }


def _normalised(log_density: np.ndarray, grid: np.ndarray) -> np.ndarray:
    density = np.exp(log_density - np.max(log_density))
    return density / np.trapezoid(density, grid)


def draw_taylor_densities(results: Results) -> Any:
    """Draw densities beside divergences."""
    figure, panels = drawing.mosaic([["densities", "divergence"]], 9.2, 3.3)
    left, right = panels["densities"], panels["divergence"]
    left.fill_between(results["x"], results["exact"], color="0.88", label="exp S")
    for (order, density), colour in zip(results["approximate"].items(), drawing.LADDER, strict=False):
        left.plot(results["x"], density, color=colour, label=f"order {order}")
    left.set(xlabel="x", ylabel="density", xlim=(-REACH, REACH), ylim=(0, None))
    drawing.title(left, "S(x) = −x² + 5 sin² x")
    drawing.legend(left)
    orders, improper = np.array(results["orders"]), np.array(results["improper_on_the_line"])
    for name, colour, label in (
        ("kl", drawing.BLUE, f"the paper's S, |x| < {REACH:g}"),
        ("kl_cauchy", drawing.VERMILION, f"log(1 + v²), |v| < {CAUCHY_REACH:g}"),
    ):
        values = np.array(results[name])
        right.plot(orders, values, color=colour, marker="o", ms=5, label=label)
        if name == "kl":
            right.plot(orders[improper], values[improper], ls="", marker="o", ms=5, mfc="white", color=colour)
    right.set(yscale="log", xlabel="order M", ylabel="KL divergence, nats", xticks=orders)
    drawing.title(right, "hollow: no density on the whole line")
    drawing.legend(right)
    return figure

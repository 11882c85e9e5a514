"""All figures of the paper that show numbers, with what it claims of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from papers.epf2013 import filters, orders, series_alone, shrinkage, taylor_densities
from papers.epf2013.numbers import Results


@dataclass(frozen=True)
class PaperFigure:
    """One figure.

    Attributes:
        title: What it shows.
        place: Where the paper has it.
        claim: What the paper says of it, in our words.
        compute: Makes the numbers; with smaller arguments than its own it is a quick try.
        draw: Makes a Matplotlib figure of them.
        cpu_minutes: What `compute` takes, roughly, on one core.
    """

    title: str
    place: str
    claim: str
    compute: Callable[[], Results]
    draw: Callable[[Results], Any]
    cpu_minutes: float


FIGURES: dict[str, PaperFigure] = {
    "taylor_densities": PaperFigure(
        "Densities against the order of their series",
        "Figure 2 and Theorem 2, Section 4.1",
        "The divergence between exp(S) and exp of the Taylor polynomial of S vanishes faster than any exponential.",
        taylor_densities.compute_taylor_densities,
        taylor_densities.draw_taylor_densities,
        0.2,
    ),
    "sin_shrinkage": PaperFigure(
        "SIN: the Gibbs density shrinks",
        "Figure 3, Section 5.1",
        "As T grows, the density of θ given the states closes in on the true value 0.7.",
        shrinkage.compute_sin_shrinkage,
        shrinkage.draw_sin_shrinkage,
        0.3,
    ),
    "sin_orders": PaperFigure(
        "SIN: the approximate density against its order",
        "Figure 4(a) and Theorem 3, Section 5.1",
        "At T = 1024 the approximate densities converge to the exact one as the order grows.",
        orders.compute_sin_orders,
        orders.draw_sin_orders,
        0.5,
    ),
    "sin_divergence": PaperFigure(
        "SIN: the divergence against T and the order",
        "Figure 4(b) and Theorem 4, Section 5.1",
        "The divergence goes to zero as the order and T go to infinity.",
        orders.compute_sin_divergence,
        orders.draw_sin_divergence,
        1.5,
    ),
    "sin_filters": PaperFigure(
        "SIN: SIR, Liu–West and the extended parameter filter",
        "Figure 5, Section 5.1",
        "SIR and Liu–West with 50,000 particles do not converge; the extended parameter filter does, with 1000.",
        filters.compute_sin_filters,
        filters.draw_sin_filters,
        10.0,
    ),
    "cauchy_filters": PaperFigure(
        "Cauchy AR(1): SIR, Liu–West and the extended parameter filter",
        "Figure 6, Section 5.2",
        "SIR fails with 50,000 particles, Liu–West with 100, and with 10,000 it is slow; the extended parameter filter "
        "of order 10 converges to a = 0.7 with 100.",
        filters.compute_cauchy_filters,
        filters.draw_cauchy_filters,
        8.0,
    ),
    "star_shrinkage": PaperFigure(
        "STAR: the Gibbs density shrinks",
        "Figure 7(a), Section 5.3",
        "As T grows, the density of (γ, c) given the states shrinks.",
        shrinkage.compute_star_shrinkage,
        shrinkage.draw_star_shrinkage,
        0.5,
    ),
    "star_filters": PaperFigure(
        "STAR: Liu–West and the extended parameter filter",
        "Figure 7(b) and (c), Section 5.3",
        "Liu–West does not converge with 50,000 particles; the extended parameter filter of order 9 converges to both "
        "true values with 100.",
        filters.compute_star_filters,
        filters.draw_star_filters,
        8.0,
    ),
    "series_alone": PaperFigure(
        "The paper's series on their own, given the true states",
        "not in the paper; Sections 5.2 and 5.3 rest on it",
        "The series of log(1 + v²) to order 10 and of the logistic function to order 9 stand for the functions.",
        series_alone.compute_series_alone,
        series_alone.draw_series_alone,
        1.5,
    ),
}

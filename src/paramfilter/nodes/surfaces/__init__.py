"""The log likelihood between nodes: a polynomial through many, and kriging between few."""

from __future__ import annotations

from jaxtyping import Float

from paramfilter.nodes.surfaces.base import Surface
from paramfilter.nodes.surfaces.kriging import fit_kriging
from paramfilter.nodes.surfaces.polynomial import fit_polynomial
from paramfilter.types import Numbers

__all__ = ["MANY_NODES", "Surface", "fit_surface"]

MANY_NODES = 256
"""Nodes from which on a polynomial is fitted."""


def fit_surface(
    z: Float[Numbers, "node param"],
    log_likelihood: Float[Numbers, " node"],
    log_prior: Float[Numbers, " node"],
    weights: Float[Numbers, " node"],
) -> Surface:
    """Fit the log likelihood over weighted nodes."""
    fit = fit_polynomial if len(z) >= MANY_NODES else fit_kriging
    return fit(z, log_likelihood, log_prior, weights)

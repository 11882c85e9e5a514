"""The exact posterior of the Cauchy autoregression, by quadrature on grids that follow the data.

The states reach thousands, but given y_t they lie within a few observation sds of it; so does the grid of x_t. The
rule is `references.grid_posterior`'s, whose one grid for all times would need too many points here.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import paramfilter as pf
from paramfilter.references import theta_grid

REACH = 8.0
"""Of the grid around an observation, in its sds: beyond lies less than 1e-9 of the filtered density."""

SPACING = 1.0
"""Of the grid, in scales of the Cauchy shocks: their density has a pole at distance 1, so the trapezoid rule errs by
exp(-2 pi) = 2e-3 of a step's likelihood. On three data sets of 1000 observations, halving it moved the posterior mean
by at most 1e-4 sds (benchmarks/results/references/contest.json)."""

NUM_THETA_NODES = 65
OBSERVATION_SD = 10.0


@dataclass(frozen=True)
class CauchyPosterior:
    """Mean and sd of a, and what halving all spacings changed: the mean in sds, and the log sd; None if not asked."""

    mean: float
    sd: float
    change_of_mean: float | None = None
    change_of_log_sd: float | None = None


def cauchy_posterior_of(
    model: pf.StateSpaceModel, ys: Float[np.ndarray, " time"], *, check: bool = False
) -> CauchyPosterior:
    """Integrate over the states on grids around each observation, and over a; with `check`, again on finer grids."""
    with jax.enable_x64(True):
        coordinates = theta_grid.prior_coordinates(model.parameters)
        log_prior = theta_grid.log_prior_of(model.parameters, coordinates)
        observations = jnp.asarray(ys, jnp.float64)

        def log_density_with(spacing):
            num_points = 2 * round(REACH * OBSERVATION_SD / spacing) + 1
            at_nodes = jax.jit(lambda a: jax.lax.map(partial(cauchy_log_likelihood, observations, num_points), a))
            return lambda v: log_prior(v) + np.asarray(at_nodes(jnp.asarray(coordinates.to_z(v)[:, 0])))

        def moments(frame, log_density):
            scores, a = log_density(frame.nodes), coordinates.to_z(frame.nodes)[:, 0]
            weights = np.exp(scores - np.max(scores))
            mean = np.average(a, weights=weights)
            return float(mean), float(np.sqrt(np.average((a - mean) ** 2, weights=weights)))

        coarse = log_density_with(SPACING)
        frame = theta_grid.zoom(coarse, theta_grid.prior_frame(1, NUM_THETA_NODES), free_nodes=True)
        coarse_mean, coarse_sd = moments(frame, coarse)
        if not check:
            return CauchyPosterior(coarse_mean, coarse_sd)
        mean, sd = moments(frame.halved_spacing(), log_density_with(SPACING / 2))
    return CauchyPosterior(mean, sd, abs(mean - coarse_mean) / sd, abs(float(np.log(sd / coarse_sd))))


def cauchy_log_likelihood(ys: Float[Array, " time"], num_points: int, a: Float[Array, ""]) -> Float[Array, ""]:
    """Return log p(y_{1:T} | a) of x' = a x + Cauchy(0, 1), y = x + N(0, 10^2), x_0 ~ N(0, 1).

    The densities are written out, since a logarithm and an exponential for each pair of points would take most of the
    time.
    """
    offsets = jnp.linspace(-REACH, REACH, num_points) * OBSERVATION_SD
    looks = jnp.exp(-0.5 * (offsets / OBSERVATION_SD) ** 2) / (jnp.sqrt(2 * jnp.pi) * OBSERVATION_SD)
    spacing = offsets[1] - offsets[0]

    def step(carry, y):
        points, masses, log_likelihood = carry
        arrivals = y + offsets
        predicted = jnp.sum(masses[:, None] / (1 + (arrivals - a * points[:, None]) ** 2), axis=0) / jnp.pi
        joint = spacing * predicted * looks
        total = jnp.sum(joint)
        return (arrivals, joint / total, log_likelihood + jnp.log(total)), None

    masses = jax.scipy.stats.norm.pdf(points := jnp.linspace(-REACH, REACH, num_points))
    return jax.lax.scan(step, (points, masses / jnp.sum(masses), jnp.zeros(())), ys)[0][2]

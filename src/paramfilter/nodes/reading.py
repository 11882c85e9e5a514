"""From nodes to a posterior: many weighted points, and how far their mean may be off.

Three ways, the cheapest first:

1. From the nodes alone, if all data are kept and their weights leave a small error; later, if there is no other way.
2. From a surface, if it misses the log likelihood by little (`surface`): thousands of points are drawn around the
   posterior and weighed by the prior, which is exact, times the surface's likelihood.
3. From more nodes, while all data are kept: rounds of new ones are taken through the data until their weights leave a
   small error. No approximation is made but the inner filter's.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from paramfilter.nodes.lattice import lattice, scattered
from paramfilter.nodes.pool import Pool
from paramfilter.nodes.proposals import Prior, log_sum, shares_of
from paramfilter.nodes.replay import another_round
from paramfilter.nodes.state import NodeState
from paramfilter.nodes.surfaces import MANY_NODES, Surface, fit_surface
from paramfilter.numerics.compensated import CompensatedSum
from paramfilter.tracing import RUN_ONCE, on_host
from paramfilter.types import KeyArray, Numbers

if TYPE_CHECKING:
    from paramfilter.nodes.filter import NodeEngine

TINY_MISFIT, SMALL_MISFIT = 0.005, 0.2
"""Nats that a surface may miss, leaving one node out, to be read from: while there are other ways, and when not."""
USABLE_MISFIT = 1.0
"""The same inside a trace, where the other way is to read few nodes."""
NUM_POINTS, NUM_POINTS_IN_TRACE = 4096, 256
ACCURACY = 0.02
"""Posterior sds: no more rounds are made when the mean is known to this, unless the filter was told otherwise."""
LATTICE_GAIN = 0.6
"""Error of a mean over points of a lattice, over that of as many independent ones. Fitted to runs of the first problems
of `benchmarks.truth`; over all of them the told error is within a factor of 3 of the true one in 92 % of 594 runs
(`python -m benchmarks.truth --filter node_filter --all`)."""
FEWEST_FOR_GAIN = 50
"""Points of a lattice for each parameter, below which it counts as no better than independent points: of 30 to 40 the
true error was 1.7 times the told one."""
MOST_ROUNDS = 8
UNSEEN = 0.01
"""Posterior sds that an error is never said to be below: rounding, and what no estimate sees."""
READING = 1_000_000
"""Folded into a time's key for the points of a reading: beyond the numbers of the rounds of a renewal."""


@dataclass(frozen=True)
class Cloud:
    """Weighted points of a posterior.

    Attributes:
        z: The points.
        theta: The same on the natural scale.
        weights: They sum to one.
        error: Estimated error of the posterior mean of each coordinate, in posterior sds.
        log_normalizer: Log of the integral of prior times likelihood.
        surface: Of the log likelihood, if one was fitted.
    """

    z: Float[Numbers, "point param"]
    theta: Mapping[str, Numbers]
    weights: Float[Numbers, " point"]
    error: Float[Numbers, " param"]
    log_normalizer: float
    surface: Surface | None


def read(engine: NodeEngine, state: NodeState) -> Cloud:
    """Return the posterior in the best way there is."""
    state = on_host(state)
    nodes = state.nodes
    z, log_prior, log_likelihood, log_weights = (
        np.asarray(leaf, np.float64) for leaf in (nodes.z, nodes.log_prior, nodes.log_likelihood, nodes.log_weights)
    )
    weights = shares_of(log_weights)
    error = np.sqrt(_error_of_mean(z, weights, engine.num_nodes) ** 2 + np.asarray(state.surface_error, np.float64))
    theta = {name: np.asarray(leaf) for name, leaf in nodes.theta.items()}
    alone = Cloud(z, theta, weights, error, float(nodes.log_normalizer), None)
    is_kept = engine.can_replay(int(state.time))
    if is_kept and np.max(error) <= engine.accuracy:
        return alone
    surface = fit_surface(z, log_likelihood, log_prior, weights)
    if surface.misfit < (TINY_MISFIT if is_kept else SMALL_MISFIT):
        return _from_surface(engine, state, surface, weights)
    return _from_rounds(engine, state) if is_kept else replace(alone, surface=surface)


def _from_surface(engine: NodeEngine, state: NodeState, surface: Surface, weights: Numbers) -> Cloud:
    nodes = state.nodes
    old_z, log_weights, log_flat = (np.asarray(x, np.float64) for x in (nodes.z, nodes.log_weights, nodes.log_flat))
    around = engine.mixture(old_z, log_weights, log_flat, surface.wide)
    e, choice = engine.compiled(_many_points, compiler_options=RUN_ONCE)(state.key, state.time)
    z = around.at(np.asarray(e, np.float64), np.asarray(choice, np.float64))
    theta, log_prior = engine.compiled(_prior_at, compiler_options=RUN_ONCE)(z.astype(e.dtype), state.kept.prior)
    log_likelihood, is_inside = surface.at(z)
    log_posterior = np.asarray(log_prior, np.float64) + log_likelihood
    is_sound = is_inside & (log_posterior < surface.highest)
    log_ratio = np.where(is_sound, log_posterior - around.log_density(z), -np.inf)
    point_weights = shares_of(log_ratio)
    shift = surface.squared_error(old_z, weights) + np.asarray(state.surface_error, np.float64)
    shift += _error_of_mean(z, point_weights, NUM_POINTS) ** 2
    return Cloud(
        z=z,
        theta={name: np.asarray(leaf) for name, leaf in theta.items()},
        weights=point_weights,
        error=np.sqrt(shift + UNSEEN**2),
        log_normalizer=_as_float(nodes.offset) + float(_log_mean(log_ratio[:, None])[0]),
        surface=surface,
    )


def read_in_trace(engine: NodeEngine, state: NodeState) -> tuple[Mapping[str, Numbers], Float[Numbers, " point"]]:
    """Return weighted points without looking back: from a surface if the nodes are few, and from them alone if many."""
    nodes = state.nodes
    weights = jnp.exp(nodes.log_weights - nodes.log_total)
    if engine.num_nodes >= MANY_NODES:
        return nodes.theta, weights
    surface = fit_surface(nodes.z, nodes.log_likelihood, nodes.log_prior, weights)
    around = engine.mixture(nodes.z, nodes.log_weights, nodes.log_flat, surface.wide)
    points = lattice(NUM_POINTS_IN_TRACE, engine.model.parameters.dimension + 2)
    z = around.at(*scattered(state.key, state.time, READING, points))
    theta, log_prior = _prior_at(engine, z, state.kept.prior)
    log_likelihood, is_inside = surface.at(z)
    log_posterior = log_prior + log_likelihood
    is_sound = is_inside & (log_posterior < surface.highest) & (surface.misfit < USABLE_MISFIT)
    log_ratio = jnp.where(is_sound, log_posterior - around.log_density(z), -jnp.inf)
    # Both kinds of points are there, and one of them has all weight.
    is_read = jnp.any(is_sound)
    shares = jnp.where(is_read, jax.nn.softmax(jnp.where(is_read, log_ratio, 0.0)), 0.0)
    both = {name: jnp.concatenate([leaf, nodes.theta[name]]) for name, leaf in theta.items()}
    return both, jnp.concatenate([shares, jnp.where(is_read, 0.0, weights)])


def _from_rounds(engine: NodeEngine, state: NodeState) -> Cloud:
    """Make rounds of new nodes, until together they know the mean."""
    pool = Pool.start(state.nodes, np.zeros(engine.num_nodes), MOST_ROUNDS + 1, np.float64)
    log_weights, error, thetas = pool.log_weights(), np.array(np.inf), []
    while np.max(error) > engine.accuracy and len(thetas) < MOST_ROUNDS:
        pool, theta = another_round(engine, state, pool, READING + len(thetas), 1 + len(thetas))
        pool = pool.without_first()
        thetas.append(theta)
        log_weights = pool.log_weights()
        error = _error_of_mean(pool.points, shares_of(log_weights), engine.num_nodes)
    used = slice(engine.num_nodes, (1 + len(thetas)) * engine.num_nodes)  # the first slot holds the nodes there were
    return Cloud(
        z=pool.points[used],
        theta={name: np.concatenate([np.asarray(theta[name]) for theta in thetas]) for name in thetas[0]},
        weights=shares_of(log_weights[used]),
        error=np.sqrt(error**2 + UNSEEN**2),
        log_normalizer=_as_float(pool.offset) + float(_log_mean(log_weights[used, None])[0]),
        surface=None,
    )


def _as_float(offset: CompensatedSum) -> float:
    """Return a sum in double precision."""
    return float(offset.total) + float(offset.lost)


def _log_mean(values: Numbers) -> Numbers:
    """Return log(mean(exp(values))) over the first axis."""
    return log_sum(values) - np.log(len(values))


def _many_points(engine: NodeEngine, key: KeyArray, time: Any) -> Any:
    return scattered(key, time, READING, lattice(NUM_POINTS, engine.model.parameters.dimension + 2))


def _prior_at(engine: NodeEngine, z: Any, prior: Prior) -> Any:
    parameters = engine.model.parameters
    return jax.vmap(parameters.constrain)(z), prior.log_density(parameters, z)


def _error_of_mean(z: Numbers, weights: Numbers, lattice_size: int) -> Numbers:
    """Return the standard error of a weighted mean, in sds (delta method)."""
    apart = z - weights @ z
    sd = np.sqrt(weights @ apart**2)
    gain = _gain(lattice_size, z.shape[1])
    return gain * np.sqrt(np.sum((weights[:, None] * apart) ** 2, axis=0)) / np.maximum(sd, 1e-300)


def _gain(lattice_size: int, num_parameters: int) -> float:
    return LATTICE_GAIN if lattice_size >= FEWEST_FOR_GAIN * num_parameters else 1.0


def effective_nodes_for(accuracy: float, num_nodes: int, num_parameters: int) -> float:
    """Return the effective sample size at which nodes know the posterior mean so well, in posterior sds."""
    return (_gain(num_nodes, num_parameters) / accuracy) ** 2

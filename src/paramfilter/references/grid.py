"""The posterior of theta for any model with one or two unknowns, by brute force.

Given theta, the likelihood of the data comes from one of two methods, named by a small configuration:

- `StateGrid()`, for a scalar state: a forward filter on a grid, with errors far below a posterior sd (1e-6 and less);
- `Particles()`, for any state: a large particle filter, with a standard error.

>>> import jax, jax.numpy as jnp, numpyro.distributions as dist
>>> from paramfilter.model import StateSpaceModel, simulate
>>> model = StateSpaceModel(
...     prior={"theta": dist.Normal(0.0, 0.2)},
...     initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
...     transition=lambda theta, x, inputs: dist.Normal(jnp.sin(theta["theta"] * x), 1.0),
...     observation=lambda theta, x, inputs: dist.Normal(x, 0.1),
... )
>>> xs, ys = simulate(jax.random.key(0), model, {"theta": 0.7}, num_steps=50)
>>> posterior = grid_posterior(model, ys)
>>> bool(0.0 < posterior.mean()["theta"] < 0.7)
True
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import jax
import numpy as np

from paramfilter.errors import ModelError
from paramfilter.model import StateSpaceModel
from paramfilter.references import theta_grid
from paramfilter.references.particles import WINDOW_NATS, Particles, jackknife, particle_answers, smoothed
from paramfilter.references.posterior import GridPosterior, change, posterior_on
from paramfilter.references.problem import NodeAnswers, Problem, problem_of, refuse_many_coordinates, remember_last
from paramfilter.references.state_grid import GridFilter, Lattice, StateGrid, grid_filter_of, pilot_lattice
from paramfilter.references.theta_grid import Coordinates, Frame
from paramfilter.types import Inputs, Observation

DEFAULT_NODES = {1: 65, 2: 33}
"""Nodes per coordinate, by the number of coordinates."""
PROBE_DEVIATIONS = 3.0
MAX_LATTICES = 12


def grid_posterior(
    model: StateSpaceModel,
    ys: Observation,
    *,
    inputs: Inputs = None,
    initial_inputs: Inputs = None,
    method: StateGrid | Particles | None = None,
    num_nodes: int | None = None,
    check: bool = False,
) -> GridPosterior:
    """Return the posterior of any model with one or two unconstrained coordinates.

    Args:
        model: The model.
        ys: Observations with a leading axis of time; NaN where missing, whole or by component.
        inputs: Inputs with a leading axis of time, or None.
        initial_inputs: What `initial` is told, or None.
        method: How to find the likelihood given theta; `StateGrid()` unless given.
        num_nodes: Nodes per coordinate of theta; 65 for one coordinate and 33 for two unless given.
        check: Whether to repeat with half the spacing of theta and of x (or twice the particles), and report the change
            as `accuracy`. With `StateGrid` this takes about eight times as long for one coordinate.

    Returns:
        The posterior of theta and of the last state, in float64.

    Raises:
        ModelError: If there are more than two coordinates, or `StateGrid` meets a state that is not scalar.
    """
    refuse_many_coordinates(model, "grid_posterior")
    with jax.enable_x64(True):
        problem = problem_of(model, ys, inputs, initial_inputs)
        coordinates = theta_grid.prior_coordinates(model.parameters)
        theta = _ThetaProblem(problem, coordinates, theta_grid.log_prior_of(model.parameters, coordinates))
        dimension = model.parameters.dimension
        start = theta_grid.prior_frame(dimension, num_nodes or DEFAULT_NODES[dimension])
        if isinstance(method, Particles):
            return _by_particles(theta, method, start, check)
        return _by_state_grid(theta, method or StateGrid(), start, num_nodes is None, check)


@dataclass(frozen=True, eq=False)
class _ThetaProblem:
    """A problem together with the coordinates of its theta."""

    problem: Problem
    coordinates: Coordinates
    log_prior: Callable[[np.ndarray], np.ndarray]

    def log_density(self, answer: Callable[[np.ndarray], NodeAnswers]) -> Callable[[np.ndarray], np.ndarray]:
        return lambda v: self.log_prior(v) + answer(self.coordinates.to_z(v)).log_likelihood

    def posterior(self, frame: Frame, answers: NodeAnswers) -> GridPosterior:
        return posterior_on(self.problem, self.coordinates, frame, self.log_prior, answers)


def _by_state_grid(
    theta: _ThetaProblem, config: StateGrid, frame: Frame, free_nodes: bool, check: bool
) -> GridPosterior:
    grid_filter = grid_filter_of(theta.problem)
    lattice, z = pilot_lattice(grid_filter, config)
    lattice = grid_filter.settle(lattice, z, np.ones(len(z)))
    for _ in range(MAX_LATTICES):
        answer = remember_last(partial(_on_lattice, grid_filter, lattice))
        frame = theta_grid.zoom(theta.log_density(answer), frame, free_nodes=free_nodes)
        found = answer(theta.coordinates.to_z(frame.nodes))
        result = theta.posterior(frame, found)
        # the pilot's theta was a guess: ask again across the posterior that came of it
        settled = grid_filter.settle(lattice, *_probes(frame, result))
        settled = grid_filter.resolve(settled, found, np.exp(result.log_weights))
        if settled.same_points(lattice):
            break
        lattice = settled
    else:
        raise ModelError(
            f"found no grid of the state that serves the whole posterior in {MAX_LATTICES} rounds; give "
            "StateGrid(num_points, low, high), or use method=Particles()."
        )
    if not check:
        return result
    finer = frame.halved_spacing()
    answers = _on_lattice(grid_filter, lattice.halved_spacing(), theta.coordinates.to_z(finer.nodes))
    return replace(result, accuracy=change(result, theta.posterior(finer, answers)))


def _on_lattice(grid_filter: GridFilter, lattice: Lattice, z: np.ndarray) -> NodeAnswers:
    found = grid_filter.run(z, lattice)
    log_likelihood, mean, variance, excess = map(
        np.asarray, (found.log_likelihood, found.mean, found.variance, found.excess)
    )
    return NodeAnswers(log_likelihood, mean[:, None], variance[:, None], excess=excess)


def _probes(frame: Frame, posterior: GridPosterior) -> tuple[np.ndarray, np.ndarray]:
    """Return nodes near the posterior mean and some sds away along each axis, and their density over its maximum."""
    u = frame.from_v(frame.nodes)
    weights = np.exp(posterior.log_weights)
    mean = weights @ u
    sds = np.sqrt(weights @ (u - mean) ** 2)
    steps = PROBE_DEVIATIONS * np.diag(sds)
    wanted = np.concatenate([mean[None], mean + steps, mean - steps])
    nearest = np.argmin(np.sum(((u - wanted[:, None]) / sds) ** 2, axis=-1), axis=1)
    return posterior.z[nearest], weights[nearest] / np.max(weights)


def _by_particles(theta: _ThetaProblem, config: Particles, frame: Frame, check: bool) -> GridPosterior:
    pilot = particle_answers(theta.problem, config.pilot())
    frame = theta_grid.zoom(theta.log_density(pilot), frame, nats=WINDOW_NATS)

    def posterior(frame: Frame, config: Particles) -> GridPosterior:
        answers = particle_answers(theta.problem, config)(theta.coordinates.to_z(frame.nodes))
        log_prior = theta.log_prior(frame.nodes)
        result = theta.posterior(frame, smoothed(answers, frame, log_prior, config.smooth_degree))
        error = jackknife(answers, frame, log_prior, config.smooth_degree, lambda part: theta.posterior(frame, part))
        return replace(result, standard_error=error)

    result = posterior(frame, config)
    if not check:
        return result
    return replace(result, accuracy=change(result, posterior(frame.halved_spacing(), config.doubled())))

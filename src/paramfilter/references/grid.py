"""The posterior of theta for any model with a scalar state and one or two unknowns, by brute force.

Given theta, a forward filter on a grid of the state gives the likelihood of the data, with errors far below a posterior
sd (1e-6 and less). `state_grid` finds the grid, `theta_grid` the nodes of theta.

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

from dataclasses import replace
from functools import partial

import jax
import numpy as np

from paramfilter.errors import ModelError
from paramfilter.model import StateSpaceModel
from paramfilter.references.forward_filter import UNRESOLVED
from paramfilter.references.posterior import GridPosterior, ThetaProblem, change
from paramfilter.references.problem import few_coordinates, problem_of
from paramfilter.references.state_grid import filter_on_grid, pilot_lattice
from paramfilter.references.theta_grid import Frame, prior_frame
from paramfilter.types import Inputs, Observation

DEFAULT_NODES = {1: 65, 2: 33}
"""Nodes per coordinate, by the number of coordinates."""
PROBE_DEVIATIONS = 3.0
MAX_LATTICES = 12
UNRESOLVED_SHARE = 1e-7
"""Of the posterior of theta, at nodes whose transition is narrower than the spacing."""


def grid_posterior(
    model: StateSpaceModel,
    ys: Observation,
    *,
    inputs: Inputs = None,
    initial_inputs: Inputs = None,
    num_nodes: int | None = None,
    check: bool = False,
) -> GridPosterior:
    """Return the posterior of any model with a scalar state and one or two unconstrained coordinates.

    Args:
        model: The model.
        ys: Observations with a leading axis of time; NaN where missing, whole or by component.
        inputs: Inputs with a leading axis of time, or None.
        initial_inputs: What `initial` is given, or None.
        num_nodes: Nodes per coordinate of theta; 65 for one coordinate and 33 for two unless given.
        check: Whether to repeat with half the spacing of theta and of x, and report the change as `accuracy`. It takes
            about eight times as long for one coordinate.

    Returns:
        The posterior of theta and of the last state, in float64.

    Raises:
        ModelError: If there are more than two coordinates, or the state is not one real number.
    """
    dimension = few_coordinates(model, "grid_posterior")
    with jax.enable_x64(True):
        theta = ThetaProblem.of(problem_of(model, ys, inputs, initial_inputs))
        frame = prior_frame(dimension, num_nodes or DEFAULT_NODES[dimension])
        on_grid = filter_on_grid(theta.problem)
        lattice, z = pilot_lattice(on_grid)
        lattice = on_grid.settle(lattice, z, np.ones(len(z)))
        for _ in range(MAX_LATTICES):
            frame, answer = theta.zoom(partial(on_grid.run, lattice), frame, free_nodes=num_nodes is None)
            result = theta.posterior(frame, answer)
            # the pilot's theta was a guess: ask again across the posterior that came of it
            is_unresolved = np.sum(np.exp(result.log_weights)[answer.excess > UNRESOLVED]) > UNRESOLVED_SHARE
            settled = on_grid.settle(lattice.finer() if is_unresolved else lattice, *_probes(frame, result))
            if settled == lattice:
                break
            lattice = settled
        else:
            raise ModelError(
                f"found no grid of the state that serves the whole posterior in {MAX_LATTICES} rounds; use "
                "references.pmmh instead."
            )
        if not check:
            return result
        finer = frame.halved_spacing()
        again = on_grid.run(lattice.halved_spacing(), theta.coordinates.to_z(finer.nodes))
        return replace(result, accuracy=change(result, theta.posterior(finer, again)))


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

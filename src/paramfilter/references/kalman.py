"""The exact posterior of theta for models that are linear and Gaussian given theta.

At each node of theta a Kalman filter gives log p(y_{1:T} | theta), exactly; the nodes are
placed by `theta_grid`.

>>> import jax, numpyro.distributions as dist
>>> from paramfilter.model import StateSpaceModel, simulate
>>> model = StateSpaceModel(
...     prior={"phi": dist.Normal(0.0, 0.5)},
...     initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
...     transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
...     observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
... )
>>> xs, ys = simulate(jax.random.key(0), model, {"phi": 0.8}, num_steps=200)
>>> posterior = kalman_grid(model, ys)
>>> bool(abs(posterior.mean()["phi"] - 0.8) < 4 * posterior.sd()["phi"])
True
"""

from __future__ import annotations

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.inspect.linear_gaussian import LinearModel
from paramfilter.model import StateSpaceModel
from paramfilter.numerics.kalman import absorb, predicted
from paramfilter.references.posterior import GridPosterior, ThetaProblem, change
from paramfilter.references.problem import Answer, Problem, few_coordinates, flat_observations, problem_of
from paramfilter.references.theta_grid import prior_frame
from paramfilter.types import Inputs, Observation

DEFAULT_NODES = {1: 129, 2: 65}
"""Nodes per coordinate, by the number of coordinates."""


def kalman_grid(
    model: StateSpaceModel,
    ys: Observation,
    *,
    inputs: Inputs = None,
    initial_inputs: Inputs = None,
    num_nodes: int | None = None,
    check: bool = False,
) -> GridPosterior:
    """Return the exact posterior of a model that is linear and Gaussian given theta.

    Args:
        model: One or two unconstrained coordinates; Gaussian `initial`, `transition` and `observation` whose means are
            linear in x and whose scales do not depend on x. This is checked at probe points.
        ys: Observations with a leading axis of time; NaN where missing, whole or by component.
        inputs: Inputs with a leading axis of time, or None.
        initial_inputs: What `initial` is given, or None.
        num_nodes: Nodes per coordinate of theta; 129 for one coordinate and 65 for two unless given.
        check: Whether to repeat the sum with half the spacing and report the change as `accuracy`.

    Returns:
        The posterior of theta and of the last state, in float64.

    Raises:
        ModelError: If the model is not linear and Gaussian given theta, or has more than two coordinates.
    """
    dimension = few_coordinates(model, "kalman_grid")
    with jax.enable_x64(True):
        problem = problem_of(model, ys, inputs, initial_inputs)
        _refuse_nonlinear(problem)
        theta, at_nodes = ThetaProblem.of(problem), jax.jit(jax.vmap(lambda z: kalman_filter(problem, z)))
        answer = lambda z: jax.tree.map(np.asarray, at_nodes(jnp.asarray(z)))
        first = prior_frame(dimension, num_nodes or DEFAULT_NODES[dimension])
        frame, answers = theta.zoom(answer, first, free_nodes=num_nodes is None)
        result, finer = theta.posterior(frame, answers), frame.halved_spacing()
        if not check:
            return result
        again = theta.posterior(finer, answer(theta.coordinates.to_z(finer.nodes)))
        return replace(result, accuracy=change(result, again))


def kalman_filter(problem: Problem, z: Float[Array, " param"]) -> Answer:
    """Return log p(y_{1:T} | theta), and mean and variances of the last state."""
    linear = _linear(problem)
    theta = problem.model.parameters.constrain(z)
    initial = linear.initial(theta, problem.initial_inputs)
    matrices = lambda inputs: (linear.move(theta, inputs), linear.look(theta, inputs))
    constant = matrices(None) if problem.inputs is None else None

    def step(carry, now):
        mean, covariance, log_likelihood = carry
        y, inputs = now
        move, look = constant if constant is not None else matrices(inputs)
        mean, covariance, increment = absorb(*predicted(mean, covariance, move), look, y)
        return (mean, covariance, log_likelihood + increment), None

    start = (initial.mean, initial.covariance, jnp.zeros(()))
    now = (flat_observations(problem.ys), problem.inputs)
    (mean, covariance, log_likelihood), _ = jax.lax.scan(step, start, now)
    return Answer(log_likelihood, mean, jnp.diagonal(covariance))


def _linear(problem: Problem) -> LinearModel:
    otherwise = "use grid_posterior(model, ys) instead."
    return LinearModel(problem.model, problem.state_size, problem.to_state, "kalman_grid", otherwise)


def _refuse_nonlinear(problem: Problem) -> None:
    times = {0} if problem.inputs is None else {0, problem.num_steps // 2, problem.num_steps - 1}
    inputs = [problem.inputs_at(time) for time in sorted(times)]
    _linear(problem).refuse_nonlinear(problem.initial_inputs, inputs)

"""The exact posterior of theta for models that are linear and Gaussian given theta.

    x_t = A x_{t-1} + b + N(0, Q),    y_t = H x_t + d + N(0, R),    x_0 ~ N(m_0, P_0),

each matrix any function of theta and of the inputs. They are read off the user's own functions: the mean of
`transition(theta, x, inputs)` is A x + b, so A is its Jacobian and b its value at zero. At each node of theta a Kalman
filter gives log p(y_{1:T} | theta), exactly; the nodes are placed by `theta_grid`.

The components of an observation are absorbed one after the other, whitened first if their noises are correlated. This
is the same filter without a matrix to invert, and a missing component is one that is not absorbed.

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

R. E. Kalman, A new approach to linear filtering and prediction problems, 1960; sequential processing: A. E. Bryson and
Y.-C. Ho, Applied Optimal Control, 1975.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from paramfilter.errors import ModelError
from paramfilter.gaussian import Gaussian, gaussian_of
from paramfilter.model import StateSpaceModel
from paramfilter.references import theta_grid
from paramfilter.references.posterior import GridPosterior, change, posterior_on
from paramfilter.references.problem import (
    NodeAnswers,
    Problem,
    flat_observations,
    problem_of,
    refuse_many_coordinates,
    remember_last,
)
from paramfilter.types import Inputs, Observation

DEFAULT_NODES = {1: 129, 2: 65}
"""Nodes per coordinate, by the number of coordinates."""
NUM_PROBES = 8
PROBE_REACH = 10.0
LINEARITY_TOLERANCE = 1e-6
"""Share of the size of the mean by which it may miss a straight line: rounding of a model written in float32."""


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
        initial_inputs: What `initial` is told, or None.
        num_nodes: Nodes per coordinate of theta; 129 for one coordinate and 65 for two unless given.
        check: Whether to repeat the sum with half the spacing and report the change as `accuracy`.

    Returns:
        The posterior of theta and of the last state, in float64.

    Raises:
        ModelError: If the model is not linear and Gaussian given theta, or has more than two coordinates.
    """
    refuse_many_coordinates(model, "kalman_grid")
    with jax.enable_x64(True):
        problem = problem_of(model, ys, inputs, initial_inputs)
        _refuse_nonlinear(problem)
        dimension = model.parameters.dimension
        coordinates = theta_grid.prior_coordinates(model.parameters)
        log_prior = theta_grid.log_prior_of(model.parameters, coordinates)
        answer = _answers_of(problem)

        def log_density(v):
            return log_prior(v) + answer(coordinates.to_z(v)).log_likelihood

        start = theta_grid.prior_frame(dimension, num_nodes or DEFAULT_NODES[dimension])
        frame = theta_grid.zoom(log_density, start, free_nodes=num_nodes is None)

        def posterior(frame):
            return posterior_on(problem, coordinates, frame, log_prior, answer(coordinates.to_z(frame.nodes)))

        result = posterior(frame)
        return replace(result, accuracy=change(result, posterior(frame.halved_spacing()))) if check else result


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class _Affine:
    """N(slope x + intercept, noise)."""

    slope: Float[Array, "obs state"]
    noise: Gaussian

    @property
    def intercept(self) -> Float[Array, " obs"]:
        return self.noise.mean


def _answers_of(problem: Problem) -> Callable[[np.ndarray], NodeAnswers]:
    at_nodes = jax.jit(jax.vmap(lambda z: kalman_filter(problem, z)))

    def answers(z):
        log_likelihood, mean, variance = at_nodes(jnp.asarray(z))
        return NodeAnswers(np.asarray(log_likelihood), np.asarray(mean), np.asarray(variance))

    return remember_last(answers)


def kalman_filter(
    problem: Problem, z: Float[Array, " param"]
) -> tuple[Float[Array, ""], Float[Array, " state"], Float[Array, " state"]]:
    """Return log p(y_{1:T} | theta), and mean and variances of the last state."""
    model = problem.model
    theta = model.parameters.constrain(z)
    initial = _gaussian(model.initial(theta, problem.initial_inputs), "initial")

    def matrices(inputs):
        transition = _affine(lambda x: model.transition(theta, problem.to_state(x), inputs), problem, "transition")
        observation = _affine(lambda x: model.observation(theta, problem.to_state(x), inputs), problem, "observation")
        return transition, observation

    constant = matrices(None) if problem.inputs is None else None

    def step(carry, now):
        mean, covariance, log_likelihood = carry
        y, inputs = now
        move, look = constant if constant is not None else matrices(inputs)
        mean = move.slope @ mean + move.intercept
        covariance = move.slope @ covariance @ move.slope.T + move.noise.covariance
        mean, covariance, increment = _absorb(mean, covariance, look, y)
        return (mean, covariance, log_likelihood + increment), None

    start = (initial.mean, initial.covariance, jnp.zeros(()))
    now = (flat_observations(problem.ys), problem.inputs)
    (mean, covariance, log_likelihood), _ = jax.lax.scan(step, start, now)
    return log_likelihood, mean, jnp.diagonal(covariance)


def _absorb(
    mean: Float[Array, " state"], covariance: Float[Array, "state state"], look: _Affine, y: Float[Array, " obs"]
) -> tuple[Float[Array, " state"], Float[Array, "state state"], Float[Array, ""]]:
    """Condition on one observation, a component at a time."""
    observed = ~jnp.isnan(y)
    target = jnp.where(observed, y - look.intercept, 0.0)
    slope = jnp.where(observed[:, None], look.slope, 0.0)
    if look.noise.is_diagonal:
        deviations, log_scale = look.noise.scale, jnp.zeros(())
    else:
        noise = look.noise.observed_only(observed)
        target, slope = noise.whiten(target), noise.whiten(slope)
        deviations = jnp.ones_like(target)
        log_scale = jnp.sum(jnp.log(jnp.diagonal(noise.scale)))

    def component(carry, row):
        mean, covariance, log_likelihood = carry
        target, slope, deviation, is_observed = row
        spread = covariance @ slope
        variance = jnp.where(is_observed, slope @ spread + deviation**2, 1.0)
        residual = target - slope @ mean
        gain = spread / variance
        # Joseph's form: positive semidefinite whatever the rounding
        shrink = jnp.eye(len(mean)) - jnp.outer(gain, slope)
        updated = shrink @ covariance @ shrink.T + jnp.outer(gain, gain) * deviation**2
        score = -0.5 * (jnp.log(2 * jnp.pi * variance) + residual**2 / variance)
        return (mean + gain * residual, updated, log_likelihood + jnp.where(is_observed, score, 0.0)), None

    start = (mean, covariance, -log_scale)
    return jax.lax.scan(component, start, (target, slope, deviations, observed))[0]


def _affine(build: Callable[[Float[Array, " state"]], object], problem: Problem, part: str) -> _Affine:
    origin = jnp.zeros(problem.state_size)
    slope = jax.jacfwd(lambda x: _gaussian(build(x), part).mean)(origin)
    return _Affine(slope, _gaussian(build(origin), part))


def _gaussian(tree: object, part: str) -> Gaussian:
    gaussian = gaussian_of(tree)
    if gaussian is None:
        raise ModelError(
            f"kalman_grid needs Gaussian laws (Normal or MultivariateNormal), but {part} returns {_name(tree)}; use "
            "grid_posterior(model, ys) instead."
        )
    return Gaussian(jnp.asarray(gaussian.mean, float), jnp.asarray(gaussian.scale, float))


def _name(tree: object) -> str:
    leaves = jax.tree.leaves(tree, is_leaf=lambda leaf: hasattr(leaf, "log_prob"))
    return ", ".join(sorted({type(leaf).__name__ for leaf in leaves}))


def _refuse_nonlinear(problem: Problem) -> None:
    """Compare mean and scale with their straight lines, at draws from the prior and states far and near."""
    model = problem.model

    def misses(direction, z, inputs) -> dict[str, tuple[Bool[Array, ""], Bool[Array, ""]]]:
        theta = model.parameters.constrain(z)
        initial = _gaussian(model.initial(theta, problem.initial_inputs), "initial")
        size = jnp.max(jnp.abs(initial.mean)) + jnp.sqrt(jnp.max(jnp.diagonal(initial.covariance)))
        x = jnp.maximum(size, 1.0) * direction
        found = {}
        for part, law in {"transition": model.transition, "observation": model.observation}.items():
            line = _affine(lambda x, law=law: law(theta, problem.to_state(x), inputs), problem, part)
            truth = _gaussian(law(theta, problem.to_state(x), inputs), part)
            straight, scale = line.slope @ x + line.intercept, line.noise.scale
            unit = jnp.max(jnp.abs(scale))
            bent = _differ(truth.mean, straight, unit + jnp.max(jnp.abs(straight)))
            found[part] = (bent, _differ(truth.scale, scale, unit))
        return found

    # cos(probe + state^2): in all directions, without a generator to compile; lengths from 1 to PROBE_REACH
    angles = np.arange(NUM_PROBES)[:, None] + np.arange(1, problem.state_size + 1) ** 2
    directions = np.cos(angles) * np.geomspace(1.0, PROBE_REACH, NUM_PROBES)[:, None]
    at_probes = jax.jit(jax.vmap(misses, in_axes=(0, 0, None)))
    zs = model.parameters.prior_draws[:NUM_PROBES]
    times = {0} if problem.inputs is None else {0, problem.num_steps // 2, problem.num_steps - 1}
    for time in sorted(times):
        found = at_probes(jnp.asarray(directions), jnp.asarray(zs), problem.inputs_at(time))
        for part, (bent, uneven) in found.items():
            if bool(jnp.any(bent)) or bool(jnp.any(uneven)):
                cause = "its mean is not linear in x" if bool(jnp.any(bent)) else "its scale depends on x"
                raise ModelError(
                    f"kalman_grid needs a model that is linear and Gaussian given theta, but in {part} {cause}; use "
                    "grid_posterior(model, ys) instead."
                )


def _differ(first: Array, second: Array, unit: Float[Array, ""]) -> Bool[Array, ""]:
    # written so that NaN differs from everything
    return ~(jnp.max(jnp.abs(first - second)) <= LINEARITY_TOLERANCE * unit)

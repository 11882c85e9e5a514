"""Log posteriors for samplers that take gradients: of theta where states can be summed out, else of theta and states.

Positions are dicts. "z" is theta in unconstrained coordinates; "states" are x_0..x_T, or what moves them:

- marginal: no states. A Kalman filter, or a sum over a discrete state.
- centered: the states themselves.
- noncentered: standard normal e_0..e_T with x_t = mean(x_{t-1}) + scale e_t, where the noise is Gaussian.

Observations that are NaN say nothing, so a series can be padded with NaN to a length that does not change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.contest.likelihoods import kalman_log_likelihood, regime_log_likelihood
from benchmarks.contest.models.flat import model_of
from benchmarks.contest.task import Task, each_table
from paramfilter.gaussian import known_gaussian

MARGINAL = {
    "ar1": kalman_log_likelihood,
    "tracking": kalman_log_likelihood,
    "multispecies": kalman_log_likelihood,
    "common_factor": kalman_log_likelihood,
    "regime_switching": regime_log_likelihood,
}
"""Problems whose states are summed out, and how."""

Position = dict[str, jax.Array]


@dataclass(frozen=True)
class Target:
    """A log density, where to begin, and the data that it is given."""

    log_density: Callable[[Any, Any, Position], jax.Array]
    start: Callable[[Any, Any, jax.Array], Position]
    ys: jax.Array
    inputs: Any


def target_of(task: Task, form: str, length: int | None = None) -> Target:
    """Write a problem's log posterior in a form; `length` is what the series is padded to."""
    model = model_of(task.problem)
    model.parameters.log_prior(model.parameters.prior_draws[0])  # what it finds out, it finds out before it is compiled
    ys, inputs = padded(task.ys, length), each_table(lambda table: padded(table, length, "edge"), task.inputs)
    ys, inputs = jnp.asarray(ys, float), each_table(lambda table: jnp.asarray(table, float), inputs)
    draw = lambda key: model.parameters.sample(key)
    if form == "marginal":
        likelihood = MARGINAL[task.problem]
        density = lambda ys, inputs, at: model.parameters.log_prior(at["z"]) + likelihood(model, ys)(at["z"])
        return Target(density, lambda ys, inputs, key: {"z": draw(key)}, ys, inputs)
    path = partial(centered_path if form == "centered" else moved_path, model)

    def log_density(ys, inputs, at):
        theta = model.parameters.constrain(at["z"])
        xs, log_moves = path(theta, at["states"], inputs)
        looks = jax.vmap(lambda x, y, now: model.observation_log_prob(theta, x, y, now))(xs[1:], ys, inputs)
        return model.parameters.log_prior(at["z"]) + log_moves + jnp.sum(looks)

    def start(ys, inputs, key):
        shape = jnp.shape(model.sample_initial(key, model.parameters.constrain(draw(key)), None))
        quiet = jnp.zeros((len(ys) + 1, *shape))
        if form == "centered":  # along what was observed, where that has the form of a state
            seen = jnp.nan_to_num(ys) if ys.shape[1:] == shape else 0.0
            quiet = quiet.at[1:].add(seen)
        return {"z": draw(key), "states": quiet}

    return Target(log_density, start, ys, inputs)


def centered_path(model, theta, xs, inputs):
    """Return the states and the log density of their moves."""
    move = lambda x_prev, x, now: model.transition_log_prob(theta, x_prev, x, now)
    moves = jax.vmap(move)(xs[:-1], xs[1:], inputs)
    return xs, model.initial_log_prob(theta, xs[0], None) + jnp.sum(moves)


def moved_path(model, theta, noise, inputs):
    """Return the states that standard normal noise makes, and the log density of the noise."""

    def moved(law, e):
        gaussian = known_gaussian(law)
        step = gaussian.scale * jnp.ravel(e) if gaussian.is_diagonal else gaussian.scale @ jnp.ravel(e)
        return jnp.reshape(gaussian.mean + step, jnp.shape(e))

    def step(x, now):
        e, inputs_now = now
        x = moved(model.transition(theta, x, inputs_now), e)
        return x, x

    first = moved(model.initial(theta, None), noise[0])
    _, xs = jax.lax.scan(step, first, (noise[1:], inputs))
    return jnp.concatenate([first[None], xs]), -0.5 * jnp.sum(noise**2)


def padded(table: np.ndarray, length: int | None, mode: str = "nan") -> np.ndarray:
    """Lengthen a table by rows of NaN, or by its last row."""
    table = np.asarray(table, float)
    if length is None or length == len(table):
        return table
    last = np.full(table.shape[1:], np.nan) if mode == "nan" else table[-1]
    return np.concatenate([table, np.broadcast_to(last, (length - len(table), *table.shape[1:]))])


def power_of_two(length: int) -> int:
    """Return the next power of two."""
    return 1 << (length - 1).bit_length()

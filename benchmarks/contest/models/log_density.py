"""Log posteriors for samplers that take gradients: of theta where states can be summed out, else of theta and states.

Positions are dicts. "z" is theta in unconstrained coordinates; "states" are x_0..x_T, or what moves them:

- marginal: no states. A Kalman filter, or a sum over a discrete state.
- centered: the states themselves.
- noncentered: standard normal e_0..e_T with x_t = mean(x_{t-1}) + scale e_t, where the noise is Gaussian.

Observations that are NaN say nothing, so a series can be padded with NaN to a length that does not change.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.contest.likelihoods import kalman_log_likelihood, regime_log_likelihood
from benchmarks.contest.models.flat import model_of
from benchmarks.contest.task import Algorithm, Posterior, Task, each_table, moments
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


FORMS = {"nuts": "marginal", "nuts_centered": "centered", "nuts_noncentered": "noncentered"}
"""What the entries with NUTS call the forms."""

SEEN_AS_LOGARITHM = ("seat_belts",)
"""Problems whose observations are counts around the exponential of a state."""


@dataclass(frozen=True)
class Target:
    """A log density of a position, and where to begin, both given data and inputs; and theta at a position's z."""

    log_density: Callable[[Any, Any, Position], jax.Array]
    start: Callable[[Any, Any, jax.Array], Position]
    theta: Callable[[jax.Array], dict[str, jax.Array]]


@cache
def target_of(problem: str, form: str) -> Target:
    """Write a problem's log posterior in a form, once: what is found out about the model is not part of a run."""
    model = model_of(problem)
    level = (lambda ys: jnp.log(ys + 0.5)) if problem in SEEN_AS_LOGARITHM else (lambda ys: ys)
    model.parameters.log_prior(model.parameters.prior_draws[0])  # which cannot be found out while it is compiled
    theta_at = model.parameters.constrain
    if form == "marginal":
        likelihood = MARGINAL[problem]
        density = lambda ys, inputs, at: model.parameters.log_prior(at["z"]) + likelihood(model, ys)(at["z"])
        return Target(density, lambda ys, inputs, key: {"z": model.parameters.sample(key)}, theta_at)
    path = partial(centered_path if form == "centered" else moved_path, model)

    def log_density(ys, inputs, at):
        theta = theta_at(at["z"])
        xs, log_moves = path(theta, at["states"], inputs)
        looks = jax.vmap(lambda x, y, now: model.observation_log_prob(theta, x, y, now))(xs[1:], ys, inputs)
        return model.parameters.log_prior(at["z"]) + log_moves + jnp.sum(looks)

    def start(ys, inputs, key):
        z = model.parameters.sample(key)
        shape = jnp.shape(model.sample_initial(key, theta_at(z), None))
        quiet = jnp.zeros((len(ys) + 1, *shape))
        if form == "centered":  # along what was observed, where that has the form of a state
            seen = jnp.nan_to_num(level(ys)) if ys.shape[1:] == shape else 0.0
            quiet = quiet.at[1:].add(seen)
        return {"z": z, "states": quiet}

    return Target(log_density, start, theta_at)


def data_of(task: Task, length: int | None = None) -> tuple[jax.Array, Any]:
    """Return observations and inputs of a task; `length` is what they are padded to."""
    inputs = each_table(lambda table: jnp.asarray(padded(table, length, "edge")), task.inputs)
    return jnp.asarray(padded(task.ys, length)), inputs


def refit(compiled: Callable, task: Task) -> Iterator[Posterior]:
    """Yield the posterior of a chain of its own for each time; `compiled` makes one for a problem, length and size."""
    for time in task.times:
        run = compiled(task.problem, FORMS[task.algorithm], time, *size_of(task))
        yield of_draws(run(jax.random.key(task.seed), *data_of(task.until(time))))


def size_of(task: Task) -> tuple[int, int]:
    """Return the steps of warm-up, and the draws after them."""
    return task.size["num_warmup"], task.size["num_draws"]


def keep_up(begin: Callable, go_on: Callable, task: Task) -> Iterator[Posterior]:
    """Yield a fit at the first time, and at the others a chain that goes on from its end.

    Args:
        begin: From a target, data, steps of warm-up, number of draws and key to draws of theta, the last position,
            step size and mass.
        go_on: Makes a compiled chain for a problem, a form, a length and a number of draws.
        task: Its algorithm is `padded_` or `unpadded_` and a form.
    """
    padding, name = task.algorithm.split("_", 1)
    form, (num_warmup, num_draws), key = FORMS[name], size_of(task), jax.random.key(task.seed)
    length_of = (lambda time: power_of_two(task.times[-1])) if padding == "padded" else (lambda time: time)
    first, *others = task.times
    target, given = target_of(task.problem, form), data_of(task.until(first), length_of(first))
    theta, *end = begin(target, *given, num_warmup, num_draws, key)
    yield of_draws(theta)
    for time in others:
        ys, inputs = data_of(task.until(time), length_of(time))
        run = go_on(task.problem, form, len(ys), num_draws)
        yield of_draws(run(key, ys, inputs, *continued(*end, target.start(ys, inputs, key), first, time)))


def continued(
    position: Position, step_size: Any, mass: Position, start: Position, first: int, time: int
) -> tuple[Position, Any, Position]:
    """Return where and how a chain goes on when observations `first` to `time` are new.

    Their states begin as in a first fit, with the inverse mass of the last state that was observed before: with those
    that they had as unobserved states, every trajectory would diverge.
    """
    if "states" not in position:
        return position, step_size, mass
    old = {
        "states": np.asarray(position["states"]),
        "mass": np.asarray(mass["states"]).reshape(position["states"].shape),
    }
    places = np.arange(len(start["states"]))
    is_old = (places <= first) | (places > time)
    new = {
        "states": np.array(start["states"]),
        "mass": np.broadcast_to(old["mass"][first], start["states"].shape).copy(),
    }
    for name, leaf in new.items():
        leaf[is_old] = old[name][places[is_old]]
    return {**position, "states": new["states"]}, step_size, {**mass, "states": new["mass"].ravel()}


def nuts_algorithms(compiled: Callable, begin: Callable, go_on: Callable) -> dict[str, Algorithm]:
    """Return what an entry with NUTS serves: refits, and chains that go on, on data that are padded or not."""
    refits = {name: Algorithm(partial(refit, compiled), refits=True) for name in FORMS}
    padded_or_not = [f"{padding}_{name}" for padding in ("padded", "unpadded") for name in FORMS]
    return refits | {name: Algorithm(partial(keep_up, begin, go_on)) for name in padded_or_not}


def of_draws(theta: dict[str, jax.Array]) -> Posterior:
    """Return mean and sd of draws."""
    return moments({name: np.asarray(values, np.float64) for name, values in theta.items()})


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

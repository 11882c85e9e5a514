"""NUTS on theta and all states, in coordinates in which the states are nearly independent of each other and of theta.

At a pilot theta with coordinates z_0, the most probable path of the states and the curvature L L' there give

    x = path + J (z - z_0) + L'^{-1} e,    J = d path / d z,

so that e is nearly standard normal whatever z. This changes how well the chains mix and nothing else: the map is
linear, and its determinant is constant. The first pilot is the prior's middle, the second the mean of a short run with
the first. Where the data say little about the states, their spread moves with theta: then x in the formula is (state -
level) / scale with level and scale functions of theta.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

import paramfilter as pf
from benchmarks.contest.chains import NUM_CHAINS, Draws, nuts
from paramfilter.gaussian import known_gaussian
from paramfilter.types import Inputs, Theta

MAX_NEWTON_STEPS = 50
NUM_HALVINGS = 10
"""Of a step; the best length of these is taken."""
STEP_TOLERANCE = 1e-6
"""A path is found when the next step would gain fewer nats."""
SMALLEST_CURVATURE = 1e-3
"""Where the log density of the path is flat or bends upwards, this is put in its place."""
PILOT_SPREAD = 0.3
"""Of the pilot's first points around the prior's middle, in prior deviations; the last run's spread twice as wide as
the pilot's posterior."""

Units = Callable[[Theta], tuple[Array | float, Array | float]]
"""From theta to level and scale of the states, both scalars."""
PLAIN: Units = lambda theta: (0.0, 1.0)
JointLogDensity = Callable[[Float[Array, " param"], Float[Array, " path"]], Float[Array, ""]]
"""Of theta's coordinates and x_0..x_T in their units, laid out as one vector."""


@dataclass(frozen=True)
class Frame:
    """Where the states are given theta, to first order."""

    z: Float[Array, " param"]
    path: Float[Array, " path"]
    slope: Float[Array, "path param"]
    spread: Float[Array, "path path"]

    def states(self, z: Float[Array, " param"], e: Float[Array, " path"]) -> Float[Array, " path"]:
        return self.path + self.slope @ (z - self.z) + self.spread @ e


def joint_draws(
    model: pf.StateSpaceModel, ys: np.ndarray, inputs: Inputs, seed: int, num_draws: int, units: Units = PLAIN
) -> Draws:
    """Sample theta and x_0..x_T of a model with Gaussian transitions and return the draws of theta."""
    key_start, key_pilot, key_choose, key_run = jax.random.split(jax.random.key(3_000 + seed), 4)
    log_density = joint_log_density(model, ys, inputs, units)
    middle = jnp.mean(jnp.asarray(model.parameters.prior_draws), axis=0)
    spread = jax.vmap(model.parameters.sample)(jax.random.split(key_start, NUM_CHAINS)) - middle

    def run(key, frame, z, num_warmup, num_draws):
        start = {"z": z, "e": jnp.zeros((NUM_CHAINS, frame.path.size))}
        in_frame = lambda at: log_density(at["z"], frame.states(at["z"], at["e"]))
        return nuts(model, in_frame, start, key, num_warmup=num_warmup, num_draws=num_draws, acceptance=0.9)

    first = frame_at(log_density, middle, quiet_path(model, middle, inputs, len(ys), units))
    pilot = run(key_pilot, first, middle + PILOT_SPREAD * spread, 300, 150).z
    pilot = jnp.asarray(pilot.reshape(-1, pilot.shape[-1]))
    center = jnp.mean(pilot, axis=0)
    last = frame_at(log_density, center, first.path)
    chosen = jax.random.choice(key_choose, pilot, (NUM_CHAINS,), replace=False)
    return run(key_run, last, center + 2 * (chosen - center), 500, num_draws)


def joint_log_density(model: pf.StateSpaceModel, ys: np.ndarray, inputs: Inputs, units: Units) -> JointLogDensity:
    """Return log p(theta, x_{0:T}, y_{1:T}) in theta's coordinates."""

    def log_density(z, path):
        theta = model.parameters.constrain(z)
        shape = model.initial(theta, None).shape()
        level, scale = units(theta)
        xs = level + scale * jnp.reshape(path, (len(ys) + 1, *shape))
        move = lambda x_prev, x, inputs: model.transition_log_prob(theta, x_prev, x, inputs)
        look = lambda x, y, inputs: model.observation_log_prob(theta, x, y, inputs)
        scores = jax.vmap(move)(xs[:-1], xs[1:], inputs) + jax.vmap(look)(xs[1:], jnp.asarray(ys), inputs)
        first = model.initial_log_prob(theta, xs[0], None) + path.size * jnp.log(scale)
        return model.parameters.log_prior(z) + first + jnp.sum(scores)

    return log_density


def quiet_path(
    model: pf.StateSpaceModel, z: Float[Array, " param"], inputs: Inputs, num_steps: int, units: Units
) -> Float[Array, " path"]:
    """Return x_0..x_T without noise."""
    theta = model.parameters.constrain(z)
    law = model.initial(theta, None)
    start = jnp.broadcast_to(law.mean, law.shape())

    def step(x, inputs_now):
        x = jnp.reshape(known_gaussian(model.transition(theta, x, inputs_now)).mean, law.shape())
        return x, x

    _, xs = jax.lax.scan(step, start, inputs, length=num_steps)
    level, scale = units(theta)
    return (jnp.concatenate([jnp.ravel(start), jnp.ravel(xs)]) - level) / scale


def frame_at(log_density: JointLogDensity, z: Float[Array, " param"], path: Float[Array, " path"]) -> Frame:
    """Find the most probable path at a theta by Newton's method, its curvature, and how it moves with theta."""
    score = jax.jit(lambda path: log_density(z, path))
    slopes = jax.jit(jax.grad(lambda path: log_density(z, path)))
    curvature = jax.jit(jax.hessian(lambda path: log_density(z, path)))

    def spread_at(path):
        values, vectors = np.linalg.eigh(-np.asarray(curvature(path)))
        return vectors, np.maximum(np.abs(values), SMALLEST_CURVATURE)

    for _ in range(MAX_NEWTON_STEPS):
        vectors, values = spread_at(path)
        slope = np.asarray(slopes(path))
        step = vectors @ ((vectors.T @ slope) / values)
        if slope @ step < STEP_TOLERANCE:
            break
        tries = [path + 0.5**halvings * step for halvings in range(NUM_HALVINGS)]
        path = max(tries, key=lambda at: float(np.nan_to_num(score(at), nan=-np.inf)))
    vectors, values = spread_at(path)
    cross = np.asarray(jax.jit(jax.jacfwd(lambda z: jax.grad(log_density, argnums=1)(z, path)))(z))
    slope = vectors @ ((vectors.T @ cross) / values[:, None])
    return Frame(z, jnp.asarray(path), jnp.asarray(slope), jnp.asarray(vectors / np.sqrt(values)))

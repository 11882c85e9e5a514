"""One belief for the whole filter, by small filters at fixed values of theta: `python -m experiments.collocation`.

    python -m experiments.collocation [--noise 1] [--nodes 9] [--each 110] [--until 10000] [--runs 3] [--independent]

At the Chebyshev points of a window on the coefficient of an AR(1) there is one fully adapted particle filter each, all
with the same random numbers. Their log evidence, interpolated, is the log likelihood of the coefficient, and nothing
rides on an ancestry. The window follows the posterior; at a new point values come from the polynomial and particles
from their neighbours. Particles are kept in order, and the numbers that move them are a shifted lattice (sequential
quasi-Monte Carlo), or independent if asked for. What came of it is in docs/decisions/0017-collocated-filters.md.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from benchmarks.stages import DATA_SETS, autoregression
from jax.scipy.special import ndtri
from jaxtyping import Array, Float

from paramfilter.polynomials import chebyshev_points, interpolation_matrix

MARKS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
REACH = 3.5
"""Half width of the window in posterior sds."""
NARROWER = 0.8
OFF_CENTRE = 1.0
"""The window moves when the posterior's sd is below this share of the window's, or its mean so many sds away."""
MOST_AT_ONCE = 0.6
EVERY = 10
GOLDEN = 0.6180339887498949


@dataclass(frozen=True)
class Setting:
    """How many small filters, how many particles each, and whether their noise is a lattice."""

    num_nodes: int
    num_each: int
    is_even: bool
    noise: float


def uniforms(setting: Setting, key) -> tuple[Float[Array, " each"], Float[Array, " each"]]:
    """Return points for resampling, in order, and points for the moves."""
    key_resample, key_move = jax.random.split(key)
    places = jnp.arange(setting.num_each)
    resample = (places + jax.random.uniform(key_resample)) / setting.num_each
    even = (places * GOLDEN + jax.random.uniform(key_move)) % 1.0
    move = even if setting.is_even else jax.random.uniform(key_move, (setting.num_each,))
    return resample, jnp.clip(move, 1e-6, 1 - 1e-6)


def adapted_step(setting: Setting, phi, x, y, resample, move):
    """Take one observation in at one coefficient: resample by p(y | x), move by p(x' | x, y), sort."""
    variance = 1.0 + setting.noise**2
    scores = -0.5 * (y - phi * x) ** 2 / variance
    weights = jnp.exp(scores - jnp.max(scores))
    cumulative = jnp.cumsum(weights)
    chosen = jnp.minimum(jnp.searchsorted(cumulative / cumulative[-1], resample), len(x) - 1)
    gain = 1.0 / variance
    moved = phi * x[chosen] + gain * (y - phi * x[chosen]) + jnp.sqrt(1 - gain) * ndtri(move)
    return jnp.sort(moved), jnp.max(scores) + jnp.log(jnp.mean(weights))


def make_runner(setting: Setting, marks: tuple[int, ...]) -> Callable:
    """Return a compiled function from a key and data to posterior means and sds at the marks."""
    nodes = jnp.asarray(chebyshev_points(setting.num_nodes), float)
    grid = jnp.linspace(-1.0, 1.0, 401)
    to_grid = interpolation_matrix(setting.num_nodes, grid)

    def moments(center, width, values):
        phi = center + REACH * width * grid
        log_density = to_grid @ values - 0.5 * phi**2
        weights = jax.nn.softmax(log_density)
        mean = weights @ phi
        return mean, jnp.sqrt(weights @ (phi - mean) ** 2)

    def follow(carry):
        center, width, values, x = carry
        mean, sd = moments(center, width, values)
        new_width = jnp.maximum(1.05 * sd, MOST_AT_ONCE * width)
        places = jnp.clip((mean + REACH * new_width * nodes - center) / (REACH * width), -1.0, 1.0)
        particles = jax.vmap(lambda column: jnp.interp(places, nodes, column), 1, 1)(x)
        moved = (mean, new_width, interpolation_matrix(setting.num_nodes, places) @ values, particles)
        is_due = (sd < NARROWER * width) | (jnp.abs(mean - center) > OFF_CENTRE * sd)
        return jax.tree.map(lambda new, old: jnp.where(is_due, new, old), moved, carry)

    def step(index, carry, key, ys):
        center, width, values, x = carry
        resample, move = uniforms(setting, jax.random.fold_in(key, index))
        phi = center + REACH * width * nodes
        x, evidence = jax.vmap(lambda p, own: adapted_step(setting, p, own, ys[index], resample, move))(phi, x)
        values = values + evidence
        carry = (center, width, values - jnp.mean(values), x)
        return jax.lax.cond((index + 1) % EVERY == 0, follow, lambda same: same, carry)

    def run(key, ys):
        spread = ndtri((jnp.arange(setting.num_each) + 0.5) / setting.num_each)
        x = jnp.broadcast_to(spread, (setting.num_nodes, setting.num_each))
        carry, found, start = (jnp.zeros(()), jnp.ones(()), jnp.zeros(setting.num_nodes), x), [], 0
        for mark in marks:
            carry = jax.lax.fori_loop(start, mark, lambda i, c: step(i, c, key, ys), carry)
            found.append(jnp.stack(moments(*carry[:3])))
            start = mark
        return jnp.stack(found)

    return jax.jit(run)


def main() -> None:
    """Judge a setting against the Kalman filter with quadrature."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--noise", type=float, default=1.0)
    parser.add_argument("--nodes", type=int, default=9)
    parser.add_argument("--each", type=int, default=110)
    parser.add_argument("--until", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=3, help="on each data set")
    parser.add_argument("--independent", action="store_true", help="noise that is not a lattice")
    options = parser.parse_args()
    marks = tuple(mark for mark in MARKS if mark <= options.until)
    on = autoregression(options.noise, marks)
    run = make_runner(Setting(options.nodes, options.each, not options.independent, options.noise), marks)
    errors, ratios, seconds = [], [], []
    for seed in DATA_SETS:
        right = np.array([[float(part[0]) for part in on.exact[seed, mark]] for mark in marks])
        for turn in range(options.runs):
            began = time.process_time()
            found = np.asarray(run(jax.random.key(100 * seed + turn), on.data[seed]))
            seconds.append(time.process_time() - began)
            errors.append((found[:, 0] - right[:, 0]) / right[:, 1])
            ratios.append(found[:, 1] / right[:, 1])
    print("t          ", *marks)
    print("rms error  ", np.sqrt(np.mean(np.square(errors), axis=0)).round(3))
    print("mean error ", np.mean(errors, axis=0).round(3))
    print("sd ratio   ", np.median(ratios, axis=0).round(3))
    print("microseconds a step", round(1e6 * float(np.median(seconds)) / marks[-1], 1))


if __name__ == "__main__":
    main()

# /// script
# dependencies = ["smcs==0.2.0", "paramfilter"]
#
# [tool.contest.storvik]
# num_particles = [1000, 10000, 100000]
# problems = ["ar1"]
# reason = "the user writes the statistics; written for ar1"
# ///
"""Storvik's filter by `smcs` 0.2: `python -m benchmarks.contest enter smcs`.

The library asks the user for the statistics and for a draw of the parameters given them, so this is for `ar1` alone:
x' = phi x + N(0, q), y = x + N(0, r) with a normal prior of phi and inverse gamma priors of q and r. Given the states r
is drawn exactly; phi and q, independent in the prior, by one sweep of Gibbs sampling from the particle's last values.
The library shows a statistics update the new state only, so the statistics carry the old one. Defaults for the rest.

Its `log_likelihood` adds the sum of all weights at each step, and so counts what was said before whenever it has not
just resampled: the number is passed on as it is, and is wrong.
"""

from __future__ import annotations

from functools import cache, partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from smcs.algorithms.storvik import StorvikState, storvik_step

from benchmarks.contest.models.flat import model_of
from benchmarks.contest.task import Algorithm, Task, moments, serve
from paramfilter.distributions import log_prob_where_observed


class Statistics(NamedTuple):
    """What a particle knows of the past: sums over states, residuals of observations, and its last draw."""

    sum_past_squared: jax.Array
    sum_past_present: jax.Array
    sum_present_squared: jax.Array
    num_moves: jax.Array
    sum_residual_squared: jax.Array
    num_observed: jax.Array
    phi: jax.Array
    q: jax.Array
    x_prev: jax.Array


class Observed(NamedTuple):
    """A law that says nothing of a missing observation."""

    law: dist.Distribution

    def log_prob(self, y):
        return log_prob_where_observed(self.law, jnp.reshape(y, ()))


class Ar1:
    """The model as smcs wants it; a parameter is a vector (phi, q, r)."""

    state_dim = 1
    obs_dim = 1

    def initial_distribution(self, params):
        return dist.Normal(jnp.zeros(1), 1.0)

    def transition_distribution(self, params, state, t=None):
        return dist.Normal(params[0] * state, jnp.sqrt(params[1]))

    def emission_distribution(self, params, state, t=None):
        return Observed(dist.Normal(state[0], jnp.sqrt(params[2])))


def update(stats, state, y, param):
    """Add one move and one observation to the statistics."""
    old, x, y = Statistics(*stats), state[0], y[0]
    seen = ~jnp.isnan(y)
    new = Statistics(
        sum_past_squared=old.sum_past_squared + old.x_prev**2,
        sum_past_present=old.sum_past_present + old.x_prev * x,
        sum_present_squared=old.sum_present_squared + x**2,
        num_moves=old.num_moves + 1,
        sum_residual_squared=old.sum_residual_squared + jnp.where(seen, y - x, 0.0) ** 2,
        num_observed=old.num_observed + seen,
        phi=param[0],
        q=param[1],
        x_prev=x,
    )
    return jnp.stack(new)


def draw(prior, key, stats):
    """Draw (phi, q, r) given the statistics."""
    known = Statistics(*stats)
    key_q, key_phi, key_r = jax.random.split(key, 3)
    misfit = known.sum_present_squared - 2 * known.phi * known.sum_past_present + known.phi**2 * known.sum_past_squared
    q = inverse_gamma(key_q, prior["q"], known.num_moves, misfit)
    precision = 1 / prior["phi"].scale ** 2 + known.sum_past_squared / q
    mean = (prior["phi"].loc / prior["phi"].scale ** 2 + known.sum_past_present / q) / precision
    phi = mean + jax.random.normal(key_phi) / jnp.sqrt(precision)
    return jnp.stack([phi, q, inverse_gamma(key_r, prior["r"], known.num_observed, known.sum_residual_squared)])


def inverse_gamma(key, prior: dist.InverseGamma, num, sum_squared):
    """Draw a variance given the squares of so many normal numbers."""
    return dist.InverseGamma(prior.concentration + num / 2, prior.rate + sum_squared / 2).sample(key)


def storvik(task: Task):
    """Yield the posteriors of one run."""
    prior = model_of(task.problem).prior
    start, go_on, draw_all = compiled(task.problem, task.size["num_particles"])
    key_start, key_run, key_report = jax.random.split(jax.random.key(task.seed), 3)
    state, done = start(key_start), 0
    for time in task.times:
        ys = jnp.asarray(task.ys[done:time], jnp.float32)
        state = go_on(jax.random.fold_in(key_run, time), state, ys)
        done = time
        draws = np.asarray(draw_all(jax.random.fold_in(key_report, time), state.sufficient_stats), np.float64)
        log_weights = np.asarray(state.log_weights, np.float64)
        weights = np.exp(log_weights - log_weights.max())
        named = {name: draws[:, place] for place, name in enumerate(prior)}
        yield moments(named, weights, state.log_likelihood)


@cache
def compiled(problem: str, num_particles: int):
    """Return the functions that start the filter, run it over observations, and draw parameters."""
    prior = model_of(problem).prior
    assert list(prior) == ["phi", "q", "r"] and isinstance(prior["phi"], dist.Normal), prior
    assert all(isinstance(prior[name], dist.InverseGamma) for name in ("q", "r")), prior
    draw_one = partial(draw, prior)

    def start(key):
        key_x, key_phi, key_q = jax.random.split(key, 3)
        shape = (num_particles,)
        zeros, x = jnp.zeros(shape), jax.random.normal(key_x, shape)
        phi, q = prior["phi"].sample(key_phi, shape), prior["q"].sample(key_q, shape)
        return StorvikState(
            state_particles=x[:, None],
            sufficient_stats=jnp.stack(Statistics(zeros, zeros, zeros, zeros, zeros, zeros, phi, q, x), axis=1),
            log_weights=zeros,
            log_likelihood=jnp.zeros(()),
            step=jnp.zeros((), jnp.int32),
        )

    def go_on(key, state, ys):
        def step(state, now):
            key, y = now
            state, _ = storvik_step(key, state, y, Ar1(), update, draw_one, lambda param: param)
            return state, None

        return jax.lax.scan(step, state, (jax.random.split(key, len(ys)), ys))[0]

    def draw_all(key, stats):
        return jax.vmap(draw_one)(jax.random.split(key, num_particles), stats)

    return jax.jit(start), jax.jit(go_on), jax.jit(draw_all)


if __name__ == "__main__":
    serve({"storvik": Algorithm(storvik)})

"""Particle marginal Metropolis-Hastings: a Markov chain on theta whose likelihood comes from a particle filter.

The chain lives on (theta, u), where u is the seed of the filter's random numbers. A move proposes a theta nearby and a
fresh u; accepted by the estimated likelihoods, it leaves the exact posterior of theta unchanged, whatever the number of
particles. Too few of them, though, and the chain sticks: take so many that the log-likelihood has an sd of about one.

C. Andrieu, A. Doucet and R. Holenstein, Particle Markov chain Monte Carlo methods, JRSS B 72 (2010).
"""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

from paramfilter.errors import extra
from paramfilter.model import StateSpaceModel
from paramfilter.references.bootstrap import bootstrap_filter
from paramfilter.references.draws import DrawPosterior
from paramfilter.references.posterior import natural
from paramfilter.references.problem import Problem, problem_of
from paramfilter.types import Inputs, KeyArray, Observation

EXTRA = "references"
NUM_ROUNDS = 4
"""Of the warm-up; after each the step is fitted to where the chains are."""
ROUGH_STEP = 0.3
"""Of the first round, in prior sds."""
NUM_STARTS = 16
"""Draws of the prior among which a chain looks for its start."""


def pmmh(
    key: KeyArray,
    model: StateSpaceModel,
    ys: Observation,
    inputs: Inputs = None,
    initial_inputs: Inputs = None,
    *,
    num_particles: int = 500,
    num_draws: int = 2000,
    num_warmup: int = 1000,
    num_chains: int = 4,
) -> DrawPosterior:
    """Draw from the posterior of theta; the cost is (num_warmup + num_draws) runs of a particle filter a chain.

    Args:
        key: A typed key.
        model: The model.
        ys: Observations with a leading axis of time; NaN where missing.
        inputs: Inputs with a leading axis of time, or None.
        initial_inputs: What `initial` is told, or None.
        num_particles: Of one particle filter.
        num_draws: Of each chain.
        num_warmup: Draws of each chain that are thrown away, and by which the steps of the chains are fitted.
        num_chains: Chains, each from a draw of the prior.

    Returns:
        Draws with equal weights, their standard error and R-hat.
    """
    with jax.enable_x64(True):
        problem = problem_of(model, ys, inputs, initial_inputs)
        run = _chain(problem, num_particles)
        key_start, *keys = jax.random.split(key, NUM_ROUNDS + 2)
        scale = model.parameters.prior_sd
        z = jnp.asarray(_best_of_prior(problem, key_start, num_particles, num_chains))
        factor = ROUGH_STEP * np.diag(scale)
        for key_round in keys[:-1]:
            draws, _ = run(jax.random.split(key_round, num_chains), z, factor, num_warmup // NUM_ROUNDS)
            z, factor = draws[:, -1], fitted_step(draws.reshape(-1, draws.shape[-1]), scale)
        draws, accepted = run(jax.random.split(keys[-1], num_chains), z, factor, num_draws)
        theta = natural(model.parameters, draws.reshape(-1, draws.shape[-1]))
    chains = {name: values.reshape(num_chains, num_draws, -1) for name, values in theta.items()}
    return DrawPosterior(
        model.parameters,
        draws.reshape(-1, draws.shape[-1]),
        np.full(num_chains * num_draws, -np.log(num_chains * num_draws)),
        standard_error=max(float(np.max(effective_sample_size(values) ** -0.5)) for values in chains.values()),
        rhat=max(float(np.max(split_gelman_rubin(values))) for values in chains.values()),
        acceptance=float(np.mean(accepted)),
    )


def fitted_step(z: Float[np.ndarray, "draw param"], scale: Float[np.ndarray, " param"]) -> Float[np.ndarray, "param _"]:
    """Return a factor of the covariance of a random walk that suits these draws: 2.38^2 / p times theirs.

    G. Roberts, A. Gelman and W. Gilks, Weak convergence and optimal scaling of random walk Metropolis algorithms, Ann.
    Appl. Probab. 7 (1997).
    """
    covariance = np.atleast_2d(np.cov(z.T)) + np.diag(1e-6 * scale) ** 2
    return 2.38 / z.shape[1] ** 0.5 * np.linalg.cholesky(covariance)


def _log_density(problem: Problem, num_particles: int) -> Callable[[Array, KeyArray], Array]:
    def log_density(z, seed):
        rows = jnp.broadcast_to(z, (num_particles, z.shape[0]))
        estimate = problem.model.parameters.log_prior(z) + bootstrap_filter(problem, seed, rows).log_likelihood
        return jnp.where(jnp.isnan(estimate), -jnp.inf, estimate)

    return log_density


def _best_of_prior(problem: Problem, key: KeyArray, num_particles: int, num_chains: int) -> np.ndarray:
    """Return the best of some prior draws for each chain: one that starts where y is impossible never moves."""
    key_draw, key_filter = jax.random.split(key)
    z = jax.vmap(problem.model.parameters.sample)(jax.random.split(key_draw, NUM_STARTS * num_chains))
    log_density = _log_density(problem, num_particles)
    at_one = lambda pair: log_density(pair[0], pair[1])
    scores = jax.jit(lambda *pairs: jax.lax.map(at_one, pairs))(z, jax.random.split(key_filter, len(z)))
    best = np.argmax(np.asarray(scores).reshape(num_chains, NUM_STARTS), axis=1)
    return np.asarray(z).reshape(num_chains, NUM_STARTS, -1)[np.arange(num_chains), best]


def _chain(problem: Problem, num_particles: int) -> Callable:
    """Return the function that runs all chains for some draws, from given places with a given step."""
    blackjax = extra("blackjax", EXTRA)
    log_density = _log_density(problem, num_particles)

    def one(key, z, factor, num_draws):
        def propose(key, position):
            key_z, seed = jax.random.split(key)
            return position[0] + factor @ jax.random.normal(key_z, position[0].shape), seed

        sampler = blackjax.rmh(lambda position: log_density(*position), propose)

        def step(state, key):
            state, info = sampler.step(key, state)
            return state, (state.position[0], info.is_accepted)

        key_first, key_steps = jax.random.split(key)
        state = sampler.init((z, key_first))
        return jax.lax.scan(step, state, jax.random.split(key_steps, num_draws))[1]

    # one chain after the other: its particles stay in the cache
    all_chains = lambda keys, z, factor, num_draws: jax.lax.map(
        lambda pair: one(pair[0], pair[1], factor, num_draws), (keys, z)
    )
    compiled = jax.jit(all_chains, static_argnums=3)

    def run(keys, z, factor, num_draws):
        draws, accepted = compiled(keys, z, jnp.asarray(factor), num_draws)
        return np.asarray(draws), np.asarray(accepted)

    return run

"""Particle marginal Metropolis-Hastings: a Markov chain on theta whose likelihood comes from a particle filter.

The chain lives on (theta, u), where u is the seed of the filter's random numbers. A move proposes a theta nearby and a
fresh u; accepted by the estimated likelihoods, it leaves the exact posterior of theta unchanged, whatever the number of
particles. Too few of them, though, and the chain sticks: take so many that the log-likelihood has an sd of about one.

C. Andrieu, A. Doucet and R. Holenstein, Particle Markov chain Monte Carlo methods, JRSS B 72 (2010).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin

from paramfilter.labels import prior_in_brief
from paramfilter.model import StateSpaceModel
from paramfilter.parameters import Parameters
from paramfilter.references.bootstrap import bootstrap_filter
from paramfilter.references.posterior import natural
from paramfilter.references.problem import Problem, problem_of
from paramfilter.types import Inputs, KeyArray, Observation

NUM_ROUNDS = 4
"""Of the warm-up; after each the step is fitted to where the chains are."""
ROUGH_STEP = 0.3
"""Of the first round, in prior sds."""
NUM_STARTS = 16
"""Draws of the prior among which a chain looks for its start."""


@dataclass(frozen=True, eq=False)
class DrawPosterior:
    """Draws from p(theta | y_{1:T}), in NumPy float64.

    Args:
        parameters: Names and supports of theta.
        theta: The draws on the natural scale, by name, with a leading axis of draws.
        standard_error: Of the posterior means, in posterior sds, the worst over the parameters.
        rhat: Split R-hat of the chains, the worst over the parameters.
        acceptance: The share of proposed moves that were made.
    """

    parameters: Parameters
    theta: dict[str, np.ndarray]
    standard_error: float
    rhat: float
    acceptance: float

    def __repr__(self) -> str:
        num_draws = len(self.theta[self.parameters.names[0]])
        return f"DrawPosterior({prior_in_brief(self.parameters.prior)}; {num_draws} draws)"

    def mean(self) -> dict[str, np.ndarray]:
        """Return the posterior mean of each parameter, on its natural scale."""
        return {name: np.asarray(np.mean(values, axis=0)) for name, values in self.theta.items()}

    def sd(self) -> dict[str, np.ndarray]:
        """Return the posterior standard deviation of each parameter."""
        return {name: np.asarray(np.std(values, axis=0)) for name, values in self.theta.items()}

    def quantile(self, q: float | Float[np.ndarray, " q"]) -> dict[str, np.ndarray]:
        """Return quantiles of each parameter; an array of shares gives a leading axis."""
        return {name: np.asarray(np.quantile(values, q, axis=0)) for name, values in self.theta.items()}

    def sample(self, key: KeyArray, num_draws: int) -> dict[str, np.ndarray]:
        """Choose draws, each parameter with a leading axis of length num_draws."""
        chosen = np.asarray(jax.random.randint(key, (num_draws,), 0, len(self.theta[self.parameters.names[0]])))
        return {name: values[chosen] for name, values in self.theta.items()}


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
        initial_inputs: What `initial` is given, or None.
        num_particles: Of one particle filter.
        num_draws: Of each chain.
        num_warmup: Draws of each chain that are thrown away, and by which the steps of the chains are fitted.
        num_chains: Chains, each from a draw of the prior.

    Returns:
        The draws, their standard error and R-hat.
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
            z, factor = draws[:, -1], _fitted_step(draws.reshape(-1, draws.shape[-1]), scale)
        draws, accepted = run(jax.random.split(keys[-1], num_chains), z, factor, num_draws)
        theta = natural(model.parameters, draws.reshape(-1, draws.shape[-1]))
    chains = {name: values.reshape(num_chains, num_draws, -1) for name, values in theta.items()}
    return DrawPosterior(
        model.parameters,
        theta,
        standard_error=max(float(np.max(effective_sample_size(values) ** -0.5)) for values in chains.values()),
        rhat=max(float(np.max(split_gelman_rubin(values))) for values in chains.values()),
        acceptance=float(np.mean(accepted)),
    )


def _fitted_step(
    z: Float[np.ndarray, "draw param"], scale: Float[np.ndarray, " param"]
) -> Float[np.ndarray, "param _"]:
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
    log_density = _log_density(problem, num_particles)

    def one(key, z, factor, num_draws):
        def move(carry, key):
            z, score = carry
            key_z, key_seed, key_accept = jax.random.split(key, 3)
            z_new = z + factor @ jax.random.normal(key_z, z.shape)
            score_new = log_density(z_new, key_seed)
            is_accepted = jnp.log(jax.random.uniform(key_accept)) < score_new - score
            z, score = jax.tree.map(lambda new, old: jnp.where(is_accepted, new, old), (z_new, score_new), (z, score))
            return (z, score), (z, is_accepted)

        key_first, key_steps = jax.random.split(key)
        return jax.lax.scan(move, (z, log_density(z, key_first)), jax.random.split(key_steps, num_draws))[1]

    def all_chains(keys, z, factor, num_draws):
        # one chain after the other: its particles stay in the cache
        return jax.lax.map(lambda pair: one(pair[0], pair[1], factor, num_draws), (keys, z))

    compiled = jax.jit(all_chains, static_argnums=3)
    return lambda keys, z, factor, num_draws: map(np.asarray, compiled(keys, z, jnp.asarray(factor), num_draws))

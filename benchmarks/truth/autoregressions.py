"""Problems with an autoregressive state: Gaussian, Student and Poisson observations, and stochastic volatility."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from scipy import special

import paramfilter as pf
from benchmarks.truth.likelihoods import WIDTH_OF_GRID, grid_ar1, kalman_ar1
from benchmarks.truth.priors import JointPrior, beta, half_normal, log_normal, normal, uniform
from benchmarks.truth.problem import LONG, ON_A_GRID, Effort, Problem, generator

AR1_PRIOR = JointPrior({"phi": uniform(-1.0, 1.0), "q": log_normal(0.0, 1.0), "r": log_normal(0.0, 1.0)})
AR1_TRUTH = {"phi": 0.8, "q": 1.0, "r": 1.0}


def autoregression(observation: Callable, name: str) -> pf.StateSpaceModel:
    """Make x' = phi x + N(0, q^2) with x_0 ~ N(0, 1) and a law of y around x with scale r."""
    return pf.StateSpaceModel(
        prior=AR1_PRIOR.numpyro,
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, theta["q"]),
        observation=lambda theta, x, inputs: observation(x, theta["r"]),
        name=name,
    )


def autoregressive_states(random, phi: float, q: float, num_steps: int, x: float) -> np.ndarray:
    """Draw x_1..x_T after x_0 = x."""
    xs = np.empty(num_steps)
    for t, noise in enumerate(random.normal(size=num_steps)):
        xs[t] = x = phi * x + q * noise
    return xs


def ar1_data(
    seed: int,
    stream: int,
    num_steps: int,
    truth: Mapping[str, float] = AR1_TRUTH,
    missing: float = 0.0,
    outlier: float = 0.0,
) -> np.ndarray:
    """Draw observations, of which each is missing with some probability.

    The outlier is added to the observation in the middle, in stationary sds of y.
    """
    random = generator(stream, seed)
    xs = autoregressive_states(random, truth["phi"], truth["q"], num_steps, random.normal())
    ys = xs + truth["r"] * random.normal(size=num_steps)
    ys[random.uniform(size=num_steps) < missing] = np.nan
    if outlier:
        ys[num_steps // 2] += outlier * np.sqrt(truth["q"] ** 2 / (1 - truth["phi"] ** 2) + truth["r"] ** 2)
    return ys


def ar1(
    name: str,
    stream: int,
    num_steps: int,
    phi: float = 0.8,
    q: float = 1.0,
    r: float = 1.0,
    missing: float = 0.0,
    outlier: float = 0.0,
) -> Problem:
    """Make one problem of the family."""
    truth = {"phi": phi, "q": q, "r": r}
    return Problem(
        name,
        AR1_PRIOR,
        truth,
        partial(autoregression, dist.Normal, "ar1"),
        lambda seed: ar1_data(seed, stream, num_steps, truth, missing, outlier),
        lambda thetas, ys, fineness: kalman_ar1(thetas[:, 0], thetas[:, 1], thetas[:, 2], ys),
        LONG if num_steps > 1000 else Effort(),
    )


FREEDOM = 4.0
LOG_TOP = float(special.gammaln((FREEDOM + 1) / 2) - special.gammaln(FREEDOM / 2) - 0.5 * np.log(FREEDOM * np.pi))
"""The log density of a standard t distribution at 0."""


def student_t_data(seed: int) -> np.ndarray:
    random = generator(11, seed)
    xs = autoregressive_states(random, AR1_TRUTH["phi"], AR1_TRUTH["q"], 300, random.normal())
    return xs + AR1_TRUTH["r"] * random.standard_t(FREEDOM, size=300)


def student_t_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    phi, q, r = thetas.T
    stationary = q / np.sqrt(1 - phi**2)
    reach = np.max(np.abs(ys)) + 10 * (q + r)  # data bound the state where phi is near 1
    half_width = np.maximum(WIDTH_OF_GRID, np.minimum(WIDTH_OF_GRID * stationary, reach))
    curvature = (FREEDOM + 1) / FREEDOM / r**2  # of the log density of y at its mode

    def observation(u, rows):
        scale = r[rows, None]
        constant = LOG_TOP - np.log(scale)
        return lambda y: constant - 0.5 * (FREEDOM + 1) * np.log1p(((y - u) / scale) ** 2 / FREEDOM)

    width = 1 / np.sqrt((1 + phi**2) / q**2 + curvature)
    return grid_ar1(phi, q, np.ones_like(phi), -half_width, half_width, width, observation, ys, fineness)


STUDENT_T = Problem(
    "student_t",
    AR1_PRIOR,
    AR1_TRUTH,
    partial(autoregression, partial(dist.StudentT, FREEDOM), "student_t"),
    student_t_data,
    student_t_log_likelihood,
    ON_A_GRID,
)


def around_mu(prior: JointPrior, observation: Callable, name: str) -> pf.StateSpaceModel:
    """Make x' = mu + phi (x - mu) + N(0, sigma^2), which starts in its stationary distribution."""

    def transition(theta, x, inputs):
        return dist.Normal(theta["mu"] + theta["phi"] * (x - theta["mu"]), theta["sigma"])

    return pf.StateSpaceModel(
        prior=prior.numpyro,
        initial=lambda theta, inputs: dist.Normal(theta["mu"], theta["sigma"] / jnp.sqrt(1 - theta["phi"] ** 2)),
        transition=transition,
        observation=lambda theta, x, inputs: observation(x),
        name=name,
    )


def states_around_mu(random, truth: Mapping[str, float], num_steps: int) -> np.ndarray:
    """Draw x_1..x_T."""
    first = truth["sigma"] / np.sqrt(1 - truth["phi"] ** 2) * random.normal()
    return truth["mu"] + autoregressive_states(random, truth["phi"], truth["sigma"], num_steps, first)


def ends(mu: np.ndarray, stationary: np.ndarray, limits: tuple[float, float]) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of a grid of x - mu: wide enough for the stationary distribution, or for what the data allow.

    As phi nears 1 the stationary distribution is wide, and all states that explain the data lie within the limits.
    """
    reach = WIDTH_OF_GRID * stationary
    low, high = np.maximum(-reach, limits[0] - mu), np.minimum(reach, limits[1] - mu)
    return np.minimum(low, high - 1.0), high


COUNTS_PRIOR = JointPrior({"mu": normal(0.0, 1.0), "phi": uniform(0.0, 1.0), "sigma": half_normal(1.0)})
COUNTS_TRUTH = {"mu": 1.0, "phi": 0.9, "sigma": 0.3}


def counts_data(seed: int) -> np.ndarray:
    random = generator(13, seed)
    return random.poisson(np.exp(states_around_mu(random, COUNTS_TRUTH, 300))).astype(float)


def counts_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    mu, phi, sigma = thetas.T
    stationary = sigma / np.sqrt(1 - phi**2)

    def observation(u, rows):
        log_rate = mu[rows, None] + u
        rate = np.exp(log_rate)
        return lambda y: y * log_rate - rate - special.gammaln(y + 1)

    # log p(y | x) has curvature exp(x), which is y at its mode
    width = 1 / np.sqrt((1 + phi**2) / sigma**2 + np.max(ys))
    low, high = ends(mu, stationary, (-12.0, np.log(np.max(ys)) + 5))
    return grid_ar1(phi, sigma, stationary, low, high, width, observation, ys, fineness)


COUNTS = Problem(
    "counts",
    COUNTS_PRIOR,
    COUNTS_TRUTH,
    partial(around_mu, COUNTS_PRIOR, lambda x: dist.Poisson(jnp.exp(x)), "counts"),
    counts_data,
    counts_log_likelihood,
    ON_A_GRID,
)


SV_PRIOR = JointPrior({"mu": normal(0.0, 2.0), "phi": beta(20.0, 1.5), "sigma": half_normal(0.5)})
SV_TRUTH = {"mu": -1.0, "phi": 0.95, "sigma": 0.25}


def sv_data(seed: int) -> np.ndarray:
    random = generator(14, seed)
    return np.exp(states_around_mu(random, SV_TRUTH, 500) / 2) * random.normal(size=500)


def sv_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    mu, phi, sigma = thetas.T
    stationary = sigma / np.sqrt(1 - phi**2)

    def observation(u, rows):
        x = mu[rows, None] + u
        constant, half_precision = -0.5 * (x + np.log(2 * np.pi)), 0.5 * np.exp(-x)
        return lambda y: constant - y**2 * half_precision

    width = 1 / np.sqrt((1 + phi**2) / sigma**2 + 0.5)  # log p(y | x) has curvature 1/2 at its mode
    low, high = ends(mu, stationary, (-14.0, 12.0))
    return grid_ar1(phi, sigma, stationary, low, high, width, observation, ys, fineness)


SV = Problem(
    "sv",
    SV_PRIOR,
    SV_TRUTH,
    partial(around_mu, SV_PRIOR, lambda x: dist.Normal(0.0, jnp.exp(x / 2)), "sv"),
    sv_data,
    sv_log_likelihood,
    ON_A_GRID,
)

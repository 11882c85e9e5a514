"""Problems with other states: level, slope and cycle; the sinusoidal model; predators and prey."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from benchmarks.truth.likelihoods import gaussian_plane, grid_plane, grid_sin, kalman, kalman_of_theta
from benchmarks.truth.priors import JointPrior, half_normal, log_normal, normal
from benchmarks.truth.problem import ON_A_GRID, Effort, Problem, generator

STRUCTURAL_PRIOR = JointPrior({name: half_normal(1.0) for name in ("level", "slope", "cycle", "noise")})
STRUCTURAL_TRUTH = {"level": 0.3, "slope": 0.05, "cycle": 0.5, "noise": 0.5}
STRUCTURAL_TRANSITION = np.array([[1.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 0.7]])
STRUCTURAL_START = np.array([1.0, 0.1, 1.0])
OBSERVED = np.array([1.0, 0.0, 1.0])
"""Level and cycle are seen together."""


def structural_model() -> pf.StateSpaceModel:
    """Make a random-walk level with a random-walk slope, a cycle with autocorrelation 0.7, and noise."""

    def transition(theta, x, inputs):
        sds = jnp.stack([theta["level"], theta["slope"], theta["cycle"]])
        return dist.Normal(jnp.asarray(STRUCTURAL_TRANSITION) @ x, sds).to_event(1)

    return pf.StateSpaceModel(
        prior=STRUCTURAL_PRIOR.numpyro,
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(3), jnp.asarray(STRUCTURAL_START)).to_event(1),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x[0] + x[2], theta["noise"]),
        name="structural",
    )


def structural_data(seed: int) -> np.ndarray:
    random = generator(12, seed)
    *process_sds, noise_sd = STRUCTURAL_TRUTH.values()
    x = STRUCTURAL_START * random.normal(size=3)
    ys = np.empty(300)
    for t in range(300):
        x = STRUCTURAL_TRANSITION @ x + np.array(process_sds) * random.normal(size=3)
        ys[t] = OBSERVED @ x + noise_sd * random.normal()
    return ys


def structural_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    return kalman(STRUCTURAL_TRANSITION, thetas[:, :3].T, OBSERVED, thetas[:, 3], STRUCTURAL_START, ys)


STRUCTURAL = Problem(
    "structural",
    STRUCTURAL_PRIOR,
    STRUCTURAL_TRUTH,
    structural_model,
    structural_data,
    structural_log_likelihood,
)


TRACKING_PRIOR = JointPrior(
    {"q": half_normal(0.5), "r_1": half_normal(2.0), "r_2": half_normal(2.0), "bias": normal(0.0, 2.0)}
)
TRACKING_TRUTH = {"q": 0.15, "r_1": 1.0, "r_2": 0.5, "bias": 0.5}
DRIFT, SHAKE = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1 / 3, 1 / 2], [1 / 2, 1.0]])
TRACKING_START = np.array([1.0, 0.5])


def tracking_model() -> pf.StateSpaceModel:
    """Make a target that nearly keeps its velocity, seen by two sensors, one of which is biased.

    q is the sd of its acceleration, r the sds of the sensors.
    """

    def observation(theta, x, inputs):
        means, sds = jnp.stack([x[0], x[0] + theta["bias"]]), jnp.stack([theta["r_1"], theta["r_2"]])
        return dist.Normal(means, sds).to_event(1)

    return pf.StateSpaceModel(
        prior=TRACKING_PRIOR.numpyro,
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), jnp.asarray(TRACKING_START)).to_event(1),
        transition=lambda theta, x, inputs: dist.MultivariateNormal(
            jnp.asarray(DRIFT) @ x, theta["q"] ** 2 * jnp.asarray(SHAKE)
        ),
        observation=observation,
        name="tracking",
    )


def tracking_data(seed: int, stream: int = 30, num_steps: int = 300) -> np.ndarray:
    random, (q, r_1, r_2, bias) = generator(stream, seed), TRACKING_TRUTH.values()
    x, factor = TRACKING_START * random.normal(size=2), q * np.linalg.cholesky(SHAKE)
    ys = np.empty((num_steps, 2))
    for t in range(num_steps):
        x = DRIFT @ x + factor @ random.normal(size=2)
        ys[t] = x[0] + np.array([0.0, bias]) + np.array([r_1, r_2]) * random.normal(size=2)
    return ys


def tracking_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    q, r_1, r_2, bias = thetas.T
    for_all = lambda array: np.repeat(np.asarray(array, float)[..., None], len(thetas), axis=-1)
    still = np.zeros((2, len(thetas)))
    return kalman_of_theta(
        for_all(DRIFT),
        still,
        SHAKE[:, :, None] * q**2,
        for_all([[1.0, 0.0], [1.0, 0.0]]),
        np.stack([np.zeros_like(bias), bias]),
        np.stack([r_1, r_2]),
        still,
        for_all(np.diag(TRACKING_START**2)),
        ys,
    )


TRACKING = Problem("tracking", TRACKING_PRIOR, TRACKING_TRUTH, tracking_model, tracking_data, tracking_log_likelihood)


SIN_PRIOR = JointPrior({"theta": normal(0.0, 0.2)})
SIN_NOISE = 0.1


def sin_model(prior: JointPrior = SIN_PRIOR) -> pf.StateSpaceModel:
    """Make the model of `pf.models.sin`, with its default prior unless another is given."""
    return pf.StateSpaceModel(
        prior=prior.numpyro,
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(jnp.sin(theta["theta"] * x), 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, SIN_NOISE),
        name="sin",
    )


def sin_data(seed: int) -> np.ndarray:
    random = generator(15, seed)
    x, xs = random.normal(), np.empty(500)
    for t, noise in enumerate(random.normal(size=500)):
        xs[t] = x = np.sin(0.7 * x) + noise
    return xs + SIN_NOISE * random.normal(size=500)


SIN = Problem(
    "sin",
    SIN_PRIOR,
    {"theta": 0.7},
    sin_model,
    sin_data,
    lambda thetas, ys, fineness: grid_sin(thetas[:, 0], SIN_NOISE, ys, fineness),
    ON_A_GRID,
)


PREY_PRIOR = JointPrior(
    {
        "growth": log_normal(0.0, 0.5),
        "predation": log_normal(-0.7, 0.5),
        "efficiency": log_normal(-1.2, 0.5),
        "death": log_normal(-0.5, 0.5),
        "sigma": log_normal(-2.0, 0.7),
    }
)
PREY_TRUTH = {"growth": 1.0, "predation": 0.5, "efficiency": 0.3, "death": 0.6, "sigma": 0.08}
PREY_NOISE = 0.2
PREY_START = (0.7, 0.5)
"""Mean and sd of both log populations at the start; the equilibrium of the true rates is log 2 for both."""
DT, NUM_SUBSTEPS = 0.05, 5
"""An observation comes after five Euler steps: about 32 a period."""
COARSE = 0.5
"""Below this fineness the likelihood is that of Gaussian moments."""
LOG_CAP = 4.0
"""Populations act on each other as if they were at most e^4, so that no draw from the prior overflows."""


def prey_drift(numbers, u, v, growth, predation, efficiency, death):
    """Return the log populations of prey and predators at the next observation, without noise."""
    for _ in range(NUM_SUBSTEPS):
        prey, predators = numbers.exp(numbers.minimum(u, LOG_CAP)), numbers.exp(numbers.minimum(v, LOG_CAP))
        u, v = u + DT * (growth - predation * predators), v + DT * (efficiency * prey - death)
    return u, v


def lotka_volterra_model() -> pf.StateSpaceModel:
    """Make the discrete-time stochastic Lotka-Volterra model of two log populations, both observed with noise."""

    def transition(theta, x, inputs):
        rates = [theta[name] for name in ("growth", "predation", "efficiency", "death")]
        return dist.Normal(jnp.stack(prey_drift(jnp, x[0], x[1], *rates)), theta["sigma"]).to_event(1)

    return pf.StateSpaceModel(
        prior=PREY_PRIOR.numpyro,
        initial=lambda theta, inputs: dist.Normal(jnp.full(2, PREY_START[0]), PREY_START[1]).to_event(1),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x, PREY_NOISE).to_event(1),
        name="lotka_volterra",
    )


def lotka_volterra_data(seed: int) -> np.ndarray:
    random = generator(16, seed)
    *rates, sigma = PREY_TRUTH.values()
    x, ys = PREY_START[0] + PREY_START[1] * random.normal(size=2), np.empty((100, 2))
    for t in range(100):
        x = np.array(prey_drift(np, x[0], x[1], *rates)) + sigma * random.normal(size=2)
        ys[t] = x + PREY_NOISE * random.normal(size=2)
    return ys


def lotka_volterra_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    def drift(rows, a, b):
        return prey_drift(np, a, b, *thetas[rows, :4].T[:, :, None])

    if fineness < COARSE:
        return gaussian_plane(drift, thetas[:, 4], PREY_NOISE, *PREY_START, ys)
    return grid_plane(drift, thetas[:, 4], PREY_NOISE, *PREY_START, ys, fineness)


LOTKA_VOLTERRA = Problem(
    "lotka_volterra",
    PREY_PRIOR,
    PREY_TRUTH,
    lotka_volterra_model,
    lotka_volterra_data,
    lotka_volterra_log_likelihood,
    Effort(num_adapt=2048, num_final=1024, num_repeats=1, fineness=0.0, least_ess=500.0, most_error=0.06),
)

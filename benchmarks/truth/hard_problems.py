"""Problems that are made hard on purpose: posteriors with odd shapes, many parameters, data that no parameters explain.

All but `bimodal_sin` and `counts_overdispersed` are linear and Gaussian given theta, so that their likelihood is exact.
Where the model did not make the data, `truth` is a value of theta near the posterior.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from benchmarks.truth.autoregressions import (
    AR1_TRUTH,
    COUNTS,
    COUNTS_TRUTH,
    ar1,
    ar1_data,
    autoregressive_states,
    states_around_mu,
)
from benchmarks.truth.likelihoods import grid_sin, independent, kalman_of_theta
from benchmarks.truth.other_models import SIN_NOISE, sin_model
from benchmarks.truth.priors import JointPrior, half_normal, log_normal, normal, uniform
from benchmarks.truth.problem import Effort, Problem, generator


def kalman_of_number(ys, phi, q, r, drift=0.0, offset=0.0, initial_mean=0.0, initial_sd=1.0) -> np.ndarray:
    """Return log p(y) of x' = phi x + drift + N(0, q^2), y = x + offset + N(0, r^2); each is a number or (theta,)."""
    numbers = np.broadcast_arrays(phi, drift, q, offset, r, initial_mean, initial_sd)
    phi, drift, q, offset, r, initial_mean, initial_sd = (np.array(part, float)[None] for part in numbers)
    one = np.ones_like(phi)[None]
    process, initial = independent(q), independent(initial_sd)
    return kalman_of_theta(phi[None], drift, process, one, offset, r, initial_mean, initial, ys[:, None])


FUNNEL_PRIOR = JointPrior({"s": normal(0.0, 1.5), "mu": normal(0.0, 3.0)})
FUNNEL_TRUTH = {"s": -2.0, "mu": 0.5}
FUNNEL_PHI, FUNNEL_NOISE = 0.5, 0.5


def funnel_model() -> pf.StateSpaceModel:
    """Make x' = 0.5 x + N(0, e^2s), y = x + mu e^s + N(0, 0.5^2): mu is an offset in units of the process sd.

    The data say that the offset mu e^s is small. Where s is low, that leaves mu as wide as its prior; where s is high,
    mu is known to a few tenths.
    """
    return pf.StateSpaceModel(
        prior=FUNNEL_PRIOR.numpyro,
        initial=lambda theta, inputs: dist.Normal(0.0, jnp.exp(theta["s"])),
        transition=lambda theta, x, inputs: dist.Normal(FUNNEL_PHI * x, jnp.exp(theta["s"])),
        observation=lambda theta, x, inputs: dist.Normal(x + theta["mu"] * jnp.exp(theta["s"]), FUNNEL_NOISE),
        name="funnel",
    )


def funnel_data(seed: int) -> np.ndarray:
    random = generator(21, seed)
    q = np.exp(FUNNEL_TRUTH["s"])
    xs = autoregressive_states(random, FUNNEL_PHI, q, 30, q * random.normal())
    return xs + FUNNEL_TRUTH["mu"] * q + FUNNEL_NOISE * random.normal(size=30)


def funnel_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    s, mu = thetas.T
    q = np.exp(s)
    return kalman_of_number(ys, FUNNEL_PHI, q, FUNNEL_NOISE, offset=mu * q, initial_sd=q)


FUNNEL = Problem("funnel", FUNNEL_PRIOR, FUNNEL_TRUTH, funnel_model, funnel_data, funnel_log_likelihood)


RIDGE_PRIOR = JointPrior({"a": normal(0.0, 2.0), "b": half_normal(1.5), "q": log_normal(0.0, 1.0)})
RIDGE_TRUTH = {"a": 1.0, "b": 1.0, "q": 0.5}
RIDGE_PHI, RIDGE_NOISE = 0.8, 0.5


def ridge_model() -> pf.StateSpaceModel:
    """Make x' = 0.8 x + a b + N(0, q^2), y = x + N(0, 0.5^2): the data know a b, and only the priors know a and b.

    With b > 0 and a on the whole line, the ridge is curved in the coordinates a and log b as well.
    """

    def transition(theta, x, inputs):
        return dist.Normal(RIDGE_PHI * x + theta["a"] * theta["b"], theta["q"])

    return pf.StateSpaceModel(
        prior=RIDGE_PRIOR.numpyro,
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x, RIDGE_NOISE),
        name="ridge",
    )


def ridge_data(seed: int) -> np.ndarray:
    random = generator(22, seed)
    x, xs = random.normal(), np.empty(200)
    for t, noise in enumerate(random.normal(size=200)):
        xs[t] = x = RIDGE_PHI * x + RIDGE_TRUTH["a"] * RIDGE_TRUTH["b"] + RIDGE_TRUTH["q"] * noise
    return xs + RIDGE_NOISE * random.normal(size=200)


def ridge_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    a, b, q = thetas.T
    return kalman_of_number(ys, RIDGE_PHI, q, RIDGE_NOISE, drift=a * b)


RIDGE = Problem(
    "ridge",
    RIDGE_PRIOR,
    RIDGE_TRUTH,
    ridge_model,
    ridge_data,
    ridge_log_likelihood,
    Effort(num_adapt=8192, num_final=65536),
)


BIMODAL_PRIOR = JointPrior({"a": normal(0.2, 1.0), "phi": uniform(-1.0, 1.0), "r": log_normal(0.0, 1.0)})
BIMODAL_TRUTH = {"a": 1.0, "phi": 0.8, "r": 1.0}
BIMODAL_START = 0.5


def bimodal_model() -> pf.StateSpaceModel:
    """Make x' = phi x + N(0, 1), y = a x + N(0, r^2), x_0 ~ N(0.5, 1).

    But for x_0 and a prior of a that is not symmetric, -a would be as good as a.
    """
    return pf.StateSpaceModel(
        prior=BIMODAL_PRIOR.numpyro,
        initial=lambda theta, inputs: dist.Normal(BIMODAL_START, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.Normal(theta["a"] * x, theta["r"]),
        name="bimodal",
    )


def bimodal_data(seed: int) -> np.ndarray:
    random = generator(23, seed)
    xs = autoregressive_states(random, BIMODAL_TRUTH["phi"], 1.0, 200, BIMODAL_START + random.normal())
    return BIMODAL_TRUTH["a"] * xs + BIMODAL_TRUTH["r"] * random.normal(size=200)


def bimodal_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    a, phi, r = thetas.T
    # of a x in place of x
    return kalman_of_number(ys, phi, np.abs(a), r, initial_mean=BIMODAL_START * a, initial_sd=np.abs(a))


BIMODAL = Problem("bimodal", BIMODAL_PRIOR, BIMODAL_TRUTH, bimodal_model, bimodal_data, bimodal_log_likelihood)


LABEL_PRIOR = JointPrior({"phi_1": uniform(-1.0, 1.0), "phi_2": uniform(-1.0, 1.0), "r": log_normal(0.0, 1.0)})
LABEL_TRUTH = {"phi_1": 0.9, "phi_2": -0.5, "r": 0.5}


def label_model() -> pf.StateSpaceModel:
    """Make the sum of two autoregressions with process sd 1, and noise: phi_1 and phi_2 may change places."""

    def transition(theta, x, inputs):
        return dist.Normal(jnp.stack([theta["phi_1"], theta["phi_2"]]) * x, 1.0).to_event(1)

    return pf.StateSpaceModel(
        prior=LABEL_PRIOR.numpyro,
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), 1.0).to_event(1),
        transition=transition,
        observation=lambda theta, x, inputs: dist.Normal(x[0] + x[1], theta["r"]),
        name="bimodal_label",
    )


def label_data(seed: int) -> np.ndarray:
    random = generator(24, seed)
    first, second = (
        autoregressive_states(random, LABEL_TRUTH[name], 1.0, 200, random.normal()) for name in ("phi_1", "phi_2")
    )
    return first + second + LABEL_TRUTH["r"] * random.normal(size=200)


def label_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    num = len(thetas)
    transition = np.zeros((2, 2, num))
    transition[0, 0], transition[1, 1] = thetas[:, 0], thetas[:, 1]
    zeros, ones = np.zeros((2, num)), np.ones((2, num))
    noise, unit = thetas[None, :, 2], independent(ones)
    return kalman_of_theta(transition, zeros, unit, ones[None], zeros[:1], noise, zeros, unit, ys[:, None])


BIMODAL_LABEL = Problem("bimodal_label", LABEL_PRIOR, LABEL_TRUTH, label_model, label_data, label_log_likelihood)


EIGHT_PRIOR = JointPrior(
    {
        "phi": uniform(-1.0, 1.0),
        "level": log_normal(0.0, 1.0),
        "rho": uniform(0.0, 1.0),
        "angle": uniform(0.0, float(np.pi)),
        "cycle": log_normal(0.0, 1.0),
        "mean": normal(0.0, 5.0),
        "load": normal(0.0, 2.0),
        "noise": log_normal(0.0, 1.0),
    }
)
EIGHT_TRUTH = {
    "phi": 0.8,
    "level": 0.5,
    "rho": 0.9,
    "angle": 0.6,
    "cycle": 0.5,
    "mean": 2.0,
    "load": -0.7,
    "noise": 0.7,
}


def eight_model() -> pf.StateSpaceModel:
    """Make an autoregressive level and a cycle, a turn by an angle and a shrinking by rho; two series are seen.

    The first is mean + level + cycle + noise, the second is load * level + noise.
    """

    def transition(theta, x, inputs):
        along, across = theta["rho"] * jnp.cos(theta["angle"]), theta["rho"] * jnp.sin(theta["angle"])
        moved = jnp.stack([theta["phi"] * x[0], along * x[1] + across * x[2], along * x[2] - across * x[1]])
        return dist.Normal(moved, jnp.stack([theta["level"], theta["cycle"], theta["cycle"]])).to_event(1)

    def observation(theta, x, inputs):
        return dist.Normal(jnp.stack([theta["mean"] + x[0] + x[1], theta["load"] * x[0]]), theta["noise"]).to_event(1)

    return pf.StateSpaceModel(
        prior=EIGHT_PRIOR.numpyro,
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(3), 1.0).to_event(1),
        transition=transition,
        observation=observation,
        name="eight",
    )


def eight_data(seed: int) -> np.ndarray:
    random = generator(25, seed)
    phi, level_sd, rho, angle, cycle_sd, mean, load, noise_sd = EIGHT_TRUTH.values()
    level, cycle = random.normal(), complex(*random.normal(size=2))
    ys = np.empty((300, 2))
    for t in range(300):
        level = phi * level + level_sd * random.normal()
        cycle = rho * np.exp(-1j * angle) * cycle + cycle_sd * complex(*random.normal(size=2))
        ys[t] = np.array([mean + level + cycle.real, load * level]) + noise_sd * random.normal(size=2)
    return ys


def eight_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    phi, level_sd, rho, angle, cycle_sd, mean, load, noise_sd = thetas.T
    zero, one = np.zeros(len(thetas)), np.ones(len(thetas))
    along, across = rho * np.cos(angle), rho * np.sin(angle)
    return kalman_of_theta(
        np.array([[phi, zero, zero], [zero, along, across], [zero, -across, along]]),
        np.array([zero, zero, zero]),
        independent(np.array([level_sd, cycle_sd, cycle_sd])),
        np.array([[one, one, zero], [load, zero, zero]]),
        np.array([mean, zero]),
        np.array([noise_sd, noise_sd]),
        np.array([zero, zero, zero]),
        independent(np.array([one, one, one])),
        ys,
    )


EIGHT = Problem(
    "eight", EIGHT_PRIOR, EIGHT_TRUTH, eight_model, eight_data, eight_log_likelihood, Effort(num_adapt=16384)
)


def misspecified_data(seed: int) -> np.ndarray:
    """Draw a random walk with about three jumps, and noise with two degrees of freedom."""
    random = generator(26, seed)
    jumps = 8.0 * random.normal(size=300) * (random.uniform(size=300) < 0.01)
    return np.cumsum(0.3 * random.normal(size=300) + jumps) + random.standard_t(2.0, size=300)


def two_outliers_data(seed: int) -> np.ndarray:
    ys = ar1_data(seed, 27, 300)
    sd = np.sqrt(AR1_TRUTH["q"] ** 2 / (1 - AR1_TRUTH["phi"] ** 2) + AR1_TRUTH["r"] ** 2)
    ys[[100, 200]] += 15 * sd * np.array([1.0, -1.0])
    return ys


def overdispersed_data(seed: int) -> np.ndarray:
    """Draw negative binomial counts: the variance of y given its mean m is m + m^2 / 3."""
    random = generator(31, seed)
    rate = np.exp(states_around_mu(random, COUNTS_TRUTH, 300))
    return random.poisson(rate * random.gamma(3.0, 1 / 3, size=300)).astype(float)


MISSPECIFIED = replace(ar1("misspecified", 26, 300, phi=0.99, q=1.0, r=3.0), data=misspecified_data)
TWO_OUTLIERS = replace(ar1("two_outliers", 27, 300), data=two_outliers_data)
NEAR_UNIT_ROOT = ar1("near_unit_root", 28, 1000, phi=0.999, q=0.05)
FLAT = ar1("flat", 29, 15)
COUNTS_OVERDISPERSED = replace(
    COUNTS,
    name="counts_overdispersed",
    truth={"mu": 1.0, "phi": 0.7, "sigma": 0.6},
    data=overdispersed_data,
)


WIDE_SIN_PRIOR = JointPrior({"theta": normal(0.0, 3.0)})


def wide_sin_data(seed: int) -> np.ndarray:
    random = generator(30, seed)
    x, xs = random.normal(), np.empty(12)
    for t, noise in enumerate(random.normal(size=12)):
        xs[t] = x = np.sin(2.0 * x) + noise
    return xs + SIN_NOISE * random.normal(size=12)


def wide_sin_log_likelihood(thetas: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    # sin(theta x) turns faster than in `sin`, so the grid is finer
    return grid_sin(thetas[:, 0], SIN_NOISE, ys, 2 * fineness)


BIMODAL_SIN = Problem(
    "bimodal_sin",
    WIDE_SIN_PRIOR,
    {"theta": 2.0},
    partial(sin_model, WIDE_SIN_PRIOR),
    wide_sin_data,
    wide_sin_log_likelihood,
    Effort(share_of_prior=0.5),
)

HARD = (
    FUNNEL,
    RIDGE,
    BIMODAL,
    BIMODAL_LABEL,
    BIMODAL_SIN,
    EIGHT,
    MISSPECIFIED,
    TWO_OUTLIERS,
    NEAR_UNIT_ROOT,
    FLAT,
    COUNTS_OVERDISPERSED,
)

"""The example models simulate, pass the probe, and have the densities that their docstrings write down."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import paramfilter as pf
from paramfilter.probe import probe

NUM_STEPS = 500
ROUNDING = 1e-5
"""Relative, of a log density in float32 against one in float64."""

NAMES = ("sin", "cauchy_ar1", "star", "stochastic_volatility", "theta_logistic", "smooth_transition", "multispecies")
MODELS = {name: getattr(pf.models, name)() for name in NAMES}
TRUTHS = {name: importlib.import_module(f"paramfilter.models.{name}").TRUTH for name in NAMES}

UNKNOWN_SCALE = "cauchy_ar1 with unknown scale"
MODELS[UNKNOWN_SCALE] = pf.models.cauchy_ar1(scale=dist.LogNormal(0.0, 0.5))
TRUTHS[UNKNOWN_SCALE] = importlib.import_module("paramfilter.models.cauchy_ar1").TRUTH_WITH_SCALE


@pytest.mark.parametrize("name", MODELS)
def test_model_passes_the_probe_and_simulates_finite_series(name):
    shapes = probe(MODELS[name])
    xs, ys = pf.simulate(jax.random.key(0), MODELS[name], TRUTHS[name], NUM_STEPS)
    assert xs.shape == (NUM_STEPS, *shapes.x.shape)
    assert ys.shape == (NUM_STEPS, *shapes.y.shape)
    assert np.all(np.isfinite(xs)) and np.all(np.isfinite(ys))


@pytest.mark.parametrize("name", MODELS)
def test_truth_survives_the_way_to_coordinates_and_back(name):
    parameters = MODELS[name].parameters
    back = parameters.constrain(parameters.unconstrain(TRUTHS[name]))
    for parameter, value in TRUTHS[name].items():
        np.testing.assert_allclose(back[parameter], value, rtol=ROUNDING)


@pytest.mark.parametrize("x_prev, x", [(1.0, 1.4), (3.5, 0.2), (-2.0, -1.0)])
def test_theta_logistic_density_is_its_formula(x_prev, x):
    r, capacity, shape, sigma = 0.6, 7.0, 1.3, 0.3
    mean = x_prev + r * (1 - (np.exp(x_prev) / capacity) ** shape)
    theta = {"r": r, "K": capacity, "theta": shape, "sigma": sigma}
    agree("theta_logistic", theta, x_prev, x, 1.1, stats.norm(mean, sigma), stats.norm(x, 0.2))


@pytest.mark.parametrize("x_prev, x", [(1.0, 0.4), (6.0, 1.0), (-4.0, -3.0)])
def test_smooth_transition_density_is_its_formula(x_prev, x):
    theta = {"gamma": 1.2, "c": 2.0, "low": 0.8, "high": -0.2, "sigma": 0.7}
    switch = 1 / (1 + np.exp(-1.2 * (x_prev - 2.0)))
    mean = 0.8 * x_prev * (1 - switch) - 0.2 * x_prev * switch
    agree("smooth_transition", theta, x_prev, x, x + 0.05, stats.norm(mean, 0.7), stats.norm(x, 0.1))


def test_smooth_transition_with_the_coefficients_of_star_is_star():
    x_prev, x = jnp.float32(2.5), jnp.float32(1.0)
    known = MODELS["star"].transition_log_prob(TRUTHS["star"], x_prev, x, None)
    unknown = MODELS["smooth_transition"].transition_log_prob(TRUTHS["smooth_transition"], x_prev, x, None)
    np.testing.assert_allclose(unknown, known, rtol=ROUNDING)


def test_multispecies_density_is_its_formula():
    theta = {
        "u": jnp.array([0.5, 1.5]),
        "B": jnp.array([[0.6, -0.3], [0.2, 0.4]]),
        "q": jnp.array([0.3, 0.2]),
        "r": jnp.array([0.1, 0.4]),
    }
    x_prev, x, y = jnp.array([1.0, 2.0]), jnp.array([0.7, 2.2]), jnp.array([0.9, 1.9])
    mean = np.array([0.5 + 0.6 * 1.0 - 0.3 * 2.0, 1.5 + 0.2 * 1.0 + 0.4 * 2.0])
    transition = stats.multivariate_normal(mean, np.diag([0.3, 0.2]))
    observation = stats.multivariate_normal(np.asarray(x), np.diag([0.1, 0.4]))
    agree("multispecies", theta, x_prev, x, y, transition, observation)


def test_multispecies_has_ten_coordinates():
    assert MODELS["multispecies"].parameters.dimension == 10


def test_unknown_scale_widens_the_cauchy_shocks():
    theta = {"a": 0.5, "scale": 2.5}
    agree(UNKNOWN_SCALE, theta, 4.0, 9.0, 12.0, stats.cauchy(0.5 * 4.0, 2.5), stats.norm(9.0, 10.0))


def agree(name, theta, x_prev, x, y, transition, observation):
    """Hold the model's log densities against frozen scipy laws."""
    model = MODELS[name]
    x_prev, x, y = (jnp.asarray(value, jnp.float32) for value in (x_prev, x, y))
    scores = model.transition_log_prob(theta, x_prev, x, None), model.observation_log_prob(theta, x, y, None)
    expected = transition.logpdf(np.asarray(x)), observation.logpdf(np.asarray(y))
    np.testing.assert_allclose(scores, expected, rtol=ROUNDING, atol=ROUNDING)

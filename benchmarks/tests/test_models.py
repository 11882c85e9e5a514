"""The models of the contest simulate, pass the probe, and have the densities that their docstrings write down."""

import importlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from tests.support.models import (
    agrees,
    simulates_finite_series,
    stays_finite_over_the_prior,
    survives_coordinates,
)

NUM_STEPS = 500
FORMULA_TOLERANCE = 1e-4
"""Relative, where logarithms of small shares are divided by a small noise in float32."""

NAMES = (
    "theta_logistic",
    "multispecies",
    "epidemic",
    "rainfall_runoff",
    "fitzhugh_nagumo",
    "common_factor",
)
MODULES = {name: importlib.import_module(f"benchmarks.models.{name}") for name in NAMES}
MODELS = {name: getattr(module, name)() for name, module in MODULES.items()}
TRUTHS = {name: module.TRUTH for name, module in MODULES.items()}
INPUTS = {name: module.inputs(NUM_STEPS) for name, module in MODULES.items() if hasattr(module, "inputs")}

FEW = ("epidemic",)
"""It has inputs."""


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_model_passes_the_probe_and_simulates_finite_series(name):
    simulates_finite_series(MODELS[name], TRUTHS[name], NUM_STEPS, INPUTS.get(name))


@pytest.mark.parametrize("name", MODELS)
def test_truth_survives_the_way_to_coordinates_and_back(name):
    survives_coordinates(MODELS[name], TRUTHS[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", ["epidemic", "rainfall_runoff"])
def test_series_stay_finite_over_the_bulk_of_the_prior(name):
    stays_finite_over_the_prior(MODELS[name], NUM_STEPS, INPUTS.get(name))


@pytest.mark.parametrize("x_prev, x", [(1.0, 1.4), (3.5, 0.2), (-2.0, -1.0)])
def test_theta_logistic_density_is_its_formula(x_prev, x):
    r, capacity, shape, sigma = 0.6, 7.0, 1.3, 0.3
    mean = x_prev + r * (1 - (np.exp(x_prev) / capacity) ** shape)
    theta = {"r": r, "K": capacity, "theta": shape, "sigma": sigma}
    agrees(MODELS["theta_logistic"], theta, x_prev, x, 1.1, stats.norm(mean, sigma), stats.norm(x, 0.2))


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
    agrees(MODELS["multispecies"], theta, x_prev, x, y, transition, observation)


def test_multispecies_has_ten_coordinates():
    assert MODELS["multispecies"].parameters.dimension == 10


def test_epidemic_density_is_its_formula():
    beta, amplitude, reporting, season = 1.5, 0.4, 0.25, 0.6
    susceptible, infected, immune = 0.5, 0.02, 0.48
    force = beta * np.exp(amplitude * season) * infected
    next_susceptible = susceptible * np.exp(-force) + 0.02 * immune
    next_infected = infected * np.exp(-0.7) + susceptible * (1 - np.exp(-force))
    next_immune = 1 - next_susceptible - next_infected
    mean = np.log([next_susceptible / next_immune, next_infected / next_immune])
    x_prev, x = np.log([susceptible / immune, infected / immune]), np.log([0.6 / 0.39, 0.01 / 0.39])
    theta = {"beta": beta, "amplitude": amplitude, "reporting": reporting}
    transition = stats.multivariate_normal(mean, 0.1**2 * np.eye(2))
    score = MODELS["epidemic"].transition_log_prob(theta, jnp.asarray(x_prev), jnp.asarray(x), season)
    np.testing.assert_allclose(score, transition.logpdf(x), rtol=FORMULA_TOLERANCE)
    reported = MODELS["epidemic"].observation_log_prob(theta, jnp.asarray(x), jnp.float32(240.0), season)
    np.testing.assert_allclose(reported, stats.poisson(100_000 * reporting * 0.01).logpmf(240), rtol=FORMULA_TOLERANCE)


def test_rainfall_runoff_density_is_its_formula():
    theta = {"share": 0.3, "k_quick": 0.6, "k_slow": 0.05, "sigma": 0.2}
    inputs = {"rain": jnp.float32(6.0), "evaporation": jnp.float32(3.0)}
    effective = 36.0 / 9.0
    mean = np.log([0.4 * (2.0 + 0.3 * effective), 0.95 * (20.0 + 0.7 * effective)])
    x_prev, x = np.log([2.0, 20.0]), np.log([1.5, 22.0])
    score = MODELS["rainfall_runoff"].transition_log_prob(theta, jnp.asarray(x_prev), jnp.asarray(x), inputs)
    expected = stats.multivariate_normal(mean, 0.2**2 * np.eye(2)).logpdf(x)
    np.testing.assert_allclose(score, expected, rtol=FORMULA_TOLERANCE)
    seen = MODELS["rainfall_runoff"].observation_log_prob(theta, jnp.asarray(x), jnp.float32(0.8), inputs)
    discharge = 0.6 * 1.5 + 0.05 * 22.0
    np.testing.assert_allclose(seen, stats.norm(np.log(discharge), 0.1).logpdf(0.8), rtol=FORMULA_TOLERANCE)


@pytest.mark.parametrize("name", INPUTS)
def test_shorter_inputs_are_the_beginning_of_longer_ones(name):
    shorter = MODULES[name].inputs(NUM_STEPS // 2)
    jax.tree.map(lambda a, b: np.testing.assert_array_equal(a, b[: NUM_STEPS // 2]), shorter, INPUTS[name])

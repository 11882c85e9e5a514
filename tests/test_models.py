"""The example models simulate, pass the probe, and have the densities that their docstrings write down."""

import importlib

import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import paramfilter as pf
from tests.support.models import (
    ROUNDING,
    agrees,
    simulates_finite_series,
    stays_finite_over_the_prior,
    survives_coordinates,
)

NUM_STEPS = 500
NAMES = ("sin", "cauchy_ar1", "star", "stochastic_volatility", "tracking", "regime_switching")
MODULES = {name: importlib.import_module(f"paramfilter.models.{name}") for name in NAMES}
MODELS = {name: getattr(module, name)() for name, module in MODULES.items()}
TRUTHS = {name: module.TRUTH for name, module in MODULES.items()}

UNKNOWN_SCALE = "cauchy_ar1 with unknown scale"
MODELS[UNKNOWN_SCALE] = pf.models.cauchy_ar1(scale=dist.LogNormal(0.0, 0.5))
TRUTHS[UNKNOWN_SCALE] = MODULES["cauchy_ar1"].TRUTH_WITH_SCALE

FEW = ("sin", "star", "tracking")
"""One parameter, several, and vectors; the benchmarks' models have inputs."""


@pytest.mark.parametrize(
    "name", [name if name in FEW else pytest.param(name, marks=pytest.mark.slow) for name in MODELS]
)
def test_model_passes_the_probe_and_simulates_finite_series(name):
    simulates_finite_series(MODELS[name], TRUTHS[name], NUM_STEPS)


@pytest.mark.parametrize("name", MODELS)
def test_truth_survives_the_way_to_coordinates_and_back(name):
    survives_coordinates(MODELS[name], TRUTHS[name])


def test_unknown_scale_widens_the_cauchy_shocks():
    theta = {"a": 0.5, "scale": 2.5}
    agrees(MODELS[UNKNOWN_SCALE], theta, 4.0, 9.0, 12.0, stats.cauchy(0.5 * 4.0, 2.5), stats.norm(9.0, 10.0))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["tracking", "regime_switching"])
def test_series_stay_finite_over_the_bulk_of_the_prior(name):
    stays_finite_over_the_prior(MODELS[name], NUM_STEPS)


def test_tracking_density_is_its_formula():
    theta = {"q": jnp.float32(0.3), "r": jnp.array([0.5, 2.0]), "bias": jnp.float32(-0.4)}
    x_prev, x, y = jnp.array([1.0, 2.0]), jnp.array([3.2, 1.9]), jnp.array([3.0, 2.5])
    transition = stats.multivariate_normal([3.0, 2.0], 0.3 * np.array([[1 / 3, 1 / 2], [1 / 2, 1.0]]))
    observation = stats.multivariate_normal([3.2, 3.2 - 0.4], np.diag([0.5, 2.0]))
    agrees(MODELS["tracking"], theta, x_prev, x, y, transition, observation)


@pytest.mark.parametrize("x_prev, x, probability", [(0, 0, 0.8), (0, 1, 0.2), (1, 0, 0.3), (1, 1, 0.7)])
def test_regime_switching_density_is_its_formula(x_prev, x, probability):
    theta = {"stay_low": 0.8, "stay_high": 0.7, "low": -1.0, "gap": 3.0, "sd": 0.5}
    model = MODELS["regime_switching"]
    np.testing.assert_allclose(jnp.exp(model.transition_log_prob(theta, x_prev, x, None)), probability, rtol=ROUNDING)
    expected = stats.norm(-1.0 + 3.0 * x, 0.5).logpdf(0.7)
    np.testing.assert_allclose(model.observation_log_prob(theta, x, jnp.float32(0.7), None), expected, rtol=ROUNDING)

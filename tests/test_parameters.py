"""Named parameters and their coordinates: maps invert, densities carry their Jacobian, bad priors are refused."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.parameters import Parameters

PRIOR = {
    "level": dist.Normal(1.0, 2.0),
    "scale": dist.LogNormal(0.0, 0.5),
    "share": dist.Beta(2.0, 3.0),
    "window": dist.Uniform(-1.0, 3.0),
    "vector": dist.Normal(jnp.zeros(2), 1.0),
    "weights": dist.Dirichlet(jnp.ones(3)),
}


@pytest.fixture(scope="module")
def parameters():
    return Parameters(PRIOR)


def test_coordinates_count_the_free_numbers(parameters):
    assert parameters.dimension == 4 + 2 + 2  # a simplex of three has two


def test_each_coordinate_has_a_name_and_prior_moments(parameters):
    vectors = ["vector[0]", "vector[1]", "weights[0]", "weights[1]"]
    assert parameters.coordinate_names == ["level", "scale", "share", "window", *vectors]
    count = len(parameters.prior_draws)
    mean_of_level, mean_of_log_scale = np.mean(parameters.prior_draws, axis=0)[:2]
    assert abs(mean_of_level - 1.0) < 5.5 * 2.0 / np.sqrt(count)  # false alarms: 4e-8
    assert abs(mean_of_log_scale) < 5.5 * 0.5 / np.sqrt(count)
    # The sd of n Gaussian draws is off by 1 / sqrt(2 n) of itself.
    np.testing.assert_allclose(parameters.prior_sd[:2], [2.0, 0.5], rtol=5.5 / np.sqrt(2 * count))


def test_constrain_and_unconstrain_invert_each_other(parameters, float64):
    for z in parameters.prior_draws[:20]:
        theta = parameters.constrain(jnp.asarray(z))
        np.testing.assert_allclose(parameters.unconstrain(theta), z, rtol=1e-6, atol=1e-6)
        assert theta["scale"] > 0 and 0 < theta["share"] < 1 and -1 < theta["window"] < 3
        assert float(jnp.sum(theta["weights"])) == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["level", "scale", "share", "window"])
def test_the_prior_integrates_to_one_in_the_coordinates(name, float64):
    one = Parameters({name: PRIOR[name]})
    grid = jnp.linspace(-30.0, 30.0, 60_001)
    density = jnp.exp(jax.vmap(lambda z: one.log_prior(z[None]))(grid))
    assert float(jnp.trapezoid(density, grid)) == pytest.approx(1.0, abs=1e-6)


def test_draws_follow_the_prior(parameters):
    theta = jax.vmap(parameters.constrain)(jnp.asarray(parameters.prior_draws, float))
    count = len(parameters.prior_draws)
    assert abs(float(jnp.mean(theta["share"])) - 0.4) < 5.5 * 0.2 / np.sqrt(count)  # false alarms: 4e-8
    assert abs(float(jnp.mean(theta["level"])) - 1.0) < 5.5 * 2.0 / np.sqrt(count)


@pytest.mark.parametrize(
    ("prior", "words"),
    [
        ({}, "at least one entry"),
        ([dist.Normal(0.0, 1.0)], "dict of named distributions"),
        ({"a": 0.3}, 'prior of "a" is a float'),
        ({"k": dist.Poisson(3.0)}, 'prior of "k" is discrete'),
        ({"a": dist.Normal(0.0, jnp.inf)}, 'prior of "a" is not finite'),
        ({"a": dist.ImproperUniform(dist.constraints.real, (), ())}, "cannot be drawn from"),
    ],
)
def test_a_prior_that_cannot_work_is_refused_with_its_name(prior, words):
    with pytest.raises(pf.errors.ModelError) as caught:
        Parameters(prior)
    assert words in str(caught.value) and "dist.Normal" in str(caught.value)


def test_unknown_and_missing_names_are_listed(parameters):
    with pytest.raises(pf.errors.ModelError, match=r"missing: \['share'\], unknown: \['shar'\]"):
        theta = parameters.constrain(jnp.zeros(8))
        theta["shar"] = theta.pop("share")
        parameters.unconstrain(theta)


def test_parameters_are_drawn_independently():
    num_draws = 5000
    normals = Parameters({"a": dist.Normal(0.0, 1.0), "b": dist.Normal(1.0, 2.0)})
    draws = jax.vmap(normals.sample)(jax.random.split(jax.random.key(0), num_draws))
    assert abs(np.corrcoef(draws.T)[0, 1]) < 6 / np.sqrt(num_draws)  # false alarms: 2e-9
    assert abs(np.corrcoef(normals.prior_draws.T)[0, 1]) < 6 / np.sqrt(len(normals.prior_draws))

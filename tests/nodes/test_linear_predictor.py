"""The filter of a linear state behind one linear predictor, against exact answers and against its neighbors."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.nodes.test_inner_filters import BENT, log_likelihoods, on_a_grid

import paramfilter as pf
from paramfilter import structural as st
from paramfilter.errors import ModelError
from paramfilter.nodes import Kalman, LinearPredictor, choose_inner
from paramfilter.nodes.inner.moving_grid import MovingGrid
from paramfilter.testing import check_inner_filter

PHI = np.array([0.5, 0.95])
THETA = {"phi": jnp.asarray(PHI, jnp.float32)}
SHARES = np.array([0.6, 0.8])
"""Squares sum to one: the sum of two states that move alike moves as one state does."""


def two_states(observation, spread=SHARES):
    """Return a model whose sum of states is the scalar state of `on_a_grid`."""
    return pf.StateSpaceModel(
        prior={"phi": dist.Uniform(-1.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), spread).to_event(1),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 0.4 * spread).to_event(1),
        observation=lambda theta, x, inputs: observation(theta, jnp.sum(x), inputs),
    )


def test_counts_of_a_sum_of_states_have_the_likelihood_of_one_state():
    observation, log_look, ys = BENT["counts"]
    found, x = log_likelihoods(LinearPredictor.bind(two_states(observation)), THETA, ys)
    exact = [on_a_grid(lambda grid, phi=phi: phi * grid, 0.4, log_look, ys) for phi in PHI]
    np.testing.assert_allclose(found, exact, atol=0.05)  # 0.04 at the jump from 2 to 25, which has kurtosis
    assert np.all(np.asarray(x["skew"]) != 0)


def test_a_gaussian_observation_gives_the_kalman_filter(float64):
    ys = np.array([0.3, -1.0, np.nan, 2.0, 0.4])
    model = two_states(lambda theta, eta, inputs: dist.Normal(eta, 0.3))
    thetas = {"phi": jnp.asarray(PHI)}
    found, x = log_likelihoods(LinearPredictor.bind(model), thetas, ys)
    exact, known = log_likelihoods(Kalman.bind(model), thetas, ys)
    np.testing.assert_allclose(found, exact, atol=1e-4)
    np.testing.assert_allclose(x["mean"], known["mean"], atol=1e-4)
    np.testing.assert_allclose(x["covariance"], known["covariance"], atol=1e-4)


def test_covariates_turn_the_direction_at_each_step():
    """A regression on a covariate is a state that does not move: counts tell its coefficient."""
    model = pf.StateSpaceModel(
        prior={"sd": dist.HalfNormal(0.2)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), jnp.ones(2)).to_event(1),
        transition=lambda theta, x, inputs: dist.Normal(x, jnp.stack([theta["sd"], 0.0])).to_event(1),
        observation=lambda theta, x, inputs: dist.Poisson(jnp.exp(x[0] + inputs * x[1])),
        example_inputs=1.0,
    )
    inner = choose_inner(model).inner
    assert isinstance(inner, LinearPredictor)
    covariate = np.tile([0.0, 2.0], 40)
    ys = np.where(covariate == 0, 2.0, 8.0)  # so the coefficient is log(8 / 2) / 2, but for what the prior says
    _, x = log_likelihoods(inner, {"sd": jnp.array([0.01])}, ys, jnp.asarray(covariate, jnp.float32))
    sd = np.sqrt(np.asarray(x["covariance"])[1, 1, 0])
    assert 0.02 < sd < 0.1
    assert abs(np.asarray(x["mean"])[1, 0] - np.log(4) / 2) < sd


def test_a_missing_count_leaves_the_state_as_predicted():
    observation, _, _ = BENT["counts"]
    inner = LinearPredictor.bind(two_states(observation))
    _, seen = log_likelihoods(inner, THETA, np.array([25.0]))
    log_likelihood, after = log_likelihoods(inner, THETA, np.array([25.0, np.nan]))
    alone, _ = log_likelihoods(inner, THETA, np.array([25.0]))
    np.testing.assert_allclose(log_likelihood, alone, atol=1e-4)
    np.testing.assert_allclose(after["mean"], PHI * seen["mean"], rtol=1e-4)
    np.testing.assert_allclose(after["skew"], PHI * seen["skew"], rtol=1e-2, atol=1e-3)


@pytest.mark.parametrize(("log_level", "error"), [(4.0, 0.02), (1.0, 0.05)], ids=["counts of 150", "counts of 8"])
def test_likelihood_of_counts_is_near_that_of_a_fine_grid(log_level, error):
    """A constant that is known to 0.001 makes two states of one, which a grid can follow. Errors in nats, 60 counts."""
    level = st.local_level(initial=dist.Normal(log_level, 0.5))
    theta = {"level_sd": jnp.array([0.1, 0.15, 0.4])}
    ys = np.array(pf.simulate(jax.random.key(1), st.model(level, st.poisson()), {"level_sd": 0.15}, 60)[1], np.float32)
    other = st.autoregressive(coefficient=0.5, sd=1e-3)
    found, _ = log_likelihoods(LinearPredictor.bind(st.model(level + other, st.poisson())), theta, ys)
    exact, _ = log_likelihoods(MovingGrid.bind(st.model(level, st.poisson())), theta, ys)
    np.testing.assert_allclose(found, exact, atol=error)


@pytest.mark.parametrize(
    ("components", "inner"),
    [
        (st.local_level(), "AssumedDensity(9 points)"),
        (st.local_level() + st.regression(1), "LinearPredictor"),
        (st.local_level() + st.seasonal(5), "LinearPredictor"),
    ],
    ids=["one number", "without noise", "many numbers"],
)
def test_it_is_chosen_for_counts_of_two_or_more_states(components, inner):
    assert choose_inner(st.model(components, st.poisson())).inner.name == inner


def test_a_large_count_after_a_wide_start_is_found():
    model = st.model(st.local_level() + st.regression(1), st.poisson(), center=0.0)
    covariate = jnp.zeros((1, 1))
    _, x = log_likelihoods(LinearPredictor.bind(model), {"level_sd": jnp.array([0.1])}, [1e6], covariate)
    assert x["mean"][0, 0] == pytest.approx(np.log(1e6), abs=2e-3)
    assert np.sqrt(x["covariance"][0, 0, 0]) == pytest.approx(1e-3, rel=0.1)


def test_it_keeps_to_the_contract_of_inner_filters():
    check_inner_filter(LinearPredictor, st.model(st.local_level() + st.seasonal(2, sd=0.0), st.negative_binomial()))


@pytest.mark.parametrize(
    ("observation", "transition"),
    [
        (lambda theta, x, inputs: dist.Poisson(jnp.exp(x[0]) + jnp.exp(x[1])), lambda x: x),
        (lambda theta, x, inputs: dist.Poisson(jnp.exp(x[0])), lambda x: jnp.sin(x)),
    ],
    ids=["two predictors", "bent moves"],
)
def test_what_does_not_fit_is_refused(observation, transition):
    model = pf.StateSpaceModel(
        prior={"sd": dist.HalfNormal(0.2)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), jnp.ones(2)).to_event(1),
        transition=lambda theta, x, inputs: dist.Normal(transition(x), theta["sd"]).to_event(1),
        observation=observation,
    )
    with pytest.raises(ModelError, match="LinearPredictor needs"):
        LinearPredictor.bind(model)

"""Structural models: the likelihood of statsmodels, posteriors that hold the truth, contributions and forecasts."""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from statsmodels.tsa.statespace.structural import UnobservedComponents

import paramfilter as pf
from paramfilter import structural as st
from paramfilter.nodes import Kalman
from paramfilter.numerics.kalman import predicted
from paramfilter.structural.regressing import levinson_durbin

ROUNDING = 1e-8
NUM_STEPS = 60
COVARIATES = np.stack([np.sin(0.7 * np.arange(NUM_STEPS)), np.arange(NUM_STEPS) % 5 == 0], axis=1).astype(float)


def log_likelihood(model, theta, ys, inputs=None):
    """Return log p(y_1..y_T | theta) by the library's Kalman filter."""
    inner = Kalman.bind(model)
    nodes = {name: jnp.asarray(value, float)[..., None] for name, value in theta.items()}

    def all_steps(nodes, ys, inputs):
        constants = inner.prepare(nodes)
        step = lambda x, row: inner.step(constants, x, *row)
        return jnp.sum(jax.lax.scan(step, inner.init(nodes, None), (ys, inputs))[1])

    return float(jax.jit(all_steps)(nodes, jnp.asarray(ys), inputs))


def first_moments(model, theta):
    """Return mean and covariance of x_1, before any data."""
    theta, linear = model.parameters.as_theta(theta), Kalman.bind(model).linear
    start = linear.initial(theta, None)
    return predicted(start.mean, start.covariance, linear.move(theta, model.example_inputs))


def variances(**sds):
    return {f"sigma2.{name}": sd**2 for name, sd in sds.items()}


CASES = {
    "local level": (
        st.local_level(),
        {"level_sd": 0.4, "observation_sd": 0.3},
        {"level": "llevel"},
        variances(irregular=0.3, level=0.4),
    ),
    "trend and quarters": (
        st.local_linear_trend() + st.seasonal(4),
        {"level_sd": 0.4, "trend_sd": 0.05, "seasonal_sd": 0.1, "observation_sd": 0.3},
        {"level": "lltrend", "seasonal": 4},
        variances(irregular=0.3, level=0.4, trend=0.05, seasonal=0.1),
    ),
    "smooth trend, harmonics and regression": (
        st.smooth_trend() + st.freq_seasonal(12, harmonics=2) + st.regression(2),
        {"trend_sd": 0.05, "seasonal_sd": 0.1, "observation_sd": 0.3},
        {
            "level": "strend",
            "freq_seasonal": [{"period": 12, "harmonics": 2}],
            "exog": COVARIATES,
            "mle_regression": False,
        },
        variances(irregular=0.3, trend=0.05) | {"sigma2.freq_seasonal_12(2)": 0.01},
    ),
    "drift, cycle and autoregression": (
        st.random_walk_with_drift() + st.cycle(dist.Uniform(6.0, 40.0)) + st.autoregressive(2),
        {
            "level_sd": 0.4,
            "cycle_period": 9.0,
            "cycle_damping": 0.9,
            "cycle_sd": 0.2,
            "ar_partial_autocorrelations": [0.5, -0.3],
            "ar_sd": 0.5,
            "observation_sd": 0.3,
        },
        {"level": "lldtrend", "cycle": True, "stochastic_cycle": True, "damped_cycle": True, "autoregressive": 2},
        variances(irregular=0.3, level=0.4, cycle=0.2, ar=0.5)
        | {"frequency.cycle": 2 * np.pi / 9.0, "damping.cycle": 0.9, "ar.L1": 0.65, "ar.L2": -0.3},
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_log_likelihood_is_that_of_statsmodels(float64, case):
    components, theta, options, params = CASES[case]
    model = st.model(components)
    inputs = COVARIATES if model.reads else None
    ys = np.array(pf.simulate(jax.random.key(3), model, theta, NUM_STEPS, inputs)[1])
    ys[7] = np.nan
    found = log_likelihood(model, theta, ys, inputs)
    theirs = UnobservedComponents(ys, **options)
    theirs.ssm.initialize_known(*map(np.asarray, first_moments(model, theta)))
    theirs.loglikelihood_burn = 0
    assert found == pytest.approx(theirs.loglike([params[name] for name in theirs.param_names]), abs=ROUNDING)


def test_scale_and_center_change_the_units_of_the_data_alone(float64):
    components = st.damped_trend(trend_sd=None, damping=0.9) + st.seasonal(2)
    theta = {"level_sd": 0.4, "trend_sd": 0.1, "seasonal_sd": 0.2, "observation_sd": 0.3}
    ys = np.cos(np.arange(20.0))
    plain = log_likelihood(st.model(components), theta, ys)
    scaled = st.model(components, scale=8.0, center=100.0)
    found = log_likelihood(scaled, {name: 8 * value for name, value in theta.items()}, 100 + 8 * ys)
    assert found == pytest.approx(plain - len(ys) * np.log(8), abs=ROUNDING)
    assert scaled.prior["level_sd"].scale == 8 * st.model(components).prior["level_sd"].scale


@pytest.mark.parametrize(
    ("season", "size"),
    [(st.seasonal(5), 4), (st.freq_seasonal(6), 5), (st.freq_seasonal(6, 2), 4), (st.seasonal(2), 1)],
)
def test_a_season_comes_back_after_its_period(season, size):
    model = st.model(st.local_level() + season)
    move = lambda x: model.transition({"level_sd": 0.1, "seasonal_sd": 0.1}, x, None).mean
    start = x = jnp.arange(1.0, size + 2)
    for _ in range(int(season.states[0] == "seasonal") * (size + 1) or 6):
        x = move(x)
    np.testing.assert_allclose(x, start, atol=1e-4)
    assert np.linalg.norm(move(start)[1:] - start[1:]) > 0.5


@pytest.mark.parametrize("partials", [[0.9], [0.8, -0.5, 0.3]])
def test_an_autoregression_starts_in_its_stationary_distribution(float64, partials):
    order = len(partials)
    model = st.model(st.autoregressive(order))
    name = "ar_coefficient" if order == 1 else "ar_partial_autocorrelations"
    theta = {name: jnp.array(partials if order > 1 else partials[0]), "ar_sd": 0.5, "observation_sd": 1.0}
    mean, covariance = first_moments(model, theta)
    start = model.initial(theta, None)
    before = start.covariance_matrix if order > 1 else jnp.diag(start.variance)
    np.testing.assert_allclose(covariance, before, rtol=1e-9)
    np.testing.assert_allclose(mean, 0.0)
    coefficients, _, _ = levinson_durbin(jnp.array(partials))
    roots = np.roots([1.0, *(-coefficients)])
    assert np.all(np.abs(roots) < 1)


# --- Posteriors ----------------------------------------------------------------------------------------------------

NUM_NODES, NUM_OBSERVED = 256, 120
INPUTS = np.stack([np.sin(0.7 * np.arange(NUM_OBSERVED)), np.ones(NUM_OBSERVED)], axis=1).astype(np.float32)[:, :1]
QUARTERS = st.local_level() + st.freq_seasonal(4, sd=0.0) + st.regression(1)
LOG_LEVEL = dist.Normal(2.0, 0.3)
PROBLEMS = {
    "gaussian": (st.model(QUARTERS), {"level_sd": 0.2, "observation_sd": 0.5}, INPUTS),
    "student t": (
        st.model(st.local_level(0.2), st.student_t(degrees_of_freedom=4.0)),
        {"observation_scale": 0.5},
        None,
    ),
    "poisson": (
        st.model(st.local_level(initial=LOG_LEVEL) + st.regression(["price"]), st.poisson("people")),
        {"level_sd": 0.1},
        {"price": INPUTS[:, 0], "people": np.full(NUM_OBSERVED, 3.0, np.float32)},
    ),
    "negative binomial": (
        st.model(st.local_level(initial=LOG_LEVEL) + st.freq_seasonal(8, 1, sd=0.0), st.negative_binomial()),
        {"level_sd": 0.1, "concentration": 5.0},
        None,
    ),
}
SLOW = ("student t", "negative binomial", "poisson")


@functools.cache
def learned(name, seed=0):
    model, truth, inputs = PROBLEMS[name]
    filter = filter_of(name)
    ys = np.array(pf.simulate(jax.random.key(seed), model, truth, NUM_OBSERVED, inputs)[1], float)
    ys[50] = np.nan
    state, history = pf.run(filter, filter.init(jax.random.key(1)), ys, inputs, progress=False)
    return filter, state, history


@functools.cache
def filter_of(name):
    return pf.auto_filter(PROBLEMS[name][0], NUM_NODES)


@pytest.mark.parametrize(
    "name", [name if name not in SLOW else pytest.param(name, marks=pytest.mark.slow) for name in PROBLEMS]
)
def test_intervals_of_one_of_two_series_hold_the_truth(name):
    """A right posterior misses the truth in both with probability (1e-4)^2 = 1e-8 for each parameter."""
    _, truth, _ = PROBLEMS[name]
    is_inside = dict.fromkeys(truth, False)
    for seed in (0, 1):
        filter, state, history = learned(name, seed)
        intervals = filter.posterior(state).quantile([5e-5, 1 - 5e-5])
        for one, value in truth.items():
            is_inside[one] |= bool(intervals[one][0] < value < intervals[one][1])
        assert np.all(np.isfinite(history.x.sd))
    assert all(is_inside.values())


def test_auto_filter_selects_exact_filters_for_gaussian_observations_and_the_predictor_for_others():
    assert "Kalman" in filter_of("gaussian").choice
    assert "LinearPredictor" in filter_of("poisson").choice


def test_contributions_are_those_of_the_weighted_nodes():
    """The sd of harmonics needs correlations of 2048 draws: 2 % off, so 12 % is never seen (1e-8)."""
    filter, state, _ = learned("gaussian")
    found = st.decompose(filter, state, INPUTS[-1])
    nodes = state.nodes
    weights = np.exp(np.asarray(nodes.log_weights, float) - float(nodes.log_total))
    means, covariances = (np.asarray(nodes.x[part], float) for part in ("mean", "covariance"))
    mean = means @ weights
    apart = means - mean[:, None]
    covariance = covariances @ weights + (apart * weights) @ apart.T
    covariate = float(INPUTS[-1, 0])
    rows = {"level": [1, 0, 0, 0, 0], "seasonal": [0, 1, 0, 1, 0], "regression": [0, 0, 0, 0, covariate]}
    rows |= {"regression[0]": [0, 0, 0, 0, 1], "predictor": [1, 1, 0, 1, covariate]}
    assert list(found.mean) == list(rows)
    for name, row in rows.items():
        row = np.array(row, float)
        assert found.mean[name] == pytest.approx(row @ mean, abs=1e-4)
        exact = np.sqrt(row @ covariance @ row)
        assert found.sd[name] == pytest.approx(exact, rel=1e-3 if np.count_nonzero(row) == 1 else 0.12)


def test_forecasts_follow_the_inputs_of_the_future():
    """Draws with one key differ by coefficient times the change of the covariate: 6 standard errors, 2e-9."""
    filter, state, _ = learned("gaussian")
    low, high = (
        np.asarray(pf.predict(jax.random.key(5), filter, state, 4, np.full((4, 1), value), num_draws=1000).y)
        for value in (0.0, 2.0)
    )
    effects = (high - low) / 2
    found = st.decompose(filter, state, INPUTS[-1])
    np.testing.assert_allclose(effects, np.repeat(effects[:, :1], 4, axis=1), atol=1e-3)
    error = found.sd["regression[0]"] / np.sqrt(1000)
    assert abs(effects[:, 0].mean() - found.mean["regression[0]"]) < 6 * error + 1e-4


def test_counts_of_the_future_follow_their_exposure():
    filter, state, _ = learned("poisson")
    ahead = lambda people: {"price": np.zeros(3, np.float32), "people": np.full(3, people, np.float32)}
    few, many = (np.asarray(pf.predict(jax.random.key(5), filter, state, 3, ahead(people)).y) for people in (1, 100))
    assert np.all(few == few.astype(int))
    assert 50 < many.mean() / few.mean() < 200


def test_states_have_labels_for_plots():
    model = PROBLEMS["poisson"][0]
    assert model.labels == {"x[0]": "level", "x[1]": "regression[price]"}

"""Running and looking ahead: what `run` records, what `predict` draws, and what the progress bar says."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf


@pytest.fixture(scope="module")
def filter():
    return pf.storvik_filter(pf.models.linear_gaussian(phi=dist.Normal(0.8, 0.01), r=0.25), 2000)


@pytest.fixture(scope="module")
def after(filter):
    ys = pf.simulate(jax.random.key(0), filter.model, {"phi": 0.8}, 30)[1]
    return pf.run(filter, filter.init(jax.random.key(1)), ys)


def test_history_ends_with_the_posterior(filter, after):
    state, history = after
    assert history.theta.mean["phi"].shape == (30,)
    assert float(history.theta.mean["phi"][-1]) == pytest.approx(float(filter.posterior(state).mean()["phi"]), abs=1e-6)
    assert float(jnp.sum(history.info.log_evidence_increment)) == pytest.approx(float(state.log_evidence), rel=1e-5)


def test_forecasts_widen_as_the_model_says(filter, after):
    """From x ~ N(m, s^2) and phi near 0.8: variance of y after h steps is 0.64^h s^2 + (1 - 0.64^h) / 0.36 + 0.25."""
    state, history = after
    forecast = pf.predict(jax.random.key(2), filter, state, 12, num_draws=20_000)
    assert forecast.y.shape == (20_000, 12)
    spread = float(history.x.sd[-1]) ** 2
    for horizon in (1, 4, 12):
        decay = 0.64**horizon
        expected = decay * spread + (1 - decay) / 0.36 + 0.25
        found = float(jnp.var(forecast.y[:, horizon - 1]))
        assert found == pytest.approx(expected, rel=0.06)  # 5.5 se of a variance of 20,000 draws
    mean, se = float(jnp.mean(forecast.x[:, 3])), float(jnp.std(forecast.x[:, 3])) / np.sqrt(20_000)
    assert mean == pytest.approx(0.8**4 * float(history.x.mean[-1]), abs=5.5 * se + 0.02)


def test_inputs_reach_the_model_at_their_own_step():
    model = pf.StateSpaceModel(
        prior={"b": dist.Normal(0.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 0.01),
        transition=lambda theta, x, inputs: dist.Normal(theta["b"] * inputs["u"], 0.01),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.01),
        example_inputs={"u": 1.0},
    )
    filter = pf.storvik_filter(model, 500)
    inputs = {"u": jnp.array([1.0, -2.0, 0.5, 3.0])}
    ys = 0.7 * inputs["u"]
    state, _ = pf.run(filter, filter.init(jax.random.key(0)), ys, inputs)
    assert float(filter.posterior(state).mean()["b"]) == pytest.approx(0.7, abs=0.03)
    stepped = filter.init(jax.random.key(0))
    for index, y in enumerate(ys):
        stepped, _ = filter.step(stepped, y, {"u": inputs["u"][index]})
    assert np.array_equal(stepped.x, state.x)
    ahead = pf.predict(jax.random.key(1), filter, state, 2, {"u": jnp.array([10.0, 20.0])})
    assert float(jnp.mean(ahead.y[:, 1])) == pytest.approx(14.0, abs=0.6)


def test_series_of_different_lengths_are_refused(filter, after):
    with pytest.raises(pf.errors.DataError, match="same length"):
        pf.simulate(jax.random.key(0), filter.model, {"phi": 0.5}, 3, {"u": np.zeros(4)})
    with pytest.raises(pf.errors.DataError, match="no observation"):
        pf.run(filter, after[0], np.zeros(0))


def test_the_progress_bar_shows_rate_and_ess_and_is_silent_off_a_terminal(filter, after, capsys):
    for _ in range(2):  # the second run finds everything compiled and is over in no time
        pf.run(filter, after[0], np.zeros(5), progress=True)
        text = capsys.readouterr().err
        assert "5/5" in text and "ess=" in text and "step" in text
        assert "compiling" not in text.split("\r")[-1]
    pf.run(filter, after[0], np.zeros(5))
    assert capsys.readouterr().err == ""


def test_posterior_sample_quantile_and_density_agree(filter, after):
    posterior = filter.posterior(after[0])
    mean, sd = float(posterior.mean()["phi"]), float(posterior.sd()["phi"])
    draws = posterior.sample(jax.random.key(5), 20_000)["phi"]
    assert float(jnp.mean(draws)) == pytest.approx(mean, abs=5.5 * sd / np.sqrt(20_000))
    quantiles = posterior.quantile([0.05, 0.5, 0.95])["phi"]
    assert quantiles.shape == (3,)
    assert float(quantiles[1]) == pytest.approx(mean, abs=0.1 * sd)
    grid = np.linspace(mean - 6 * sd, mean + 6 * sd, 61)
    density = [float(jnp.exp(posterior.log_prob({"phi": value}))) for value in grid]
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-3)


def test_single_values_of_theta_have_a_smooth_density():
    filter = pf.sir_filter(pf.models.linear_gaussian(phi=dist.Normal(0.2, 0.5)), 400)
    posterior = filter.posterior(filter.init(jax.random.key(0)))
    grid = np.linspace(-2.5, 3.0, 56)
    density = np.exp([posterior.log_prob({"phi": phi}) for phi in grid])
    assert np.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-2)
    np.testing.assert_allclose(density, np.exp(dist.Normal(0.2, 0.5).log_prob(grid)), atol=0.15)

"""A fleet of node filters: forecasts, surprise, and what a new series learns from the others."""

from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import paramfilter as pf
from paramfilter.errors import DataError, ModelError

NUM_SERIES, NUM_STEPS = 96, 60
POPULATION = 1.0, 0.4
"""Mean and sd of the level over the fleet; the model's prior is ten times as wide."""


@cache
def fleet():
    """Return a fleet that learns the mean of a noisy level of each series."""
    model = pf.StateSpaceModel(
        prior={"level": dist.Normal(0.0, 4.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 0.5),
        transition=lambda theta, x, inputs: dist.Normal(0.5 * x, 0.5),
        observation=lambda theta, x, inputs: dist.Normal(theta["level"] + x, 1.0),
    )
    return pf.Fleet(pf.node_filter(model, 32, num_kept=64))


@cache
def data():
    """Return the levels of all series, and their observations."""
    key_level, key_rest = jax.random.split(jax.random.key(5))
    levels = POPULATION[0] + POPULATION[1] * jax.random.normal(key_level, (NUM_SERIES,))
    simulate = lambda key, level: pf.simulate(key, fleet().filter.model, {"level": level}, NUM_STEPS)[1]
    return np.asarray(levels), np.asarray(jax.vmap(simulate)(jax.random.split(key_rest, NUM_SERIES), levels))


@cache
def learned():
    """Return what a fleet knows before its last observation."""
    state = fleet().init(jax.random.key(0), range(NUM_SERIES))
    return fleet().run(state, data()[1][:, :-1])


def fresh():
    """Return the same in memory of its own: a step frees it."""
    return jax.tree.map(jnp.copy, learned())


def test_a_step_tells_how_surprising_each_observation_is():
    """Tail probabilities are uniform if the model is right. False alarm: 1e-7."""
    ys = data()[1][:, -1].copy()
    ys[3] += 12.0
    _, info = fleet().step(fresh(), ys)
    others = np.delete(np.asarray(info.tail_probability), 3)
    assert info.tail_probability[3] < 1e-5
    assert stats.kstest(others, "uniform").pvalue > 1e-7


def test_forecasts_agree_with_what_a_step_expects():
    """Means of 256 draws against the forecast of the next step, in standard errors. False alarm: 1e-7."""
    state = fresh()
    forecast = fleet().predict(state, 3)
    assert forecast.mean.shape == (NUM_SERIES, 3)
    assert forecast.quantiles.shape == (5, NUM_SERIES, 3)
    one, same = fleet().one(state, 7), fleet().predict(state, 3)
    np.testing.assert_array_equal(forecast.mean, same.mean)
    alone = pf.predict(jax.random.key(1), fleet().filter, one, 3, num_draws=4096).y
    error = (forecast.mean[7] - jnp.mean(alone, axis=0)) / (forecast.sd[7] / np.sqrt(256))
    assert np.max(np.abs(error)) < 6
    errors = []
    for ys in (data()[1][:, -1], np.zeros(NUM_SERIES)):
        forecast = fleet().predict(state, 3)
        state, info = fleet().step(state, ys)
        expected = np.asarray(info.forecast)[:, 2]
        errors.append((forecast.mean[:, 0] - expected) / (forecast.sd[:, 0] / np.sqrt(256)))
    assert np.max(np.abs(errors)) < 6.5
    assert abs(np.corrcoef(errors)[0, 1]) < 5.3 / np.sqrt(NUM_SERIES), "two times, two sets of random numbers"


def likelihood_of_the_level(ys):
    """Return the mean and the variance that the likelihood of the level of each series has, a Gaussian.

    y = level + x + noise with x an AR(1) process: all observations of a series are one Gaussian vector.
    """
    times, variance = range(ys.shape[1]), 0.25
    variances = [variance := 0.25 * variance + 0.25 for _ in times]
    spread = np.array([[0.5 ** abs(i - j) * variances[min(i, j)] for j in times] for i in times])
    precision = np.linalg.inv(spread + np.eye(len(times)))
    return ys @ precision.sum(axis=0) / precision.sum(), 1 / precision.sum()


def test_the_population_is_that_of_the_likelihoods():
    """EM by the formulas of Gaussians; the model's prior, N(0, 4^2), counts for a tenth of a series."""
    levels, variance = likelihood_of_the_level(data()[1][:, :-1])
    mean, square = 0.0, 16.0
    for _ in range(200):
        left = 1 / (1 / square + 1 / variance)
        means = left * (mean / square + levels / variance)
        mean = np.mean(means)
        square = (NUM_SERIES * left + np.sum((means - mean) ** 2) + 0.1 * 16.0) / (NUM_SERIES + 0.1)
    normal = fleet().population(fresh()).normal
    assert abs(normal.mean[0] - mean) < 0.1 * np.sqrt(square)
    assert float(normal.scale[0, 0]) == pytest.approx(np.sqrt(square), rel=0.04)  # 32 nodes for each series
    assert abs(mean - POPULATION[0]) < 5.4 * np.sqrt(square / NUM_SERIES)  # and that is the truth's; false alarm: 1e-7


def test_a_new_series_starts_from_what_the_others_know():
    state = fleet().add(fresh(), ["new"], prior="population")
    state = fleet().add(state, ["alone"])
    population = fleet().population(fresh())
    start = fleet().filter.posterior(fleet().one(state, "new"))
    np.testing.assert_allclose(fleet().mean(state)["level"][-2], population.normal.mean[0], atol=0.05)
    np.testing.assert_allclose(fleet().sd(state)["level"][-2], population.normal.scale[0, 0], rtol=0.07)
    assert np.asarray(start.log_prob({"level": 1.0})) == pytest.approx(
        stats.norm.logpdf(1.0, population.normal.mean[0], population.normal.scale[0, 0]), abs=0.05
    )
    for y in (1.5, 0.7):
        state, _ = fleet().update(state, ["new", "alone"], [y, y])
    sds = {name: fleet().filter.posterior(fleet().one(state, name)).sd()["level"] for name in ("new", "alone")}
    assert sds["new"] < 0.6 * sds["alone"]


def test_a_series_that_renews_its_nodes_keeps_its_prior():
    """Exact posterior: a Gaussian prior and a Gaussian likelihood of the level."""
    population = fleet().population(fresh())
    state = fleet().init(jax.random.key(3), ["one"], prior=population)
    ys = data()[1][:1, :40]
    state = fleet().run(state, ys)
    posterior = fleet().filter.posterior(fleet().one(state, "one"))
    (level,), noise = likelihood_of_the_level(ys)
    mean, sd = float(population.normal.mean[0]), float(population.normal.scale[0, 0])
    variance = 1 / (1 / sd**2 + 1 / noise)
    exact = variance * (mean / sd**2 + level / noise)
    np.testing.assert_allclose(posterior.mean()["level"], exact, atol=0.03 * np.sqrt(variance))
    np.testing.assert_allclose(posterior.sd()["level"], np.sqrt(variance), rtol=0.03)


def test_mistakes_with_populations_are_named():
    one = pf.Fleet(pf.storvik_filter(pf.models.linear_gaussian(), 64))
    with pytest.raises(ModelError, match="needs a fleet of node filters"):
        one.population(one.init(jax.random.key(0), [1]))
    with pytest.raises(DataError, match='must be "population"'):
        fleet().add(fresh(), ["new"], prior="others")
    with pytest.raises(DataError, match="2 or more series"):
        fleet().population(fleet().init(jax.random.key(0), range(NUM_SERIES)))


def test_a_run_tells_the_scores_of_all_steps():
    ys = data()[1][:, :40]
    state, scores = fleet().run_scored(fleet().init(jax.random.key(0), range(NUM_SERIES)), ys)
    assert scores.log_score.shape == scores.tail_probability.shape == (NUM_SERIES, 40)
    total = jax.vmap(lambda one: one.log_evidence)(state.series)[:NUM_SERIES]
    # Renewals replace the estimate of the evidence so far, so the sum of increments is near the total and not equal.
    assert np.sqrt(np.mean((scores.log_score.sum(axis=1) - total) ** 2)) < 0.3
    again = fleet().init(jax.random.key(0), range(NUM_SERIES))
    for time in range(3):
        again, info = fleet().step(again, ys[:, time])
        np.testing.assert_allclose(info.pit, scores.pit[:, time], atol=1e-6)  # rounding


def test_steps_and_runs_lead_to_the_same_state_to_the_last_bit():
    """With and without scores; 20 observations, in which all series renew their nodes."""
    ys = data()[1][:, :20]
    begin = lambda: fleet().init(jax.random.key(0), range(NUM_SERIES))
    stepped = begin()
    for row in ys.T:
        stepped, _ = fleet().step(stepped, row)
    for other in (fleet().run(begin(), ys), fleet().run_scored(begin(), ys)[0]):
        for one, same in zip(jax.tree.leaves(stepped.series.nodes), jax.tree.leaves(other.series.nodes), strict=True):
            np.testing.assert_array_equal(one, same)

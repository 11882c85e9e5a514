"""Scores, distributions and rivals of the measles benchmark, each against a direct computation."""

import numpy as np
import pytest
from benchmarks.measles import data, rivals
from benchmarks.measles.distributions import (
    HALF_LIFE,
    INFLATION,
    LEVELS,
    PRIOR_SD,
    PRIOR_WEEKS,
    Forecasts,
    gaussian,
    log_gaussian,
    negative_binomial,
    spread_from_errors,
    spread_from_recent_errors,
)
from benchmarks.measles.scores import Scores, averages, averages_by_size, crps, is_covered, outcomes, score
from scipy import integrate, stats

COUNTS = np.arange(60.0)


def test_crps_of_a_gaussian_is_the_closed_form():
    """Of N(m, s) at y it is s (z (2 Phi(z) - 1) + 2 phi(z) - 1 / sqrt(pi)); 40 levels are within 1 % of s."""
    mean, sd, y = 2.0, 3.0, np.array([-4.0, 2.0, 3.5, 9.0])
    z = (y - mean) / sd
    exact = sd * (z * (2 * stats.norm.cdf(z) - 1) + 2 * stats.norm.pdf(z) - 1 / np.sqrt(np.pi))
    quantiles = np.tile(stats.norm.ppf(LEVELS, mean, sd), (4, 1))
    np.testing.assert_allclose(crps(quantiles, y), exact, atol=0.01 * sd)


def test_crps_of_a_count_is_the_integral_of_squared_differences_of_distribution_functions():
    law, y = stats.nbinom(2.0, 0.2), np.array([0.0, 4.0, 30.0])
    grid = np.arange(2000)
    exact = [np.sum((law.cdf(grid) - (grid >= one)) ** 2) for one in y]
    quantiles = negative_binomial(np.full(3, law.mean()), np.full(3, 0.5), y).quantiles
    np.testing.assert_allclose(crps(quantiles, y), exact, rtol=0.03)


def test_log_score_of_a_negative_binomial_has_its_mean_and_variance():
    mean, dispersion = np.full(60, 6.0), np.full(60, 0.5)
    said = negative_binomial(mean, dispersion, COUNTS)
    exact = stats.nbinom.logpmf(COUNTS, 2.0, 2.0 / 8.0)  # variance 6 + 36 / 2
    np.testing.assert_allclose(said.log_prob, exact)
    np.testing.assert_allclose(said.up_to - said.below, np.exp(exact), atol=1e-12)


@pytest.mark.parametrize("family", [log_gaussian, gaussian], ids=["log", "raw"])
def test_mass_of_a_rounded_gaussian_is_the_integral_of_its_density(family):
    center, spread = 1.2, 0.8
    said = family(np.full(60, center), np.full(60, spread), COUNTS)
    to_scale = np.log1p if family is log_gaussian else np.asarray
    for y in (1, 3, 7):
        exact = integrate.quad(stats.norm(center, spread).pdf, to_scale(y - 0.5), to_scale(y + 0.5))[0]
        assert np.exp(said.log_prob[y]) == pytest.approx(exact, rel=1e-8)
    assert np.exp(said.log_prob).sum() == pytest.approx(1.0, abs=1e-3)
    assert said.below[0] == 0.0
    np.testing.assert_allclose(said.below[1:], said.up_to[:-1])


@pytest.mark.parametrize("family", [log_gaussian, gaussian, negative_binomial])
def test_quantiles_are_the_least_counts_that_reach_a_level(family):
    said = family(np.full(60, 1.7), np.full(60, 0.9), COUNTS)
    exact = [np.flatnonzero(said.up_to >= level)[0] for level in LEVELS]
    np.testing.assert_array_equal(said.quantiles[0], exact)


def test_log_probability_far_out_is_finite_and_right():
    """log(Phi(-30)) is -454.3; the interval's other end is 1.4 sds on."""
    said = log_gaussian(np.array([0.0]), np.array([0.1]), np.array([np.exp(3.0) - 0.5]))
    assert said.log_prob[0] == pytest.approx(-454.32, abs=0.01)


def test_pit_of_the_true_distribution_is_uniform():
    """Nothing is drawn; 20,000 random uniforms would be off by 0.021 with probability 4e-8."""
    law, shape = stats.nbinom(0.7, 0.1), (5, 1000, 4)
    y = law.ppf(np.arange(1, 20_001) * np.sqrt(2) % 1).reshape(shape)
    mean = np.full(shape, law.mean())
    found = score(negative_binomial(mean, np.full(shape, 1 / 0.7), y), y, np.arange(5))
    assert stats.kstest(found.pit.ravel(), "uniform").statistic < 0.021
    assert np.mean(is_covered(found.pit, 0.9)) == pytest.approx(0.9, abs=0.02)


def test_pit_of_a_town_does_not_depend_on_the_towns_beside_it():
    y = np.arange(24.0).reshape(3, 2, 4)
    said = log_gaussian(np.full_like(y, 2.0), np.full_like(y, 1.0), y)
    together = score(said, y, np.array([7, 2, 9]))
    alone = score(Forecasts(*(part[1:2] for part in said)), y[1:2], np.array([2]))
    np.testing.assert_array_equal(together.pit[1], alone.pit[0])


def test_missing_outcomes_are_not_scored():
    y = outcomes(np.array([[1.0, 2.0, np.nan, 4.0, 5.0]]), first_origin=1)
    found = score(log_gaussian(np.ones_like(y), np.ones_like(y), y), y, np.array([0]))
    for part in found:
        np.testing.assert_array_equal(np.isnan(part), np.isnan(y))
    assert averages(found)["log_score"]["mean"][0] == pytest.approx(np.nanmean(found.log_score[..., 0]), abs=1e-5)


def test_standard_error_is_that_of_a_mean_of_towns():
    """1,000 resamples give the error within 2.3 % (one sd); 20 % is nine of them."""
    per_town = np.linspace(-1.0, 1.0, 50)
    part = np.broadcast_to(per_town[:, None, None], (50, 10, 4))
    found = averages(Scores(part, part, part, np.full_like(part, 0.5)))
    assert found["crps"]["se"][0] == pytest.approx(per_town.std() / np.sqrt(50), rel=0.2)
    assert found["coverage_50"]["mean"] == [1.0] * 4


def test_groups_of_sizes_have_their_own_towns():
    part = np.array([1.0, 2.0, 4.0])[:, None, None] * np.ones((3, 5, 4))
    found = averages_by_size(Scores(part, part, part, part), np.array([5e3, 2e4, 3e4]))
    assert [group["crps"]["mean"][0] for group in found.values()] == [pytest.approx(7 / 3, abs=1e-5), 1.0, 3.0]
    assert [group["num_towns"] for group in found.values()] == [3, 1, 2]


def test_learned_spreads_know_only_errors_that_came_before_their_origin():
    counts = np.exp(np.sin(np.arange(30.0)))[None]
    center, y = np.zeros((30, 4)), outcomes(counts, first_origin=0)[0]
    of_all = spread_from_errors("log_gaussian", center, y)
    recent = spread_from_recent_errors("log_gaussian", center, y)
    for origin, horizon in ((10, 1), (10, 4), (20, 3)):
        made = np.arange(origin - horizon + 1)
        squares = np.log1p(counts[0, made + horizon - 1]) ** 2
        mean_square = (squares.sum() + PRIOR_WEEKS * PRIOR_SD["log_gaussian"] ** 2) / (len(made) + PRIOR_WEEKS)
        assert of_all[origin, horizon - 1] == pytest.approx(np.sqrt(mean_square))
        weights = 0.5 ** ((made[-1] - made) / HALF_LIFE)
        numerator = np.sum(weights * squares) + PRIOR_WEEKS * INFLATION * mean_square
        assert recent[origin, horizon - 1] == pytest.approx(np.sqrt(numerator / (weights.sum() + PRIOR_WEEKS)))


@pytest.mark.parametrize("name", ["climatology", "local_level", "local_level_seasonal"])
def test_forecasts_do_not_look_ahead(name):
    """Counts after week 130 are changed; forecasts of the origins before keep their values."""
    pytest.importorskip("statsmodels")
    counts = np.round(20 * (1 + np.sin(np.arange(150.0) / 8)))
    changed = np.where(np.arange(150) < 130, counts, 500.0)
    first, second = (rivals.forecast_town(rivals.RIVALS[name], one)["center"] for one in (counts, changed))
    np.testing.assert_allclose(first[:131], second[:131])
    assert np.all(np.abs(first[135:] - second[135:]) > 0.1)


def test_components_ahead_equals_extend_and_forecast():
    pytest.importorskip("statsmodels")
    ys = np.log1p(np.round(20 * (1.5 + np.sin(np.arange(140.0) / 8)) + 3 * np.cos(np.arange(140.0) ** 2)))
    fitted = rivals.RIVALS["local_level_seasonal"].fit(ys[:120])
    centers, spreads = rivals.components_ahead(fitted, ys, np.array([120, 131]))
    for place, part in enumerate((fitted, fitted.extend(ys[120:131]))):
        direct = part.get_forecast(4)
        assert np.all(direct.se_mean > 0)
        np.testing.assert_allclose(centers[place], direct.predicted_mean, rtol=1e-6)
        np.testing.assert_allclose(spreads[place], direct.se_mean, rtol=1e-6)


@pytest.mark.slow
def test_towns_that_are_compared_are_the_largest_and_others_each_once():
    measles = data.load()
    assert measles.counts.shape[1] == data.NUM_WEEKS
    towns = data.compared_towns(measles)
    assert len(set(towns.tolist())) == data.NUM_LARGEST + data.NUM_RANDOM
    assert measles.mean_population[towns[: data.NUM_LARGEST]].min() > np.delete(measles.mean_population, towns).max()
    assert measles.towns[towns[0]] == "London"

"""Quantiles from a histogram or from sorted points are those of the distribution, for any shape and scale."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from paramfilter.numerics.quantiles import LEVELS, SortedPoints, normal_quantiles, weighted_quantiles

NUM_POINTS = 4000


@pytest.mark.parametrize("law", [stats.norm(2e3, 1.0), stats.expon(), stats.beta(0.5, 0.5), stats.t(3)])
def test_quantiles_of_evenly_spread_points_are_those_of_the_distribution(law):
    points = law.ppf((np.arange(NUM_POINTS) + 0.5) / NUM_POINTS)
    found = weighted_quantiles(jnp.full(NUM_POINTS, 1 / NUM_POINTS), jnp.asarray(points[:, None], jnp.float32))
    bin_width = 2 * np.sqrt(19) * np.std(points) / 64
    assert np.allclose(found[:, 0], law.ppf(LEVELS), atol=bin_width / 2, rtol=0)


def test_weights_count_and_points_without_weight_do_not():
    points = jnp.array([[0.0], [1.0], [jnp.nan]])
    found = weighted_quantiles(jnp.array([0.2, 0.8, 0.0]), points)[:, 0]
    assert np.allclose(found, [0.0, 1.0, 1.0, 1.0, 1.0], atol=0.06)


def test_points_that_are_all_one_have_that_quantile():
    assert np.allclose(weighted_quantiles(jnp.full(10, 0.1), jnp.full((10, 1), 7.0)), 7.0)


@pytest.mark.parametrize("num_points", [2, 3, 10, 1000, 1024])
def test_sorted_points_have_the_quantiles_that_interpolation_between_middles_of_weights_gives(num_points):
    key_points, key_weights = jax.random.split(jax.random.key(num_points))
    points = np.asarray(jax.random.t(key_points, 3.0, (num_points, 3)), float)
    weights = np.asarray(jax.random.dirichlet(key_weights, jnp.full(num_points, 0.5)), float)
    found = SortedPoints.of(jnp.asarray(points, jnp.float32)).quantiles(jnp.asarray(weights, jnp.float32))
    for values, quantiles in zip(points.T, np.asarray(found).T, strict=True):
        order = np.argsort(values)
        middles = np.cumsum(weights[order]) - weights[order] / 2
        assert np.allclose(quantiles, np.interp(LEVELS, middles, values[order]), atol=1e-3)


def test_a_sorted_point_that_is_not_a_number_and_has_no_weight_does_not_count():
    found = SortedPoints.of(jnp.array([[jnp.nan], [0.0], [1.0]])).quantiles(jnp.array([0.0, 0.2, 0.8]))[:, 0]
    assert np.allclose(found, [0.0, 0.3, 0.8, 1.0, 1.0])


def test_normal_quantiles():
    found = normal_quantiles(jnp.asarray(1.0), jnp.asarray(2.0))
    assert np.allclose(found, stats.norm(1, 2).ppf(LEVELS), atol=1e-5)

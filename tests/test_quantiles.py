"""Quantiles from a histogram are those of a sort, for points of any shape and scale."""

import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from paramfilter.numerics.quantiles import LEVELS, normal_quantiles, weighted_quantiles

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


def test_normal_quantiles():
    found = normal_quantiles(jnp.asarray(1.0), jnp.asarray(2.0))
    assert np.allclose(found, stats.norm(1, 2).ppf(LEVELS), atol=1e-5)

"""Mean and covariance of weighted points, and of mixtures."""

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.beliefs.mean_cholesky import MeanCholesky, spread_of


def test_spread_has_the_weighted_mean_and_covariance(float64):
    key_points, key_weights = jax.random.split(jax.random.key(0))
    points, log_weights = jax.random.normal(key_points, (50, 2)), jax.random.normal(key_weights, (50,))
    found = spread_of(points, log_weights, np.zeros(2))
    weights = np.exp(np.asarray(log_weights))
    np.testing.assert_allclose(found.mean, np.average(points, axis=0, weights=weights), rtol=1e-12)
    covariance = np.cov(np.asarray(points).T, aweights=weights, ddof=0)
    np.testing.assert_allclose(found.factor @ found.factor.T, covariance, rtol=1e-12)


def test_points_on_a_line_have_a_spread_in_float32():
    along = jnp.array([0.037, 0.013, 0.578], jnp.float32)
    for seed in range(20):
        z = jnp.array([0.697, -0.140, -0.348]) + jax.random.normal(jax.random.key(seed), (40, 1)) * along
        spread = spread_of(z, jnp.zeros(40), np.full(3, 1e-6))
        assert jnp.all(jnp.isfinite(spread.factor)), seed
        np.testing.assert_allclose(spread.covariance, np.cov(z.T, bias=True), rtol=1e-3)


def test_blended_spread_is_that_of_the_mixture(float64):
    first = MeanCholesky(jnp.array([0.0, 1.0]), jnp.array([[1.0, 0.0], [0.5, 2.0]]))
    second = MeanCholesky(jnp.array([3.0, -1.0]), jnp.eye(2))
    found = first.blended(second, 0.25)
    np.testing.assert_allclose(found.mean, [2.25, -0.5], rtol=1e-12)
    means = np.stack([first.mean, second.mean])
    within = 0.25 * first.factor @ first.factor.T + 0.75 * np.eye(2)
    between = np.cov(means.T, aweights=[0.25, 0.75], ddof=0)
    np.testing.assert_allclose(found.factor @ found.factor.T, within + between, rtol=1e-12)

"""Mean and covariance of weighted points."""

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.particles.spread import spread_of


def test_spread_has_the_weighted_mean_and_covariance(float64):
    key_points, key_weights = jax.random.split(jax.random.key(0))
    points, log_weights = jax.random.normal(key_points, (50, 2)), jax.random.normal(key_weights, (50,))
    found = spread_of(points, log_weights, np.zeros(2))
    weights = np.exp(np.asarray(log_weights))
    np.testing.assert_allclose(found.mean, np.average(points, axis=0, weights=weights), rtol=1e-12)
    covariance = np.cov(np.asarray(points).T, aweights=weights, ddof=0)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-12)


def test_points_on_a_line_have_a_spread_in_float32():
    along = jnp.array([0.037, 0.013, 0.578], jnp.float32)
    for seed in range(20):
        z = jnp.array([0.697, -0.140, -0.348]) + jax.random.normal(jax.random.key(seed), (40, 1)) * along
        spread = spread_of(z, jnp.zeros(40), np.ones(3))
        assert jnp.all(jnp.isfinite(spread.scale)), seed
        np.testing.assert_allclose(spread.covariance, np.cov(z.T, bias=True), rtol=1e-3)

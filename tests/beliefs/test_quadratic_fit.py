"""A quadratic log density is found exactly, but for the ridge of the fit."""

import jax.numpy as jnp
import numpy as np

from paramfilter.beliefs.mean_cholesky import MeanCholesky
from paramfilter.beliefs.quadratic_fit import QuadraticFit

COVARIANCE = np.array([[1.0, 0.6], [0.6, 0.8]])
MEAN = np.array([0.4, -0.3])


def test_gaussian_beliefs_are_fitted_and_whitened(float64):
    """Half of the log density comes from the prior, half from the statistic."""
    precision = jnp.asarray(np.linalg.inv(COVARIANCE))
    half = lambda z: -0.25 * (z - MEAN) @ precision @ (z - MEAN)
    spread = MeanCholesky(jnp.array([0.2, 0.1]), jnp.array([[1.0, 0.0], [0.3, 0.9]]))
    fit = QuadraticFit.around(spread, half, lambda z: half(z)[None], jnp.ones(1))
    mean, factor, whitener = fit.gaussian(jnp.ones(1))
    np.testing.assert_allclose(whitener @ factor, np.eye(2), atol=1e-12)
    np.testing.assert_allclose(mean, MEAN, atol=1e-3)
    np.testing.assert_allclose(factor @ factor.T, COVARIANCE, atol=3e-3)


def test_a_belief_much_narrower_than_the_population_is_fitted_on_a_smaller_region(float64):
    """A gamma law of log v, twenty times narrower than the population and away from its middle."""
    shape = 400.0
    prior, weights = lambda z: jnp.zeros(()), lambda z: shape * (z - jnp.exp(z))
    wide = MeanCholesky(jnp.array([0.6]), jnp.array([[1.0]]))
    fit = QuadraticFit.around(wide, prior, weights, jnp.ones(1))
    assert not fit.is_good
    mean, factor, _ = fit.gaussian(jnp.ones(1))
    np.testing.assert_allclose(mean, 0.0, atol=0.01)
    np.testing.assert_allclose(factor, shape**-0.5, rtol=0.05)

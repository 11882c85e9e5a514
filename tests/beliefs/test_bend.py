"""A quadratic beside a belief: evaluated, seen from another spread, and as a Gaussian."""

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.beliefs.log_quadratic import LogQuadratic
from paramfilter.beliefs.mean_cholesky import MeanCholesky

BEND = ([0.3, -1.2], [[0.5, 0.7], [0.7, -2.0]])
OLD = ([0.2, 1.0], [[0.5, 0.0], [0.4, 2.0]])
NEW = ([-0.4, 2.0], [[0.3, 0.0], [-0.1, 0.9]])


def made(cls, parts):
    return cls(*(jnp.asarray(part, float) for part in parts))


def test_features_and_coefficients_give_the_value(float64):
    bend, point = made(LogQuadratic, BEND), jnp.array([0.7, -0.4])
    by_hand = 0.3 * 0.7 + 1.2 * 0.4 + 0.5 * (0.5 * 0.49 - 2 * 0.7 * 0.28 - 2.0 * 0.16)
    np.testing.assert_allclose(bend.at(point), by_hand, rtol=1e-12)
    np.testing.assert_allclose(LogQuadratic.features(point) @ bend.coefficients, by_hand, rtol=1e-12)


def test_seen_from_another_spread_it_differs_by_a_constant(float64):
    old, new, bend = made(MeanCholesky, OLD), made(MeanCholesky, NEW), made(LogQuadratic, BEND)
    turned = bend.change_coordinates(old, new)
    z = jax.random.normal(jax.random.key(0), (20, 2))
    before, after = (
        jax.vmap(lambda point, spread=spread, form=form: form.at(spread.whiten(point)))(z)
        for spread, form in ((old, bend), (new, turned))
    )
    assert np.ptp(before) > 1
    np.testing.assert_allclose(np.diff(before), np.diff(after), atol=1e-10)


def test_gaussian_has_its_log_density(float64):
    gaussian = made(MeanCholesky, OLD)
    points = jax.random.normal(jax.random.key(1), (20, 2))
    right = jax.scipy.stats.multivariate_normal.logpdf(points, gaussian.mean, gaussian.covariance)
    found = jax.vmap(LogQuadratic.of_gaussian(gaussian).at)(points)
    np.testing.assert_allclose(np.diff(found), np.diff(right), atol=1e-10)

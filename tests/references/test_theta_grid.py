"""The window of theta and what is read between its nodes, on densities that are known."""

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp

from paramfilter.errors import ModelError
from paramfilter.references.surface import Surface
from paramfilter.references.theta_grid import Frame, prior_frame, zoom

MEAN = np.array([0.5, -1.0])
COVARIANCE = np.array([[1.0, 1.8], [1.8, 4.0]])
"""Correlation 0.9."""


@pytest.fixture(scope="module")
def surface():
    """A correlated Gaussian in a frame whose axes are not those of its covariance."""
    frame = Frame(np.array([0.4, -0.8]), np.array([[1.0, 0.0], [1.2, 1.1]]), np.full(2, -9.0), np.full(2, 9.0), 65)
    density = stats.multivariate_normal(MEAN, COVARIANCE).logpdf(frame.nodes)
    return Surface(frame, density + np.sum(np.log(np.diagonal(frame.axes))))


def test_quantiles_of_both_coordinates_are_those_of_the_marginals(surface):
    for coordinate, sd in enumerate(np.sqrt(np.diagonal(COVARIANCE))):
        for share in (0.01, 0.5, 0.9):
            exact = stats.norm(MEAN[coordinate], sd).ppf(share)
            assert surface.quantile(coordinate, share) == pytest.approx(exact, abs=1e-7 * sd)


def test_draws_have_the_covariance_of_the_density(surface):
    num_draws = 50_000
    draws = surface.sample(jax.random.key(0), num_draws)
    whitened = np.linalg.solve(np.linalg.cholesky(COVARIANCE), (draws - MEAN).T)
    # means have variance 1 / n, products 1 / n, squares 2 / n; false alarm below 1e-6 each at 5 standard errors
    assert np.all(np.abs(np.mean(whitened, axis=1)) < 5.0 / np.sqrt(num_draws))
    assert np.all(np.abs(np.cov(whitened) - np.eye(2)) < 5.0 * np.sqrt(2.0 / num_draws))


def log_mass(log_density, frame):
    return logsumexp(log_density(frame.nodes)) + frame.log_cell


@pytest.mark.parametrize("num_nodes", [11, 33])
def test_a_thin_ridge_is_found_and_its_mass_is_right(num_nodes):
    """Correlation 0.9999 and sds of 1e-3: no node of the first window comes near it."""
    covariance = 1e-6 * np.array([[1.0, 0.9999], [0.9999, 1.0]])
    log_density = stats.multivariate_normal([1.234, -2.345], covariance).logpdf
    frame = zoom(log_density, prior_frame(2, num_nodes), nats=18.0)
    # 11 nodes on 14 sds of the window: a spacing of 1.4 sds, whose trapezoid error is 1e-4
    assert log_mass(log_density, frame) == pytest.approx(0.0, abs=1e-3 if num_nodes == 11 else 1e-6)


def test_both_of_two_narrow_modes_are_kept():
    def log_density(v):
        return np.logaddexp(stats.norm(-1.0, 0.01).logpdf(v[:, 0]), stats.norm(1.0, 0.01).logpdf(v[:, 0]))

    frame = zoom(log_density, prior_frame(1, 65), free_nodes=True)
    assert frame.low[0] * frame.axes[0, 0] + frame.origin[0] < -1.08
    assert frame.high[0] * frame.axes[0, 0] + frame.origin[0] > 1.08


def test_a_density_that_never_falls_is_refused_with_the_cure():
    with pytest.raises(ModelError, match=r"no window.*lighter-tailed"):
        zoom(lambda v: np.zeros(len(v)), prior_frame(1, 33))


def test_a_density_that_is_zero_everywhere_is_refused_with_the_cure():
    with pytest.raises(ModelError, match=r"zero, infinite or NaN.*units of ys"):
        zoom(lambda v: np.full(len(v), np.nan), prior_frame(1, 33))


def test_too_few_nodes_are_refused():
    with pytest.raises(ModelError, match="num_nodes=5 is too few"):
        prior_frame(1, 5)

"""Against quadrature: the distribution function of what `invert` returns is the level it was asked for."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import cumulative_simpson

from paramfilter.particles.inverse_cdf import tabulate

LOW, HIGH = np.array([-16.0]), np.array([16.0])
LEVELS = np.linspace(0.001, 0.999, 999)
NUM_FINE = 400_001
MULTIMODAL_ERROR = 2e-3
"""A third of what a KS test on 1e5 draws could see; reached only by two narrow modes far apart."""


def polynomial(coefficients, z):
    return jnp.polyval(coefficients[::-1], z)


@pytest.fixture(scope="module")
def quantiles():
    """Quantiles of exp(polynomial((z - center) / width)) at all levels, for coefficient vectors of one length."""

    @jax.jit
    def compute(coefficients, center, width):
        table = tabulate(
            lambda z: polynomial(coefficients, (z[0] - center) / width), jnp.asarray(LOW), jnp.asarray(HIGH)
        )
        return jax.vmap(table.invert)(jnp.asarray(LEVELS)), table

    return compute


def level_errors(coefficients, center, width, quantiles):
    """Distribution function at the quantiles minus the levels, by fine quadrature over the bulk."""
    fine = np.linspace(-12.0, 12.0, NUM_FINE)
    log_density = np.polynomial.polynomial.polyval(fine, coefficients)
    density = np.exp(log_density - log_density.max())
    cumulative = cumulative_simpson(density, x=fine, initial=0.0)
    return np.interp((quantiles - center) / width, fine, cumulative / cumulative[-1]) - LEVELS


def random_coefficients(key, degree=8):
    """A random even polynomial log density: many are skew, some have two or three modes."""
    coefficients = jax.random.normal(key, (degree + 1,)) * 0.6 ** jnp.arange(degree + 1) * 2.0
    return np.asarray(coefficients.at[degree].set(-0.02 - jnp.abs(coefficients[degree])), np.float64)


@pytest.mark.parametrize("seed", range(60))
def test_quantiles_of_random_log_polynomials_are_right(seed, quantiles, float64):
    coefficients = random_coefficients(jax.random.key(seed))
    found, _ = quantiles(jnp.asarray(coefficients), 0.0, 1.0)
    assert np.max(np.abs(level_errors(coefficients, 0.0, 1.0, np.asarray(found)))) < MULTIMODAL_ERROR


@pytest.mark.parametrize(("center", "width"), [(0.0, 1e-4), (7.3, 1e-4), (-15.0, 1e-3), (3.0, 0.9)])
def test_narrow_and_far_peaks_are_found(center, width, quantiles, float64):
    coefficients = np.array([0.0, 0.0, -0.5, 0, 0, 0, 0, 0, 0])
    found, _ = quantiles(jnp.asarray(coefficients), center, width)
    assert np.max(np.abs(level_errors(coefficients, center, width, np.asarray(found)))) < 1e-4


def test_two_separate_modes_keep_their_shares(quantiles, float64):
    # exp(-(u^2 - 9)^2 / 4 + u / 4): modes at about -3 and 3, the right one heavier by exp(1.5).
    coefficients = np.array([-81 / 4, 0.25, 18 / 4, 0, -0.25, 0, 0, 0, 0])
    found, _ = quantiles(jnp.asarray(coefficients), 0.0, 1.0)
    assert np.max(np.abs(level_errors(coefficients, 0.0, 1.0, np.asarray(found)))) < MULTIMODAL_ERROR


def test_log_normaliser_and_moments_of_a_normal_are_exact(quantiles, float64):
    _, table = quantiles(jnp.array([0.0, 0.0, -0.5, 0, 0, 0, 0, 0, 0]), 1.0, 0.3)
    assert float(table.log_normaliser) == pytest.approx(np.log(0.3 * np.sqrt(2 * np.pi)), abs=1e-6)
    mean = jnp.sum(table.weights * table.points)
    assert float(mean) == pytest.approx(1.0, abs=1e-6)
    assert float(jnp.sum(table.weights * (table.points - mean) ** 2)) == pytest.approx(0.09, rel=1e-4)


def test_float32_draws_follow_the_density():
    """KS over 1e5 draws; the limit 2.7/sqrt(n) has a false-alarm rate of 1e-6."""
    num_draws = 100_000
    coefficients = jnp.array([0.0, 0.5, 1.0, 0.2, -0.5])

    @jax.jit
    def draw(keys):
        table = tabulate(lambda z: polynomial(coefficients, z[0]), jnp.asarray(LOW, float), jnp.asarray(HIGH, float))
        return jax.vmap(lambda key: table.invert(jax.random.uniform(key)))(keys)

    draws = np.sort(np.asarray(draw(jax.random.split(jax.random.key(0), num_draws)), np.float64))
    fine = np.linspace(-6, 6, NUM_FINE)
    density = np.exp(np.polynomial.polynomial.polyval(fine, np.asarray(coefficients, np.float64)))
    cumulative = cumulative_simpson(density, x=fine, initial=0.0)
    levels = np.interp(draws, fine, cumulative / cumulative[-1])
    distance = np.max(np.abs(levels - (np.arange(num_draws) + 0.5) / num_draws))
    assert distance < 2.7 / np.sqrt(num_draws)


def test_a_density_that_is_cut_off_says_so(quantiles, float64):
    _, table = quantiles(jnp.array([0.0, 1.0, 0, 0, 0, 0, 0, 0, 0]), 0.0, 1.0)
    assert bool(table.at_edge)
    _, table = quantiles(jnp.array([0.0, 0.0, -0.5, 0, 0, 0, 0, 0, 0]), 0.0, 1.0)
    assert not bool(table.at_edge)

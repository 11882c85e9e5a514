"""Log-weight arithmetic: right where it should be, and never NaN."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paramfilter.numerics.weights import (
    choose_by_weight,
    effective_sample_size,
    mixture_mean_and_variance,
    normalise,
    relative_weights,
    weighted_mean_and_variance,
)

NUM_PARTICLES = 100
BATCH = 200  # random weight vectors in one compiled call
SPREADS = (0.0, 1e-3, 1.0, 30.0, 1e4)  # sd of the log-weights: from equal weights to one that has all

NAN, INF = float("nan"), float("inf")
DEAD = {"all -inf": [-INF, -INF, -INF], "all NaN": [NAN, NAN, NAN], "both": [NAN, -INF, NAN]}

normalise_all = jax.jit(jax.vmap(normalise))
ess_of_all = jax.jit(jax.vmap(effective_sample_size))
moments = jax.jit(weighted_mean_and_variance)


def random_log_weights(seed: int, spread: float) -> jax.Array:
    """A batch of vectors with a random offset each, some weights zero, some NaN, but never all."""
    key_normal, key_offset, key_zero, key_nan = jax.random.split(jax.random.key(seed), 4)
    shape = (BATCH, NUM_PARTICLES)
    log_weights = spread * jax.random.normal(key_normal, shape)
    log_weights += 1e3 * jax.random.normal(key_offset, (BATCH, 1))
    log_weights = jnp.where(jax.random.bernoulli(key_zero, 0.2, shape), -INF, log_weights)
    log_weights = jnp.where(jax.random.bernoulli(key_nan, 0.1, shape), NAN, log_weights)
    return log_weights.at[:, 0].set(0.0)


seeds_and_spreads = given(seed=st.integers(0, 2**31 - 1), spread=st.sampled_from(SPREADS))


@seeds_and_spreads
def test_normalised_weights_sum_to_one_and_hold_no_nan(seed, spread):
    log_weights, log_total = normalise_all(random_log_weights(seed, spread))
    assert not jnp.isnan(log_weights).any()
    assert jnp.isfinite(log_total).all()
    # 100 float32 terms, each rounded to one part in 1.7e7.
    np.testing.assert_allclose(jnp.exp(log_weights).sum(axis=1), 1.0, rtol=1e-5)


@seeds_and_spreads
def test_effective_sample_size_lies_between_one_and_n(seed, spread):
    log_weights = random_log_weights(seed, spread)
    size = ess_of_all(log_weights)
    assert ((size >= 1.0) & (size <= NUM_PARTICLES)).all()
    # The same whether or not the weights are normalised; float32 log-weights near 1e3 carry 6e-5 each.
    np.testing.assert_allclose(size, ess_of_all(normalise_all(log_weights)[0]), rtol=1e-3)


@pytest.mark.parametrize("num_equal", [1, 2, 50, 100])
def test_effective_sample_size_counts_equal_weights(num_equal):
    log_weights = jnp.where(jnp.arange(NUM_PARTICLES) < num_equal, -700.0, -INF)
    assert effective_sample_size(log_weights) == num_equal


def test_effective_sample_size_is_that_of_kong_liu_and_wong():
    # (1 + 2 + 3)^2 / (1 + 4 + 9)
    assert effective_sample_size(jnp.log(jnp.array([1.0, 2.0, 3.0]))) == pytest.approx(36 / 14, rel=1e-6)


def test_particles_are_chosen_by_weight():
    weights = np.array([0.1, 0.2, 0.3, 0.4])
    counts = np.bincount(choose_by_weight(jax.random.key(6), jnp.log(jnp.asarray(weights)), 1000), minlength=4)
    assert np.all(np.abs(counts - 1000 * weights) <= 1)  # systematic: at most one off


def test_mixture_varies_within_its_parts_and_between_them():
    log_weights = jnp.log(jnp.array([1.0, 3.0]))
    mean, variance = mixture_mean_and_variance(log_weights, {"a": jnp.array([0.0, 4.0])}, {"a": jnp.array([1.0, 2.0])})
    assert mean["a"] == pytest.approx(3.0, rel=1e-6)
    assert variance["a"] == pytest.approx((1 * 1 + 3 * 2) / 4 + (1 * 9 + 3 * 1) / 4, rel=1e-6)


def test_total_of_weights_is_found_far_from_zero(float64):
    log_weights = jnp.log(jnp.array([1.0, 2.0, 5.0])) - 1e5
    _, log_total = normalise(log_weights)
    np.testing.assert_allclose(log_total, np.log(8.0) - 1e5, rtol=1e-15)


def test_huge_log_weights_still_sum_to_one_in_float32():
    # Neighbouring float32 numbers near 1e6 are 0.0625 apart: subtracting log_total would miss by as much.
    log_weights = jnp.float32(-1e6) + jnp.array([0.0, 0.0, 0.0], jnp.float32)
    np.testing.assert_allclose(jnp.exp(normalise(log_weights)[0]), 1 / 3, rtol=1e-6)


@pytest.mark.parametrize("log_weights", DEAD.values(), ids=DEAD.keys())
def test_dead_population_is_reported_without_nan(log_weights):
    log_weights = jnp.array(log_weights)
    equal, log_total = normalise(log_weights)
    np.testing.assert_allclose(equal, -np.log(3.0), rtol=1e-6)
    assert log_total == -INF
    assert effective_sample_size(log_weights) == 0.0
    assert (relative_weights(log_weights) == 0.0).all()


def test_dead_population_has_the_unweighted_mean():
    mean, variance = moments(jnp.full(3, -INF), jnp.array([0.0, 3.0, 6.0]))
    np.testing.assert_allclose([mean, variance], [3.0, 6.0], rtol=1e-6)


def test_infinite_weights_share_everything_equally():
    log_weights = jnp.array([INF, 0.0, INF, -INF, NAN])
    normalised, log_total = normalise(log_weights)
    np.testing.assert_allclose(jnp.exp(normalised), [0.5, 0.0, 0.5, 0.0, 0.0], rtol=1e-6)
    assert log_total == INF
    assert effective_sample_size(log_weights) == 2.0


@pytest.mark.parametrize("poison", [NAN, INF, -INF])
def test_value_of_a_weightless_particle_never_leaks(poison):
    values = jnp.array([[1.0, 10.0], [3.0, 30.0], [poison, poison]])
    mean, variance = moments(jnp.array([0.0, 0.0, -INF]), values)
    np.testing.assert_allclose(mean, [2.0, 20.0], rtol=1e-6)
    np.testing.assert_allclose(variance, [1.0, 100.0], rtol=1e-6)


def test_value_of_an_underflowing_particle_never_leaks():
    mean, variance = moments(jnp.array([0.0, -1e5]), jnp.array([2.0, NAN]))
    assert (mean, variance) == (2.0, 0.0)


def test_nan_held_by_a_particle_with_weight_is_not_hidden():
    mean, _ = moments(jnp.array([0.0, 0.0]), jnp.array([1.0, NAN]))
    assert jnp.isnan(mean)


def test_moments_agree_with_numpy(float64):
    key_weights, key_values = jax.random.split(jax.random.key(3))
    log_weights = jax.random.normal(key_weights, (NUM_PARTICLES,))
    values = 5.0 + jax.random.normal(key_values, (NUM_PARTICLES, 2))
    mean, variance = moments(log_weights, values)
    weights = np.exp(np.asarray(log_weights))
    expected = np.average(values, axis=0, weights=weights)
    np.testing.assert_allclose(mean, expected, rtol=1e-13)
    np.testing.assert_allclose(variance, np.average((values - expected) ** 2, axis=0, weights=weights), rtol=1e-12)


def test_moments_of_values_far_from_zero_keep_their_digits_in_float32():
    # 1e5 particles around 1000 with sd 1. The mean is right to a few units of the last place of 1000 (6e-5).
    num_particles = 100_000
    key_weights, key_values = jax.random.split(jax.random.key(4))
    log_weights = jax.random.normal(key_weights, (num_particles,))
    values = 1000.0 + jax.random.normal(key_values, (num_particles,))
    mean, variance = moments(log_weights, values)
    weights = np.exp(np.asarray(log_weights, np.float64))
    expected = np.average(np.asarray(values, np.float64), weights=weights)
    spread = np.average((np.asarray(values, np.float64) - expected) ** 2, weights=weights)
    np.testing.assert_allclose(mean, expected, atol=3e-4)
    np.testing.assert_allclose(variance, spread, rtol=1e-4)


def test_order_of_particles_does_not_matter(float64):
    key_weights, key_values, key_order = jax.random.split(jax.random.key(5), 3)
    log_weights = 3.0 * jax.random.normal(key_weights, (NUM_PARTICLES,))
    values = jax.random.normal(key_values, (NUM_PARTICLES,))
    order = jax.random.permutation(key_order, NUM_PARTICLES)

    def summary(log_weights, values):
        return jnp.stack(
            [
                normalise(log_weights)[1],
                effective_sample_size(log_weights),
                *moments(log_weights, values),
            ]
        )

    np.testing.assert_allclose(summary(log_weights[order], values[order]), summary(log_weights, values), rtol=1e-12)


def test_gradient_of_the_total_is_the_normalised_weights():
    log_weights = jnp.array([0.0, 1.0, 1.0, -INF, -3.0])
    gradient = jax.grad(lambda log_weights: normalise(log_weights)[1])(log_weights)
    np.testing.assert_allclose(gradient, jnp.exp(normalise(log_weights)[0]), rtol=1e-5)


@pytest.mark.parametrize("dtype", [jnp.float32, jnp.float64])
def test_dtype_follows_the_input(float64, dtype):
    log_weights = jnp.zeros(4, dtype)
    results = [
        *normalise(log_weights),
        relative_weights(log_weights),
        effective_sample_size(log_weights),
        *weighted_mean_and_variance(log_weights, log_weights),
    ]
    assert {result.dtype for result in results} == {jnp.dtype(dtype)}
    assert not any(result.weak_type for result in results)

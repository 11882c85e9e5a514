"""Resampling only when it is needed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import TypeCheckError

from paramfilter.errors import ParamfilterError
from paramfilter.numerics.weights import effective_sample_size, normalise
from paramfilter.resampling import Multinomial, Systematic, WhenEssBelow

INF = float("inf")
HALF = WhenEssBelow(0.5, Systematic())
NUM_PARTICLES = 100
resample = jax.jit(HALF.resample)


def weights_with_ess(num_equal: int) -> jax.Array:
    return jnp.where(jnp.arange(NUM_PARTICLES) < num_equal, 3.0, -INF)


@pytest.mark.parametrize(("num_equal", "happens"), [(1, True), (49, True), (50, False), (100, False)])
def test_resamples_strictly_below_the_fraction(num_equal, happens):
    result = resample(jax.random.key(0), weights_with_ess(num_equal))
    assert result.happened == happens


def test_even_weights_are_left_alone_but_normalised():
    log_weights = 5.0 + 0.1 * jax.random.normal(jax.random.key(1), (NUM_PARTICLES,))
    result = resample(jax.random.key(2), log_weights)
    assert not result.happened
    assert (result.ancestors == jnp.arange(NUM_PARTICLES)).all()
    np.testing.assert_allclose(result.log_weights, normalise(log_weights)[0], rtol=1e-6)


def test_uneven_weights_are_resampled_by_the_scheme():
    log_weights = 3.0 * jax.random.normal(jax.random.key(3), (NUM_PARTICLES,))
    result = resample(jax.random.key(4), log_weights)
    expected = jax.jit(Systematic().resample)(jax.random.key(4), log_weights)
    assert result.happened
    assert (result.ancestors == expected.ancestors).all()
    np.testing.assert_allclose(result.log_weights, -np.log(NUM_PARTICLES), rtol=1e-6)


def test_dead_population_is_left_alone():
    result = resample(jax.random.key(5), jnp.full(NUM_PARTICLES, -INF))
    assert not result.happened
    assert (result.ancestors == jnp.arange(NUM_PARTICLES)).all()
    assert jnp.isfinite(result.log_weights).all()


def test_each_row_of_a_batch_decides_for_itself():
    rows = jnp.stack([weights_with_ess(n) for n in (10, 90, 0)])
    result = jax.jit(jax.vmap(HALF.resample))(jax.random.split(jax.random.key(6), 3), rows)
    assert result.happened.tolist() == [True, False, False]


def test_scan_keeps_the_effective_sample_size_up():
    num_steps = 200

    def step(log_weights, key):
        key_weights, key_resample = jax.random.split(key)
        log_weights = log_weights + jax.random.normal(key_weights, log_weights.shape)
        result = HALF.resample(key_resample, log_weights)
        return result.log_weights, (result.happened, effective_sample_size(result.log_weights))

    keys = jax.random.split(jax.random.key(7), num_steps)
    last, (happened, sizes) = jax.jit(lambda: jax.lax.scan(step, normalise(jnp.zeros(NUM_PARTICLES))[0], keys))()
    assert 0 < happened.sum() < num_steps
    assert (sizes >= 0.5 * NUM_PARTICLES - 0.01).all()
    np.testing.assert_allclose(jnp.exp(last).sum(), 1.0, rtol=1e-5)


@pytest.mark.parametrize("fraction", [0.0, -0.5, 1.01, 50.0, float("nan"), INF])
def test_impossible_fraction_is_refused_with_a_cure(fraction):
    with pytest.raises(ParamfilterError, match=r"above 0 and at most 1, got .*write WhenEssBelow\(0\.5"):
        WhenEssBelow(fraction, Systematic())


def test_class_in_place_of_an_instance_is_refused():
    # The checks of annotations that run during tests come first; without them the library's own error does.
    with pytest.raises((ParamfilterError, TypeCheckError)):
        WhenEssBelow(0.5, Systematic)  # pyright: ignore[reportArgumentType]


def test_parts_are_values():
    assert WhenEssBelow(0.5, Systematic()) == HALF
    assert len({HALF, WhenEssBelow(0.5, Systematic()), WhenEssBelow(0.5, Multinomial())}) == 2

"""The error of a belief in nats, from its misses at check points."""

import jax.numpy as jnp
import numpy as np
import pytest

from paramfilter.particles.accuracy import CAUTION, error_over_bulk


def test_a_constant_miss_is_no_error():
    assert float(error_over_bulk(jnp.full(5, 40.0), jnp.zeros(5))) == pytest.approx(0.0, abs=1e-4)


def test_error_is_the_spread_of_the_misses_times_a_caution():
    misses = jnp.array([0.01, -0.01, 0.01, -0.01])  # so small that believed and exact weights are the same
    assert float(error_over_bulk(misses, jnp.zeros(4))) == pytest.approx(CAUTION * 0.01, rel=1e-3)
    assert float(error_over_bulk(misses.at[0].set(jnp.nan), jnp.zeros(4))) == np.inf


def test_a_belief_far_from_its_check_points_or_without_numbers_has_gone_astray():
    misses, alone = jnp.array([1e-4, -1e-4, 0.0]), jnp.array([0.0, -1e3, -1e3])
    assert error_over_bulk(misses, alone) == jnp.inf
    assert error_over_bulk(misses.at[0].set(jnp.nan), jnp.zeros(3)) == jnp.inf

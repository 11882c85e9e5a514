"""Sums of ten million float32 terms keep seven digits."""

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.numerics.compensated import CompensatedSum

NUM_TERMS = 10_000_000


def terms(index):
    """Positive terms of uneven size, so that plain float32 sums drift."""
    return 0.1 + 0.9 * jnp.abs(jnp.sin(0.37 * index.astype(jnp.float32)))


def exact_sum():
    total = 0.0
    for start in range(0, NUM_TERMS, 1_000_000):
        total += float(np.sum(np.asarray(terms(jnp.arange(start, start + 1_000_000))), dtype=np.float64))
    return total


def test_ten_million_float32_terms_are_added_to_seven_digits():
    @jax.jit
    def both():
        def add(index, carry):
            compensated, plain = carry
            return compensated.add(terms(index)), plain + terms(index)

        start = (CompensatedSum.start(jnp.float32(0.0)), jnp.float32(0.0))
        return jax.lax.fori_loop(0, NUM_TERMS, add, start)

    compensated, plain = both()
    exact = exact_sum()
    assert abs(float(compensated.value) / exact - 1) < 2e-7
    assert abs(float(plain) / exact - 1) > 1e-5  # what would happen without


def test_an_infinite_term_shows_and_does_not_turn_into_nan():
    total = CompensatedSum.start(jnp.float32(1.0)).add(jnp.float32(jnp.inf)).add(jnp.float32(1.0))
    assert float(total.value) == np.inf

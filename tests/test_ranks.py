"""Uniform ranks raise no alarm however long the history, on a lattice or between its points; others do."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from paramfilter.diagnostics.diagnosis import NUM_BINS, NUM_RANKS, SURPRISE_LIMIT
from paramfilter.numerics.ranks import count_ranks, uniformity_p_value
from paramfilter.particles.forecasts import Forecasts, predictive_rank

NUM_HISTORIES = 100

KINDS = {
    "shares of forecasts": lambda key, shape: jax.random.randint(key, shape, 0, NUM_RANKS) * jnp.float32(0.01),
    "between 0 and 1": jax.random.uniform,
}


def chance(ranks):
    return uniformity_p_value(np.asarray(ranks), NUM_RANKS, NUM_BINS)


@pytest.mark.parametrize("num_steps", [3_000, 30_000, 300_000])
@pytest.mark.parametrize("kind", KINDS)
def test_uniform_ranks_raise_no_alarm(kind, num_steps):
    keys = jax.random.split(jax.random.key(num_steps), NUM_HISTORIES)
    chances = np.array([chance(KINDS[kind](key, (num_steps,))) for key in keys])
    assert np.mean(chances < SURPRISE_LIMIT) <= 0.01
    # Sharper: the probabilities are uniform. Their mean has a standard error of 0.03, and five of them are 0.15.
    assert abs(np.mean(chances) - 0.5) < 0.15


@pytest.mark.parametrize("is_count", [False, True])
def test_an_observation_among_its_forecasts_has_a_uniform_rank(is_count):
    """One of 101 exchangeable draws, and most counts are ties."""

    @jax.jit
    @jax.vmap
    def rank(key):
        key_draw, key_rank = jax.random.split(key)
        drawn = jax.random.normal(key_draw, (NUM_RANKS,))
        drawn = jnp.floor(jnp.exp(0.5 * drawn)) if is_count else drawn
        return predictive_rank(Forecasts(drawn[1:], jax.random.uniform(key_rank)), drawn[0])

    ranks = np.asarray(rank(jax.random.split(jax.random.key(1), 30_000)), float)
    assert np.min(ranks) >= 0 and np.max(ranks) <= 1
    assert chance(ranks) > 1e-4
    assert uniformity_p_value(ranks * NUM_RANKS % 1, 10, 10) > 1e-4, "uniform between two ranks as well"


@pytest.mark.parametrize("num_steps", [300, 30_000])
def test_wrong_forecasts_are_noticed(num_steps):
    """Noise that is too narrow or too wide by a factor of two, and a shift of one sd."""
    y = jax.random.normal(jax.random.key(2), (num_steps,))
    for seen in (2.0 * y, 0.5 * y, y + 1.0):
        assert chance(jax.scipy.special.ndtr(seen)) < SURPRISE_LIMIT


def test_bins_expect_as_many_as_they_hold():
    counts, expected = count_ranks(np.array([0.0, 0.5, 1.0, np.nan]), 5, 2)
    assert counts.tolist() == [2, 1] and expected == pytest.approx([1.8, 1.2])

"""Resampling draws from the law it claims: unbiased counts, and the joint law that blackjax draws from.

Tolerances are in standard errors. Seeds are fixed: a false alarm can only appear when the code changes.
"""

from collections.abc import Callable
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from blackjax.smc import resampling as blackjax_resampling

from paramfilter.resampling import Multinomial, Resampling, Systematic

SCHEMES = (Systematic(), Multinomial())
NUM_PARTICLES = 64
NUM_DRAWS = 100_000
DRAWS_AT_ONCE = 100  # a batch that stays in the cache: twice as fast as all draws at once
NUM_DRAWS_OF_MOMENTS = 10_000
# Weights as the schemes see them are float32 exponentials; their counts inherit a relative error below this.
ROUNDING = 1e-5

# P(|z| > 5.5) = 3.8e-8 for one count. A scheme's test looks at 20 x 64 counts: its false-alarm rate is 5e-5,
# and that of the five tests together 2e-4.
MAX_Z_OF_COUNTS = 5.5
# P(|z| > 6.5) = 8e-11 for one moment, and a test looks at 127 of them: false-alarm rate 1e-8.
MAX_Z_OF_MOMENTS = 6.5
# Normal limits need a few hundred events; what is expected once in a billion runs must never happen.
MIN_EXPECTED_EVENTS = 200
NEVER = 1e-9

Counts = jax.Array


@jax.jit
def draw_dirichlet(concentration: jax.Array) -> jax.Array:
    concentrations = jnp.full(NUM_PARTICLES, concentration, jnp.float32)
    return jax.random.dirichlet(jax.random.key(0), concentrations, (4,), jnp.float32)


@cache
def dirichlet_vectors(concentration: float) -> list[np.ndarray]:
    return list(np.asarray(draw_dirichlet(jnp.float32(concentration)), np.float64))


def weight_vectors(tail: float) -> dict[str, np.ndarray]:
    """Twenty weight vectors; `tail` is a weight that is positive but far below all others."""
    index = np.arange(NUM_PARTICLES)
    ones = np.ones(NUM_PARTICLES)
    vectors = {
        "equal": ones,
        "one-hot, first": ones * (index == 0),
        "one-hot, middle": ones * (index == 31),
        "one-hot, last": ones * (index == 63),
        "half the mass on one": np.where(index == 20, 63.0, 1.0),
        "two with three quarters": np.where((index == 5) | (index == 63), 93.0, 1.0),
        "leading zeros": ones * (index >= 40),
        "trailing zeros": ones * (index < 40) * (1.0 + index),
        "alternating zeros": ones * (index % 2) * (64.0 - index),
        "tails around a bulk": np.where((index > 20) & (index < 40), 1.0 + index, tail),
        "tails beside one": np.where(index == 17, 1.0, tail),
        "linear": 1.0 + index,
    }
    for concentration in (2.0, 20.0):
        for i, weights in enumerate(dirichlet_vectors(concentration)):
            vectors[f"Dirichlet({concentration:g}), {i}"] = weights
    return vectors


def log_of(weights: np.ndarray) -> jax.Array:
    """Log-weights in the default dtype of the test."""
    with np.errstate(divide="ignore"):
        return jnp.asarray(np.log(weights))


def counts_of(ancestors: jax.Array) -> Counts:
    return jnp.bincount(ancestors, length=NUM_PARTICLES)


@partial(jax.jit, static_argnames="scheme")
def mean_and_error_of_counts(key: jax.Array, log_weights: jax.Array, scheme: Resampling) -> tuple[jax.Array, jax.Array]:
    """Means of the counts over all draws, with their standard errors."""

    def sums_of_some(keys: jax.Array) -> tuple[Counts, Counts]:
        counts = jax.vmap(lambda key: counts_of(scheme.resample(key, log_weights).ancestors))(keys)
        return counts.sum(axis=0), (counts**2).sum(axis=0)

    keys = jax.random.split(key, (NUM_DRAWS // DRAWS_AT_ONCE, DRAWS_AT_ONCE))
    # Whole numbers, below 2^31: 1e5 draws of at most 64^2.
    first, second = (moment.sum(axis=0) / NUM_DRAWS for moment in jax.lax.map(sums_of_some, keys))
    return first, jnp.sqrt(jnp.maximum(second - first**2, 0.0) / NUM_DRAWS)


def exact_counts(log_weights: jax.Array) -> np.ndarray:
    """N w_i in float64, from the log-weights as they were handed over."""
    precise = np.asarray(log_weights, np.float64)
    weights = np.exp(precise - precise.max())
    return len(weights) * weights / weights.sum()


def assert_unbiased(scheme: Resampling, vectors: dict[str, np.ndarray], seed: int) -> None:
    for name, key in zip(vectors, jax.random.split(jax.random.key(seed), len(vectors)), strict=True):
        log_weights = log_of(vectors[name])
        expected = exact_counts(log_weights)
        is_never = expected * NUM_DRAWS <= NEVER
        assert (is_never | (expected * NUM_DRAWS >= MIN_EXPECTED_EVENTS)).all(), name
        mean, standard_error = map(np.asarray, mean_and_error_of_counts(key, log_weights, scheme))
        assert (mean[is_never] == 0.0).all(), name
        allowed = MAX_Z_OF_COUNTS * standard_error + ROUNDING * expected
        assert (np.abs(mean - expected) <= allowed)[~is_never].all(), name


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_expected_counts_are_n_times_the_weights_in_float32(scheme):
    vectors = weight_vectors(tail=1e-30)
    assert len(vectors) == 20
    assert_unbiased(scheme, vectors, seed=1)


def test_expected_counts_are_n_times_the_weights_in_float64(float64):
    # One scheme is enough: floats are turned into integers before the schemes part ways.
    vectors = weight_vectors(tail=1e-300)
    chosen = ("tails around a bulk", "tails beside one", "Dirichlet(2), 1")
    assert_unbiased(Systematic(), {name: vectors[name] for name in chosen}, seed=2)


Resampler = Callable[[jax.Array, jax.Array], jax.Array]  # key, log_weights -> ancestors


def ours(scheme: Resampling) -> Resampler:
    return lambda key, log_weights: scheme.resample(key, log_weights).ancestors


def blackjax(name: str) -> Resampler:
    resample = getattr(blackjax_resampling, name)
    return lambda key, log_weights: resample(key, jax.nn.softmax(log_weights), NUM_PARTICLES)


def mean_and_error_of_products(resampler: Resampler, key: jax.Array) -> tuple[np.ndarray, np.ndarray]:
    """Means of `n_i^2` and `n_i n_{i+1}` over many draws, with their standard errors."""
    log_weights = log_of(weight_vectors(tail=1e-30)["Dirichlet(2), 0"])

    @jax.jit
    def products(keys: jax.Array) -> jax.Array:
        counts = jax.vmap(lambda key: counts_of(resampler(key, log_weights)))(keys)
        return jnp.concatenate([counts**2, counts[:, 1:] * counts[:, :-1]], axis=1)

    drawn = np.asarray(products(jax.random.split(key, NUM_DRAWS_OF_MOMENTS)), np.float64)
    return drawn.mean(axis=0), drawn.std(axis=0) / np.sqrt(NUM_DRAWS_OF_MOMENTS)


def largest_z_between(one: Resampler, other: Resampler) -> float:
    key_one, key_other = jax.random.split(jax.random.key(3))
    mean_one, error_one = mean_and_error_of_products(one, key_one)
    mean_other, error_other = mean_and_error_of_products(other, key_other)
    error = np.hypot(error_one, error_other)
    # Pairs that no draw contains together agree exactly and have no error; anything else must not.
    safe_error = np.where(error > 0.0, error, NEVER)
    return np.max(np.abs(mean_one - mean_other) / safe_error)


@pytest.mark.parametrize("scheme", SCHEMES, ids=repr)
def test_counts_vary_together_as_those_of_blackjax_do(scheme):
    theirs = blackjax(type(scheme).__name__.lower())
    assert largest_z_between(ours(scheme), theirs) < MAX_Z_OF_MOMENTS


def test_this_comparison_can_tell_schemes_apart():
    assert largest_z_between(ours(Systematic()), ours(Multinomial())) > 2 * MAX_Z_OF_MOMENTS

"""What holds for every draw: bounds on the copies, zero weights, bad weights, large populations."""

from functools import partial

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paramfilter.resampling import Multinomial, Resampled, Systematic

NAN, INF = float("nan"), float("inf")
SCHEMES = {
    "systematic": Systematic(),
    "multinomial": Multinomial(),
}
NAMES = tuple(SCHEMES)

# The exact `N w_i` is computed in float64; float32 exponentials differ from it by less than this.
ROUNDING = 1e-4
FEW = 20
NUMBERS_OF_PARTICLES = (1, FEW)  # each costs seconds of compilation
BATCH = 2_000  # cases in one compiled call; 50 examples of hypothesis make 1e5 cases
LARGE = 1_000_000


def resample_by_all(key: jax.Array, log_weights: jax.Array) -> dict[str, Resampled]:
    return {name: scheme.resample(key, log_weights) for name, scheme in SCHEMES.items()}


resample_one = jax.jit(resample_by_all)
resample_batch = jax.jit(jax.vmap(resample_by_all))


@partial(jax.jit, static_argnames="num_particles")
def random_log_weights(key: jax.Array, num_particles: int, spread: float, zeros: float) -> jax.Array:
    """A batch of random vectors with a share of zeros and a few NaN; small ones may have no weight at all."""
    key_normal, key_offset, key_zero, key_nan = jax.random.split(key, 4)
    shape = (BATCH, num_particles)
    log_weights = spread * jax.random.normal(key_normal, shape)
    log_weights += 100.0 * jax.random.normal(key_offset, (BATCH, 1))
    log_weights = jnp.where(jax.random.bernoulli(key_zero, zeros, shape), -INF, log_weights)
    return jnp.where(jax.random.bernoulli(key_nan, 0.02, shape), NAN, log_weights)


def exact_counts(log_weights: jax.Array) -> np.ndarray:
    """N w_i in float64, row by row; NaN for a row without any weight."""
    precise = np.asarray(log_weights, np.float64)
    precise = np.where(np.isnan(precise), -INF, precise)
    with np.errstate(invalid="ignore"):
        weights = np.exp(precise - precise.max(axis=-1, keepdims=True))
    return precise.shape[-1] * weights / weights.sum(axis=-1, keepdims=True)


def counts_by_row(ancestors: np.ndarray) -> np.ndarray:
    num_rows, num_particles = ancestors.shape
    flat = ancestors + num_particles * np.arange(num_rows)[:, None]
    return np.bincount(flat.ravel(), minlength=ancestors.size).reshape(ancestors.shape)


@pytest.mark.slow
@given(
    seed=st.integers(0, 2**31 - 1),
    num_particles=st.sampled_from(NUMBERS_OF_PARTICLES),
    spread=st.sampled_from((0.0, 0.1, 1.0, 5.0, 50.0)),
    zeros=st.sampled_from((0.0, 0.3, 0.95)),
)
def test_every_draw_keeps_its_promises(seed, num_particles, spread, zeros):
    key_weights, key_resample = jax.random.split(jax.random.key(seed))
    log_weights = random_log_weights(key_weights, num_particles, spread, zeros)
    results = resample_batch(jax.random.split(key_resample, BATCH), log_weights)
    expected = exact_counts(log_weights)
    is_dead = np.isnan(expected).all(axis=1)
    alive = expected[~is_dead]
    for name, result in results.items():
        ancestors = np.asarray(result.ancestors)
        assert (ancestors >= 0).all() and (ancestors < num_particles).all()
        assert (np.diff(ancestors, axis=1) >= 0).all()
        assert (np.asarray(result.happened) == ~is_dead).all()
        np.testing.assert_allclose(result.log_weights, -np.log(num_particles), rtol=1e-6)
        assert (ancestors[is_dead] == np.arange(num_particles)).all()

        counts = counts_by_row(ancestors)[~is_dead]
        assert (counts[alive == 0.0] == 0).all()
        if name == "systematic":
            assert (np.abs(counts - alive) < 1.0 + ROUNDING).all()


def large_weights(pattern: str) -> jax.Array:
    index = jnp.arange(LARGE)
    log_weights = jax.random.normal(jax.random.key(7), (LARGE,))
    has_weight = {
        "leading zeros": index >= LARGE // 2,
        "trailing zeros": index < LARGE // 2,
        "alternating zeros": index % 2 == 1,
        "zeros at both ends": (index > 0) & (index < LARGE - 1),
        "a thousand survivors": index % 1000 == 999,
    }[pattern]
    return jnp.where(has_weight, log_weights, -INF)


@pytest.mark.parametrize(
    "pattern",
    [
        "leading zeros",
        "trailing zeros",
        "alternating zeros",
        "zeros at both ends",
        "a thousand survivors",
    ],
)
def test_zero_weight_is_never_chosen_among_a_million_in_float32(pattern):
    log_weights = large_weights(pattern)
    for name, result in resample_one(jax.random.key(8), log_weights).items():
        ancestors = np.asarray(result.ancestors)
        assert ancestors.min() >= 0 and ancestors.max() < LARGE, name
        assert np.isfinite(np.asarray(log_weights)[ancestors]).all(), name


def test_million_equal_weights_get_one_copy_each_in_float32():
    results = resample_one(jax.random.key(9), jnp.zeros(LARGE))
    assert (results["systematic"].ancestors == jnp.arange(LARGE)).all()


def test_last_particles_of_a_million_get_no_more_than_their_share():
    # Ends of 10,000 particles: their count is binomial with sd 100. P(|z| > 6) = 2e-9, four times.
    end, max_z = 10_000, 6.0
    for seed in (10, 11):
        ancestors = np.asarray(resample_one(jax.random.key(seed), jnp.zeros(LARGE))["multinomial"].ancestors)
        for count in (np.sum(ancestors < end), np.sum(ancestors >= LARGE - end)):
            assert abs(count - end) < max_z * np.sqrt(end)


def test_systematic_copies_stay_within_one_among_a_million_in_float32():
    log_weights = 2.0 * jax.random.normal(jax.random.key(12), (LARGE,))
    expected = exact_counts(log_weights)
    ancestors = np.asarray(resample_one(jax.random.key(13), log_weights)["systematic"].ancestors)
    counts = np.bincount(ancestors, minlength=LARGE)
    # The largest share is a few thousand copies, and a float32 weight knows it to a relative 1e-6.
    assert (np.abs(counts - expected) < 1.0 + 1e-6 * expected + ROUNDING).all()


BAD = {
    "NaN is a weight of zero": ([0.0, NAN, 1.0, NAN, -1.0, 0.5, NAN], [0, 2, 4, 5]),
    "+inf outweighs the rest": ([0.0, INF, 1.0, NAN, -INF, INF, 0.0], [1, 5]),
    "a lone survivor is all": ([NAN, NAN, -INF, NAN, -1e30, -INF, NAN], [4]),
}


@pytest.mark.parametrize(("log_weights", "may_be_chosen"), BAD.values(), ids=BAD.keys())
def test_bad_weights_have_a_meaning(log_weights, may_be_chosen):
    padding = [-INF] * (FEW - len(log_weights))
    cases = jnp.tile(jnp.array(log_weights + padding), (BATCH, 1))
    for result in resample_batch(jax.random.split(jax.random.key(14), BATCH), cases).values():
        assert np.unique(result.ancestors).tolist() == may_be_chosen
        assert result.happened.all()
        assert jnp.isfinite(result.log_weights).all()


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=NAMES)
def test_dtypes_are_fixed_whatever_the_weights_are(float64, scheme):
    for dtype in (jnp.bfloat16, jnp.float32, jnp.float64):
        # Leaves, because a result whose fields are checked to be arrays cannot hold bare shapes.
        shapes = jax.eval_shape(
            lambda key, log_weights: jax.tree.leaves(scheme.resample(key, log_weights)),
            jax.random.key(0),
            jax.ShapeDtypeStruct((8,), dtype),
        )
        assert [shape.dtype for shape in shapes] == [jnp.int32, dtype, jnp.bool_]
        assert not any(shape.weak_type for shape in shapes)


def test_batch_and_single_runs_choose_the_same_ancestors():
    # Ones add up without rounding, in whatever order: only then can vmap promise the same bits.
    has_weight = jax.random.bernoulli(jax.random.key(15), 0.6, (BATCH, FEW))
    log_weights = jnp.where(has_weight, 0.0, -INF)
    keys = jax.random.split(jax.random.key(16), BATCH)
    batch = resample_batch(keys, log_weights)["systematic"]
    resample = jax.jit(SCHEMES["systematic"].resample)
    for row in (0, 1, BATCH - 1):
        assert (resample(keys[row], log_weights[row]).ancestors == batch.ancestors[row]).all()


def test_gradient_of_what_follows_is_not_disturbed():
    def total(log_weights):
        return jnp.sum(Systematic().resample(jax.random.key(0), log_weights).log_weights + log_weights)

    assert (jax.jit(jax.grad(total))(jnp.array([0.0, -INF, 1.0])) == 1.0).all()

"""What a stream may throw at a filter: missing, infinite, absurd, models that fail. Nothing raises or is silent."""

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter import Outcome

NUM_PARTICLES = 64


def has(info_or_state, flag):
    return bool(int(info_or_state.outcome) & flag)


def all_finite(tree):
    leaves = [leaf for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating)]
    return all(bool(jnp.all(jnp.isfinite(leaf))) for leaf in leaves)


def is_healthy(state):
    """No NaN anywhere, and weights that sum to one (a weight of zero is -inf)."""
    parts = (state.x, state.z, state.shared, state.statistics, state.running_log_evidence)
    return all_finite(parts) and abs(float(jnp.sum(jnp.exp(state.log_weights))) - 1) < 1e-4


def same(first, second):
    return all(np.array_equal(a, b) for a, b in zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True))


@pytest.fixture(scope="module")
def filter():
    return pf.extended_parameter_filter(pf.models.sin(), NUM_PARTICLES, belief=pf.particles.TaylorOfMean(order=3))


@pytest.fixture(scope="module")
def state(filter):
    ys = pf.simulate(jax.random.key(0), filter.model, {"theta": 0.7}, 20)[1]
    return pf.run(filter, filter.init(jax.random.key(1)), ys)[0]


@pytest.mark.parametrize("y", [np.inf, -np.inf])
def test_an_infinite_observation_is_refused_and_the_state_is_untouched(filter, state, y):
    after, info = filter.step(state, y)
    assert has(info, Outcome.OBSERVATION_NOT_FINITE) and has(after, Outcome.OBSERVATION_NOT_FINITE)
    assert float(info.log_evidence_increment) == 0.0
    assert int(after.time) == int(state.time)
    assert same((after.x, after.statistics, after.log_weights), (state.x, state.statistics, state.log_weights))


@pytest.mark.parametrize("size", [1e6, 1e9, 1e12])
def test_an_outlier_of_a_million_sds_leaves_no_nan(filter, state, size):
    after, info = filter.step(state, 0.1 * size)
    assert is_healthy(after) and not np.isnan(float(info.log_evidence_increment))
    following, _ = filter.step(after, 0.2)
    assert is_healthy(following)


def test_a_step_that_no_particle_survives_is_rolled_back(filter, state):
    after, info = filter.step(state, 1e30)  # its square overflows float32: every weight is zero
    assert has(info, Outcome.ALL_WEIGHTS_ZERO) and float(info.ess) == 0.0
    assert float(info.log_evidence_increment) == -np.inf
    assert same((after.x, after.statistics, after.log_weights), (state.x, state.statistics, state.log_weights))
    assert int(after.time) == int(state.time) + 1
    following, info = filter.step(after, 0.2)
    assert is_healthy(following) and int(info.outcome) == Outcome.OK
    assert has(following, Outcome.ALL_WEIGHTS_ZERO)  # the state remembers


def test_outcomes_have_words(filter, state):
    assert "rolled back" in pf.explain(filter.step(state, 1e30)[1].outcome)
    assert pf.explain(filter.step(state, 0.1)[1].outcome) == "all is well"


@pytest.fixture(scope="module")
def nan_filter():
    """A model that is NaN wherever the state is above a threshold, given as an input."""

    def observation(theta, x, inputs):
        return dist.Normal(jnp.where(x > inputs, jnp.nan, x), 1.0)

    model = pf.StateSpaceModel(
        prior={"phi": dist.Normal(0.3, 0.2)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        observation=observation,
        example_inputs=1e3,
    )
    return pf.storvik_filter(model, NUM_PARTICLES)


def test_particles_with_a_nan_model_get_no_weight_and_are_counted(nan_filter):
    state = nan_filter.init(jax.random.key(0))
    after, info = nan_filter.step(state, 0.1, 0.5)
    num_nan = int(info.num_nan)
    assert 0 < num_nan < NUM_PARTICLES and has(info, Outcome.MODEL_RETURNED_NAN)
    assert int(jnp.sum(after.log_weights == -jnp.inf)) == num_nan and is_healthy(after)


def test_a_model_that_is_nan_for_all_fails_the_step(nan_filter):
    state = nan_filter.init(jax.random.key(0))
    after, info = nan_filter.step(state, 0.1, -1e3)
    assert has(info, Outcome.MODEL_RETURNED_NAN) and has(info, Outcome.ALL_WEIGHTS_ZERO)
    assert int(info.num_nan) == NUM_PARTICLES and same(after.x, state.x)


ANY_OBSERVATION = st.one_of(
    st.floats(width=32, allow_nan=True, allow_infinity=True),
    st.floats(-5.0, 5.0, width=32),
    st.sampled_from([np.nan, np.inf, -np.inf, 0.0, 1e6, -1e6, 1e20, 3e38]),
)


@hypothesis.settings(max_examples=60)
@hypothesis.given(st.lists(ANY_OBSERVATION, min_size=40, max_size=40))
def test_any_stream_leaves_a_healthy_filter(filter, state, stream):
    """60 streams of 40 observations: 2400 hostile steps, each flagged or fine."""
    after, history = pf.run(filter, state, np.array(stream, np.float32))
    ys, info = np.array(stream, np.float32), history.info
    outcome = np.asarray(info.outcome)
    assert is_healthy(after)
    assert np.array_equal((outcome & Outcome.OBSERVATION_NOT_FINITE) > 0, np.isinf(ys))
    failed = (outcome & Outcome.ALL_WEIGHTS_ZERO) > 0
    ess = np.asarray(info.ess)
    assert np.all(ess[failed] == 0) and np.all((ess[~failed] >= 1 - 1e-3) & (ess[~failed] <= NUM_PARTICLES + 1e-3))
    assert not np.any(np.isnan(info.log_evidence_increment))
    assert np.all(np.asarray(history.theta.sd["theta"]) >= 0) and all_finite(history.theta)
    assert int(after.outcome) == np.bitwise_or.reduce(outcome) | int(state.outcome)


@pytest.fixture(scope="module")
def vector_filter():
    """A two-dimensional state observed by a factorising and by a joint distribution."""
    covariance = jnp.array([[0.5, 0.3], [0.3, 0.4]])
    model = pf.StateSpaceModel(
        prior={"phi": dist.Normal(0.3, 0.2)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        observation=lambda theta, x, inputs: {
            "each": dist.Normal(x, 0.5).to_event(1),
            "joint": dist.MultivariateNormal(x, covariance),
        },
    )
    return pf.storvik_filter(model, NUM_PARTICLES)


def test_missing_components_drop_out_one_by_one(vector_filter):
    model = vector_filter.model
    theta, x = {"phi": 0.3}, jnp.array([0.2, -0.4])
    y = {"each": jnp.array([0.1, jnp.nan]), "joint": jnp.array([jnp.nan, 0.3])}
    expected = dist.Normal(0.2, 0.5).log_prob(0.1) + dist.Normal(-0.4, jnp.sqrt(0.4)).log_prob(0.3)
    assert float(model.observation_log_prob(theta, x, y, None)) == pytest.approx(float(expected), abs=1e-5)
    _, info = vector_filter.step(vector_filter.init(jax.random.key(0)), y)
    assert int(info.outcome) == Outcome.OK


def test_a_missing_observation_is_worth_nothing(vector_filter):
    nothing = {"each": jnp.full(2, jnp.nan), "joint": jnp.full(2, jnp.nan)}
    _, info = vector_filter.step(vector_filter.init(jax.random.key(0)), nothing)
    assert float(info.log_evidence_increment) == pytest.approx(0.0, abs=1e-5)
    assert float(info.ess) == pytest.approx(NUM_PARTICLES, rel=1e-5)


@pytest.mark.parametrize(
    "y",
    [np.zeros(2), np.zeros((1,)), {"y": 0.0}, [0.0, 0.0]],
    ids=["vector", "length one", "dict", "list"],
)
def test_an_observation_of_another_shape_is_refused_with_both_shapes(filter, state, y):
    with pytest.raises(pf.errors.DataError, match=r"model's"):
        filter.step(state, y)


def test_a_state_of_another_filter_is_refused(filter, nan_filter):
    with pytest.raises(pf.errors.DataError, match="another filter; model: 'model' there, 'sin' here"):
        filter.step(nan_filter.init(jax.random.key(0)), 0.0)

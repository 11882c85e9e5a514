"""Islands never mix, are pooled with equal shares, and their disagreement is seen."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.filters.health import Forecasts, Lineage, forecast, predictive_rank
from paramfilter.filters.islands import disagreement, island_moments, normalise_within, resample_within
from paramfilter.outcome import Outcome
from paramfilter.resampling import Systematic

NUM_ISLANDS, NUM_PARTICLES = 4, 40


@pytest.fixture(scope="module")
def filter():
    return pf.ParticleFilter(
        pf.models.linear_gaussian(phi=dist.Normal(0.3, 0.2)),
        NUM_PARTICLES,
        pf.beliefs.Conjugate(),
        num_islands=NUM_ISLANDS,
    )


def test_ancestors_stay_on_their_island():
    log_weights = jnp.log(jax.random.uniform(jax.random.key(0), (NUM_PARTICLES,)) ** 4)
    log_weights, _ = normalise_within(NUM_ISLANDS, log_weights)
    new = resample_within(Systematic(), NUM_ISLANDS, jax.random.key(1), log_weights)
    islands = np.arange(NUM_PARTICLES) // 10
    assert np.array_equal(np.asarray(new.ancestors) // 10, islands)
    shares = np.exp(np.asarray(new.log_weights)).reshape(NUM_ISLANDS, -1).sum(axis=1)
    assert np.allclose(shares, 0.25, rtol=1e-6)


@pytest.mark.slow
def test_one_island_knows_nothing_of_another(filter):
    """Changing what one island holds leaves all others as they were, for many steps."""
    ys = jnp.sin(jnp.arange(20.0))
    state = filter.init(jax.random.key(2))
    moved = state.x.at[:10].add(1.0)
    other = type(state)(**{**vars(state), "x": moved})
    for y in ys:
        state, other = filter.step(state, y)[0], filter.step(other, y)[0]
    assert np.array_equal(state.x[10:], other.x[10:]) and np.array_equal(state.z[10:], other.z[10:])
    assert not np.array_equal(state.x[:10], other.x[:10])


def test_shares_stay_equal_and_evidence_is_the_pool(filter):
    state = filter.init(jax.random.key(3))
    state, info = filter.step(state, 0.7)
    shares = np.exp(np.asarray(state.log_weights, np.float64)).reshape(NUM_ISLANDS, -1).sum(axis=1)
    assert np.allclose(shares, 0.25, rtol=1e-5)
    pooled = jax.vmap(lambda x: filter.model.observation_log_prob({"phi": 0.3}, x, jnp.array(0.7), None))(state.x)
    assert float(info.log_evidence_increment) == pytest.approx(
        float(jax.nn.logsumexp(pooled) - jnp.log(NUM_PARTICLES)), abs=1e-5
    )


@pytest.mark.slow
def test_an_island_that_cannot_explain_is_put_back_and_flagged():
    model = pf.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(x, 0.1),
        observation=lambda theta, x, inputs: dist.Uniform(x - 1.0, x + 1.0),
    )
    filter = pf.ParticleFilter(model, 20, pf.beliefs.PointMass(), num_islands=2)
    state = filter.init(jax.random.key(4))
    state = type(state)(**{**vars(state), "x": jnp.where(jnp.arange(20) < 10, 0.0, 100.0)})
    after, info = filter.step(state, 0.0)
    assert Outcome(int(info.outcome)) == Outcome.ISLAND_WEIGHTS_ZERO
    assert np.array_equal(after.x[10:], state.x[10:]) and not np.array_equal(after.x[:10], state.x[:10])
    shares = np.exp(np.asarray(after.log_weights)).reshape(2, -1).sum(axis=1)
    assert np.allclose(shares, 0.5)


def test_disagreement_is_one_for_like_islands_and_grows_with_their_distance():
    weights = jnp.full(4000, -jnp.log(4000.0))
    like = jax.random.normal(jax.random.key(5), (4000, 1))
    assert float(disagreement(island_moments(4, like, weights))[0]) == pytest.approx(1.0, abs=0.01)
    apart = like + jnp.repeat(jnp.array([-1.0, 0.0, 0.0, 1.0]), 1000)[:, None]
    # Between islands the variance is 2/3, within it is 1.
    assert float(disagreement(island_moments(4, apart, weights))[0]) == pytest.approx(np.sqrt(5 / 3), abs=0.05)
    assert np.isnan(disagreement(island_moments(1, like, weights))[0])


def test_what_chance_puts_between_islands_is_taken_off():
    """Two islands of two: their means, 0 and 1, are as far apart as the variance of two draws, 1/2, explains."""
    z, weights = jnp.array([[-1.0], [1.0], [0.0], [2.0]]), jnp.full(4, jnp.log(0.25))
    assert float(disagreement(island_moments(2, z, weights))[0]) == pytest.approx(1.0, abs=1e-6)
    # Four times as far apart, the variance between is 8 and 7.5 of it is no chance.
    assert float(disagreement(island_moments(2, z.at[2:].add(3.0), weights))[0]) == pytest.approx(
        np.sqrt(8.5), rel=1e-6
    )


def test_lineage_counts_ancestors_at_marks():
    lineage = Lineage.start(4)
    nobody_moves, first_only = jnp.arange(4), jnp.zeros(4, jnp.int32)
    for time in range(5):  # marks at 0, 1, 2, 4
        lineage = lineage.through(nobody_moves, jnp.int32(time))
    assert int(lineage.num_ancestors()) == 4
    lineage = lineage.through(jnp.array([0, 0, 2, 2]), jnp.int32(5))
    assert int(lineage.num_ancestors()) == 2
    assert int(lineage.through(first_only, jnp.int32(6)).num_ancestors()) == 1


@pytest.mark.parametrize("kind", ["real", "count"])
def test_ranks_of_a_right_model_are_uniform(kind):
    law = (lambda x: dist.Normal(x, 0.5)) if kind == "real" else (lambda x: dist.Poisson(jnp.exp(x)))
    model = pf.StateSpaceModel(
        prior={"a": dist.Normal(0.5, 0.1)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["a"] * x, 1.0),
        observation=lambda theta, x, inputs: law(x),
    )
    draw = lambda key: pf.simulate(key, model, {"a": 0.5}, 1)[1][0].astype(float)
    ys = jax.vmap(draw)(jax.random.split(jax.random.key(6), 4000))
    keys = jax.random.split(jax.random.key(7), (4000, 2))

    def rank(pair, y):
        x = jax.random.normal(pair[0], (100,))
        equal = jnp.full(100, -jnp.log(100.0))
        return predictive_rank(forecast(pair[1], model, x, jnp.full((100, 1), 0.5), equal, None), y)

    ranks = np.asarray(jax.jit(jax.vmap(rank))(keys, ys))
    counts = np.histogram(ranks, 10, (0, 1))[0]
    # Chi-square with 9 degrees of freedom: 52 has probability 4e-8 (the 100 forecasts of a rank blur it by 1 %).
    assert np.sum((counts - 400) ** 2 / 400) < 52
    assert np.isnan(predictive_rank(Forecasts(jnp.zeros(10), jnp.array(0.5)), jnp.array(jnp.nan)))


def test_forecasts_are_made_by_weight():
    """A tenth of the weight, on half of the particles, expects values far below zero."""
    model = pf.models.linear_gaussian(phi=dist.Normal(1.0, 0.1))
    is_below = jnp.arange(200) < 100
    log_weights = jnp.log(jnp.where(is_below, 0.1 / 100, 0.9 / 100))
    x = jnp.where(is_below, -50.0, 50.0)
    forecasts = forecast(jax.random.key(8), model, x, jnp.ones((200, 1)), log_weights, None)
    assert float(jnp.mean(forecasts.y < 0)) == pytest.approx(0.1, abs=0.011)  # systematic: at most one off


@pytest.mark.parametrize(("number", "text"), [(3, "use 39 particles"), (0, "at least two"), (30, "at least two")])
def test_numbers_of_islands_that_do_not_work_are_refused(number, text):
    with pytest.raises(pf.errors.ModelError, match=text):
        pf.ParticleFilter(pf.models.sin(), NUM_PARTICLES, pf.beliefs.PointMass(), num_islands=number)

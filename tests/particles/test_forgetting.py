"""A belief that forgets goes back towards its prior, by just the right amount."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.model import Transition
from paramfilter.particles import (
    Conjugate,
    Grid,
    TaylorOfMean,
)

AUTOREGRESSION = pf.models.linear_gaussian(phi=dist.Normal(0.2, 0.5), q=0.49)
NUM_STEPS = 30


def path():
    noise = 0.7 * jax.random.normal(jax.random.key(0), (NUM_STEPS + 1,))
    return jax.lax.scan(lambda x, e: (0.6 * x + e,) * 2, jnp.zeros(()), noise)[1]


def learned(belief, factor=1.0):
    """Return what a particle shares and remembers after it went along the path."""
    bound, xs = belief.bind(AUTOREGRESSION), path()
    prior_draws = jnp.asarray(AUTOREGRESSION.parameters.prior_draws[:64], float)
    shared = bound.init_shared(prior_draws)

    def step(statistic, pair):
        kept = bound.discount(statistic, jnp.asarray(factor))
        return bound.update(shared, kept, Transition(*pair, pair[1], None)), None

    return bound, shared, jax.jit(lambda s: jax.lax.scan(step, s, (xs[:-1], xs[1:]))[0])(bound.init())


@pytest.mark.parametrize(
    "belief",
    [
        Conjugate(),
        Grid(33),
        TaylorOfMean(3),
    ],
    ids=lambda belief: type(belief).__name__,
)
def test_what_is_left_is_a_power_of_the_belief_times_a_power_of_the_prior(belief, float64):
    bound, shared, statistic = learned(belief)
    share = jnp.array(0.7)
    points = jnp.array([[0.2], [0.5], [0.8]])

    @jax.jit
    def shapes(statistic):
        log_q = jax.vmap(lambda z: bound.log_prob(shared, statistic, z))(points)
        log_faded = jax.vmap(lambda z: bound.log_prob(shared, bound.discount(statistic, share), z))(points)
        return log_q - log_q[0], log_faded - log_faded[0]

    log_q, log_faded = shapes(statistic)
    log_prior = jax.vmap(AUTOREGRESSION.parameters.log_prior)(points)
    assert np.allclose(log_faded, share * log_q + (1 - share) * (log_prior - log_prior[0]), atol=1e-4)
    assert np.max(np.abs(log_faded - log_q)) > 0.1


def test_forgetting_regression_is_weighted_least_squares(float64):
    """Recursive least squares with exponential forgetting, written out."""
    memory = 8.0
    bound, shared, statistic = learned(Conjugate(), 1 - 1 / memory)
    xs = np.asarray(path())
    weights = (1 - 1 / memory) ** np.arange(NUM_STEPS)[::-1]
    precision = 1 / 0.25 + np.sum(weights * xs[:-1] ** 2) / 0.49
    mean = (0.2 / 0.25 + np.sum(weights * xs[:-1] * xs[1:]) / 0.49) / precision
    moments = bound.moments(shared, statistic, jnp.zeros(1))
    assert float(moments.mean["phi"]) == pytest.approx(mean, rel=1e-9)
    assert float(moments.variance["phi"]) == pytest.approx(1 / precision, rel=1e-9)


@pytest.mark.slow
def test_an_endless_memory_forgets_nothing():
    ys = jnp.sin(jnp.arange(12.0))
    filters = [pf.ParticleFilter(AUTOREGRESSION, 50, Conjugate(), memory=memory) for memory in (None, np.inf)]
    states = [pf.run(f, f.init(jax.random.key(1)), ys, progress=False)[0] for f in filters]
    assert np.array_equal(states[0].z, states[1].z)


def test_what_cannot_forget_is_refused():
    with pytest.raises(pf.errors.ModelError, match=r"^PointMass cannot forget, .* Use Conjugate\(\)"):
        pf.sir_filter(AUTOREGRESSION, 10, memory=100.0)
    with pytest.raises(pf.errors.ModelError, match="longer than one observation"):
        pf.storvik_filter(AUTOREGRESSION, 10, memory=1.0)


def test_a_filter_forgets_as_its_belief_does():
    """One particle filter step by step: what is remembered is the sum over the data with weights."""
    memory = 5.0
    filter = pf.storvik_filter(AUTOREGRESSION, 8, memory=memory)
    plain = pf.storvik_filter(AUTOREGRESSION, 8)
    first, _ = plain.step(plain.init(jax.random.key(0)), 0.4)
    other, _ = filter.step(replace(first, fingerprint=filter.fingerprint), 0.1)
    fresh, _ = plain.step(first, 0.1)
    np.testing.assert_array_equal(other.x, fresh.x)  # the same moves
    before = jax.vmap(plain.engine.parts.belief.moments, in_axes=(None, 0, 0))(None, fresh.statistics, fresh.z)
    after = jax.vmap(plain.engine.parts.belief.moments, in_axes=(None, 0, 0))(None, other.statistics, other.z)
    assert np.all(after.variance["phi"] > before.variance["phi"])


@pytest.mark.slow
def test_evidence_finds_drift_where_there_is_some():
    filters = {
        name: pf.ParticleFilter(AUTOREGRESSION, 200, Conjugate(), pf.proposals.LookAhead(), memory=memory)
        for name, memory in (("short", 40), ("endless", None))
    }
    halves = [pf.simulate(jax.random.key(2), AUTOREGRESSION, {"phi": phi}, 150)[1] for phi in (0.9, -0.7)]
    steady = pf.simulate(jax.random.key(3), AUTOREGRESSION, {"phi": 0.9}, 300)[1]

    def lead_of_the_short_memory(ys):
        states = {name: pf.run(f, f.init(jax.random.key(4)), ys, progress=False)[0] for name, f in filters.items()}
        return float(states["short"].log_evidence - states["endless"].log_evidence)

    assert lead_of_the_short_memory(jnp.concatenate(halves)) > 7.0 and lead_of_the_short_memory(steady) < 0.0

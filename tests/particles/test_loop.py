"""One step by the book: keys are used once, statistics travel with their particles, weights multiply."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.resampling import Systematic, WhenEssBelow

NUM_PARTICLES = 4000
MAX_Z = 6.0  # false-alarm rate 2e-9 a comparison
NEVER = WhenEssBelow(1e-6, Systematic())


@pytest.fixture(scope="module")
def states():
    """A filter that never resamples, so that a particle keeps its place: its states before and after two steps."""
    model = pf.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(0.5 * x + theta["a"], 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, 1.0),
    )
    filter = pf.ParticleFilter(model, NUM_PARTICLES, pf.particles.Conjugate(), resampling=NEVER)
    found = [filter.init(jax.random.key(0))]
    infos = []
    for y in (1.0, -0.5):
        state, info = filter.step(found[-1], y)
        found.append(state)
        infos.append(info)
    return found, infos


def test_random_numbers_are_used_once(states):
    """What drives theta and the state, in this step and the next, is independent."""
    noises = []
    for before, after in itertools.pairwise(states[0]):
        sums = before.statistics[0]
        precision = 1.0 + sums.precision.value[:, 0, 0]
        noises.append((after.z[:, 0] - sums.shift.value[:, 0] / precision) * jnp.sqrt(precision))
        noises.append(after.x - 0.5 * before.x - after.z[:, 0])
    correlations = np.corrcoef(np.asarray(noises, np.float64)) - np.eye(4)
    assert np.max(np.abs(correlations)) < MAX_Z / np.sqrt(NUM_PARTICLES)


def test_no_key_of_a_step_is_used_for_two_purposes():
    """JAX follows each key through the program; the forecasts and the resampling of a step have one each."""
    filter = pf.storvik_filter(pf.models.linear_gaussian(), 8)
    state = filter.init(jax.random.key(0))
    with jax.debug_key_reuse(True):
        jax.jit(filter.step)(state, 0.3)


def test_weights_multiply_until_particles_are_resampled(states):
    (_, first, second), infos = states
    scores = np.asarray(-0.5 * ((first.x - 1.0) ** 2 + (second.x + 0.5) ** 2), np.float64)
    weights = np.exp(scores) / np.sum(np.exp(scores))
    np.testing.assert_allclose(np.exp(second.log_weights), weights, rtol=1e-4)
    assert float(infos[1].ess) == pytest.approx(1 / np.sum(weights**2), rel=1e-4)
    assert not bool(infos[1].resampled)


def test_a_particle_keeps_its_statistic_when_it_is_resampled():
    """The second part of the state adds up what the statistic adds up, the squares of the first, but for a noise."""
    noise, num_steps = 1e-3, 8
    model = pf.StateSpaceModel(
        prior={"phi": dist.Normal(0.5, 0.3)},
        initial=lambda theta, inputs: dist.Normal(jnp.array([0.0, 0.0]), jnp.array([1.0, noise])).to_event(1),
        transition=lambda theta, x, inputs: dist.Normal(
            jnp.stack([theta["phi"] * x[0], x[1] + x[0] ** 2]), jnp.array([1.0, noise])
        ).to_event(1),
        observation=lambda theta, x, inputs: dist.Normal(x[0], 0.3),
    )
    filter = pf.storvik_filter(model, 64)
    state = filter.init(jax.random.key(0))
    for y in jnp.sin(jnp.arange(num_steps) * 1.0):
        state, _ = filter.step(state, y)
    sums = state.statistics[0].precision.value[:, 0, 0]
    assert float(jnp.std(sums)) > 100 * noise
    # 64 sums of 9 noises: the largest is above 8 standard deviations of one sum once in 1e13.
    assert np.max(np.abs(sums - state.x[:, 1])) < 8 * noise * np.sqrt(num_steps + 1)

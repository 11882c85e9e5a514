"""Filters are as sure as they may be; and calibration notices one that is not."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.calibration import Calibration
from paramfilter.particles import Conjugate
from paramfilter.proposals import LookAhead

NUM_RUNS = 300
TIMES = (1, 10, 50)
LEAST_CHANCE = 1e-9
"""Nine chi-square tests, so a false alarm has a probability of 1e-8."""


@pytest.fixture(scope="module")
def found() -> Calibration:
    model = pf.models.linear_gaussian(phi=dist.Normal(0.4, 0.15), r=1.0)
    filter = pf.ParticleFilter(model, 200, Conjugate(), LookAhead())
    return pf.calibrate(jax.random.key(0), filter, TIMES, NUM_RUNS, progress=False)


@pytest.fixture(scope="module")
def of_two_states() -> Calibration:
    """Ranks of a state that is 0 or 1, among which most draws are ties; 500 particles are right to a few percent."""
    model = pf.StateSpaceModel(
        prior={"gap": dist.Normal(1.0, 0.5)},
        initial=lambda theta, inputs: dist.Bernoulli(0.5),
        transition=lambda theta, x, inputs: dist.Bernoulli(jnp.where(x == 1, 0.8, 0.2)),
        observation=lambda theta, x, inputs: dist.Normal(theta["gap"] * x, 0.3),
    )
    filter = pf.sir_filter(model, 500)
    return pf.calibrate(jax.random.key(0), filter, (1, 3), 500, progress=False)


def test_ranks_of_a_right_filter_are_uniform_with_ties(of_two_states):
    assert of_two_states.quantities == ("gap", "x", "log p(y | x, theta)")
    assert of_two_states.ranks.shape == (500, 2, 3)
    assert np.min([*of_two_states.chance().values()]) > LEAST_CHANCE
    # Of 199 draws a rank takes 1/200 each. That none of 3,000 ranks is in the last 1/201 is a false alarm of 3e-7.
    assert 200 / 201 < np.max(of_two_states.ranks) <= 1


@pytest.mark.slow
def test_ranks_are_uniform(found):
    assert found.quantities == ("phi", "x", "log p(y | x, theta)")
    assert found.ranks.shape == (NUM_RUNS, 3, 3) and not np.any(np.isnan(found.ranks))
    assert np.min([*found.chance().values()]) > LEAST_CHANCE
    # 300 runs: the cover's standard error is 1.7 %; six of them are 10 %.
    assert all(np.all(np.abs(shares - 0.9) < 0.1) for shares in found.cover().values())


def test_the_table_is_readable(of_two_states):
    text = str(of_two_states)
    assert "t=3" in text and "gap" in text and "Expected if calibrated: 87.3% to 92.7%" in text


def test_too_sure_or_shifted_is_noticed():
    """Ranks of a posterior with half the right sd, and of one that is shifted by one sd."""
    standard = np.asarray(jax.random.normal(jax.random.key(1), (NUM_RUNS, 1, 2)))
    below = np.asarray(jax.scipy.special.ndtr(standard * np.array([2.0, 1.0]) + np.array([0.0, 1.0])))
    wrong = Calibration((1,), ("too sure", "shifted"), below, np.zeros((NUM_RUNS, 1), int))
    assert all(chance[0] < LEAST_CHANCE for chance in wrong.chance().values())
    # A central 90 % interval at twice the scale holds P(|Z| < 1.645 / 2) = 59 %.
    assert wrong.cover()["too sure"][0] == pytest.approx(0.59, abs=0.17)


def test_what_cannot_be_asked_is_refused():
    filter = pf.ParticleFilter(pf.models.linear_gaussian(), 20, Conjugate())
    with pytest.raises(pf.errors.DataError, match="times of at least 1"):
        pf.calibrate(jax.random.key(0), filter, (0, 10), 5)

"""Filters are as sure as they may be; and calibration notices one that is not."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.beliefs import Conjugate
from paramfilter.calibration import Calibration
from paramfilter.filters import PairwiseMixing
from paramfilter.proposals import LookAhead

NUM_RUNS = 300
TIMES = (1, 10, 50)
LEAST_CHANCE = 1e-9
"""Nine chi-square tests, so a false alarm has a probability of 1e-8."""


@pytest.fixture(scope="module")
def found() -> Calibration:
    model = pf.models.linear_gaussian(phi=dist.Normal(0.4, 0.15), r=1.0)
    filter = pf.ParticleFilter(model, 200, Conjugate(), LookAhead(), num_islands=2, mixing=PairwiseMixing())
    return pf.calibrate(jax.random.key(0), filter, TIMES, NUM_RUNS, progress=False)


@pytest.mark.slow
def test_ranks_are_uniform(found):
    assert found.quantities == ("phi", "x", "log p(y | x, theta)")
    assert found.ranks.shape == (NUM_RUNS, 3, 3) and not np.any(np.isnan(found.ranks))
    assert np.min([*found.chance().values()]) > LEAST_CHANCE
    # 300 runs: the cover's standard error is 1.7 %; six of them are 10 %.
    assert all(np.all(np.abs(shares - 0.9) < 0.1) for shares in found.cover().values())


def test_the_table_is_readable(found):
    text = str(found)
    assert "t=50" in text and "phi" in text and "Expected if calibrated: 86.5% to 93.5%" in text


def test_too_sure_or_shifted_is_noticed():
    """Ranks of a posterior with half the right sd, and of one that is shifted by one sd."""
    standard = np.asarray(jax.random.normal(jax.random.key(1), (NUM_RUNS, 1, 2)))
    below = np.asarray(jax.scipy.special.ndtr(standard * np.array([2.0, 1.0]) + np.array([0.0, 1.0])))
    nothing = np.zeros((NUM_RUNS, 1))
    wrong = Calibration((1,), ("too sure", "shifted"), below, nothing, nothing.astype(int), nothing.astype(int))
    assert all(chance[0] < LEAST_CHANCE for chance in wrong.chance().values())
    # A central 90 % interval at twice the scale holds P(|Z| < 1.645 / 2) = 59 %.
    assert wrong.cover()["too sure"][0] == pytest.approx(0.59, abs=0.17)


def test_what_cannot_be_asked_is_refused():
    filter = pf.ParticleFilter(pf.models.linear_gaussian(), 20, Conjugate())
    with pytest.raises(pf.errors.DataError, match="times of at least 1"):
        pf.calibrate(jax.random.key(0), filter, (0, 10), 5)

"""Steps that say nothing about theta leave its posterior alone: gaps, and observations that rounding makes equal."""

import jax
import numpy as np
import pytest

import paramfilter as pf
from paramfilter.tracing import RUN_ONCE

MODEL = pf.models.linear_gaussian()
NUM_OBSERVED = 200


@pytest.fixture(scope="module")
def data():
    ys = np.asarray(pf.simulate(jax.random.key(5), MODEL, {"phi": 0.8}, NUM_OBSERVED)[1])
    exact = pf.references.kalman_grid(MODEL, ys)
    return ys, float(exact.mean()["phi"]), float(exact.sd()["phi"])


@pytest.mark.parametrize("num_empty", [0, 100, 2000, pytest.param(20_000, marks=pytest.mark.slow)])
def test_steps_without_an_observation_do_not_move_the_posterior(data, num_empty):
    """Four seeds of 128 particles: their mean error has a standard error of about 0.2 sds, so 1.5 is a false alarm in
    1e13; without the rule for gaps it is 8 sds after 2000 empty steps, with half of the sd."""
    ys, mean, sd = data
    filter = pf.storvik_filter(MODEL, 128)
    found = []
    for seed in range(4):
        gap = np.full(num_empty, np.nan)
        state = pf.catch_up(filter, filter.init(jax.random.key(seed)), np.concatenate([gap, ys]))
        found.append([float(part["phi"]) for part in (filter.posterior(state).mean(), filter.posterior(state).sd())])
    means, sds = np.array(found).T
    assert abs(np.mean(means) - mean) < 1.5 * sd
    assert 0.7 < np.exp(np.mean(np.log(sds / sd))) < 1.4


@pytest.mark.parametrize("make", [pf.storvik_filter, pf.sir_filter])
def test_an_observation_too_unlikely_for_its_weights_to_differ_is_flagged_and_not_learned_from(make):
    filter = make(MODEL, 64)
    step = jax.jit(filter.step, compiler_options=RUN_ONCE)
    state, ordinary = step(filter.init(jax.random.key(0)), np.float32(0.3))
    after, wild = step(state, np.float32(1e12))
    assert ordinary.outcome == 0 and ordinary.ess > 10
    assert wild.outcome & pf.Outcome.ALL_WEIGHTS_ZERO and wild.ess == 0
    np.testing.assert_array_equal(after.z, state.z)
    np.testing.assert_array_equal(after.log_evidence, state.log_evidence)
    assert step(after, np.float32(30.0))[1].outcome == 0  # far out, and particles still differ

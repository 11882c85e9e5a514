"""Filters against exact and trusted posteriors: the accuracy that `docs/evidence.md` promises.

Seeds are fixed, so nothing here can flake; the limits are about twice what a right filter of this size shows.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from tests.support.exact_answers import MODELS, exact_answers

import paramfilter as pf

LIMITS = {
    "coefficient": 0.10,
    "process variance": 0.10,
    "observation variance": 0.10,
    "coefficient + process variance": 0.10,
}


QUICK, *SLOW = LIMITS


@pytest.mark.parametrize("name", [QUICK, *(pytest.param(name, marks=pytest.mark.slow) for name in SLOW)])
def test_storvik_filter_is_right_on_exact_answers(name):
    """Six data sets from the prior, each run three times with 4000 particles."""
    found = exact_answers(MODELS[name], num_data_sets=6, num_runs=3)
    assert max(found.rms_mean_error.values()) <= LIMITS[name]
    for parameter, ratio in found.mean_log_sd_ratio.items():
        assert abs(ratio) < 0.01 or abs(found.log_sd_ratio_in_standard_errors[parameter]) < 4.5
    assert found.rms_state_error <= 0.05
    assert found.rms_evidence_error <= 0.35


@pytest.mark.slow
def test_evidence_is_unbiased():
    """Mean of exp(estimate - exact) over 4000 runs is 1 within 5 standard errors (false alarms: 6e-7)."""
    filter = pf.storvik_filter(pf.models.linear_gaussian(), 64)
    ys = pf.simulate(jax.random.key(0), filter.model, {"phi": 0.4}, 8)[1]
    exact = pf.references.kalman_grid(filter.model, ys).log_evidence

    @jax.jit
    def estimate(key):
        state, _ = jax.lax.scan(filter.step, filter.init(key), ys)
        return state.log_evidence

    estimates = jax.lax.map(estimate, jax.random.split(jax.random.key(1), 4000), batch_size=500)
    ratios = np.exp(np.asarray(estimates, np.float64) - exact)
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios))
    assert ratios.std() < 1.0  # enough power to see a bias of a tenth


@pytest.mark.slow
def test_a_missing_run_is_what_the_kalman_filter_says():
    filter = pf.storvik_filter(pf.models.linear_gaussian(), 4000)
    ys = pf.simulate(jax.random.key(2), filter.model, {"phi": 0.4}, 30)[1].at[10:20].set(jnp.nan)
    reference = pf.references.kalman_grid(filter.model, ys)
    state, _ = pf.run(filter, filter.init(jax.random.key(3)), ys)
    posterior = filter.posterior(state)
    assert abs(float(posterior.mean()["phi"]) - reference.mean()["phi"]) < 0.2 * reference.sd()["phi"]
    assert float(state.log_evidence) == pytest.approx(reference.log_evidence, abs=0.6)

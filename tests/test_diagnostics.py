"""`diagnose` gives the right code for each problem, and claims no more than it could judge."""

import re
from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.diagnostics import CODES


@pytest.fixture(scope="module")
def filter():
    model = pf.models.linear_gaussian(phi=dist.Normal(0.5, 0.3))
    return pf.ParticleFilter(model, 200, pf.particles.Conjugate(), pf.proposals.LookAhead())


def look(filter, ys):
    state, history = pf.run(filter, filter.init(jax.random.key(1)), ys, progress=False)
    return pf.diagnose(state, history)


def data(filter, num_steps, seed=0):
    return pf.simulate(jax.random.key(seed), filter.model, {"phi": 0.7}, num_steps)[1]


def found(diagnosis):
    return [finding.code.code for finding in diagnosis.findings]


@pytest.fixture(scope="module")
def short(filter):
    """A run without a problem."""
    return pf.run(filter, filter.init(jax.random.key(1)), data(filter, 30), progress=False)


def test_a_good_run_passes_what_can_be_judged(short):
    diagnosis = pf.diagnose(*short)
    assert diagnosis.is_well
    reasons = {one.code.code: one.reason for one in diagnosis.not_judged}
    assert reasons == {
        "W04": "Conjugate reports no approximation error",
        "W05": "it needs 50 observations, there are 30 of y",
        "W08": "not looked for with Conjugate",
        "W12": "no OutlierGate",
        "W13": "not looked for with Conjugate",
        "W14": "particles give no estimate of it: compare the means of runs with two keys",
    }
    assert {code.code for code in diagnosis.passed} == {code.code for code in CODES} - reasons.keys()
    printed = str(diagnosis)
    assert "30 steps, 200 particles, Conjugate" in printed
    assert "5 checks passed; no problem was found, but the error of the posterior mean was not measured." in printed
    assert "W08, W13 (not looked for" in printed


def with_ranks(short, ranks):
    state, history = short
    return pf.diagnose(state, replace(history, info=replace(history.info, pit=ranks)))


def test_forecasts_are_judged_by_every_component(short):
    """A component that is never observed leaves the check without a verdict, whatever the other one says."""
    even = (np.arange(300) % 100 + 0.5) / 100
    assert "W05" in [code.code for code in with_ranks(short, even).passed]
    missing = with_ranks(short, np.stack([even, np.full(300, np.nan)], axis=1))
    assert "it needs 50 observations, there are 0 of y[1]" in [one.reason for one in missing.not_judged]
    assert found(with_ranks(short, np.stack([even / 2, np.full(300, np.nan)], axis=1))) == ["W05"]


def test_a_collapsed_baseline_is_flagged():
    model = pf.models.linear_gaussian(phi=dist.Uniform(-1.0, 1.0), r=1.0)
    diagnosis = look(pf.sir_filter(model, 400), pf.simulate(jax.random.key(0), model, {"phi": 0.8}, 200)[1])
    assert "W01" in found(diagnosis) and "distinct values of theta" in str(diagnosis)


def test_a_wrong_model_is_caught(filter):
    assert "W05" in found(look(filter, 4 * data(filter, 60)))


def test_impossible_data_are_counted(filter):
    ys = data(filter, 30).at[7].set(jnp.inf).at[9].set(1e30)
    diagnosis = look(filter, ys)
    assert {"W06", "W09"} <= set(found(diagnosis))
    assert "1 of 30 steps, first at step 8" in str(diagnosis)


@pytest.mark.slow
def test_few_effective_particles_of_a_real_run_are_caught():
    model = pf.models.linear_gaussian(phi=dist.Normal(0.5, 0.3), r=1e-4)
    filter = pf.ParticleFilter(model, 200, pf.particles.Conjugate())
    assert "W01" in found(look(filter, data(filter, 30)))


def test_few_effective_particles_are_caught(short):
    state, history = short
    for ess, is_named in ((9.0, True), (11.0, False)):
        info = replace(history.info, ess=jnp.full_like(history.info.ess, ess))
        assert ("W01" in found(pf.diagnose(state, replace(history, info=info)))) == is_named


def test_every_code_explains_itself():
    numbers = [code.code for code in CODES]
    assert numbers == sorted(set(numbers)) and all(re.fullmatch(r"W\d\d", number) for number in numbers)
    for code in CODES:
        assert code.title in pf.explain(code.code) and "What to try" in pf.explain(code.code.lower())
    with pytest.raises(ValueError, match="no warning 'W99'; the codes are W01 to W14"):
        pf.explain("W99")

"""PMMH and SMC^2 against the exact posterior; limits in standard errors are 5 (false alarms: 6e-7), seeds are fixed."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paramfilter as pf
from paramfilter.errors import ModelError
from paramfilter.references import SMC2, pmmh
from paramfilter.references.smc2 import FIRST_ROOM

NUM_RUNS = 6


@pytest.fixture(scope="module")
def problem():
    model = pf.models.linear_gaussian()
    ys = pf.simulate(jax.random.key(0), model, {"phi": 0.6}, 30)[1].at[4].set(jnp.nan)
    return model, ys, pf.references.kalman_grid(model, ys)


@pytest.mark.slow
def test_pmmh_draws_from_the_exact_posterior(problem):
    model, ys, exact = problem
    found = pmmh(jax.random.key(1), model, ys, num_particles=30, num_draws=2000, num_warmup=400, num_chains=2)
    sd = exact.sd()["phi"]
    assert found.rhat < 1.05 and 0.1 < found.acceptance < 0.6
    assert found.standard_error < 0.1
    assert abs(found.mean()["phi"] - exact.mean()["phi"]) < 5 * found.standard_error * sd
    # the log sd of n effective draws has a standard error of at most 1 / sqrt(n) for tails like a normal law's
    assert abs(np.log(found.sd()["phi"] / sd)) < 5 * found.standard_error
    assert found.quantile(0.5)["phi"] == pytest.approx(exact.quantile(0.5)["phi"], abs=0.5 * sd)
    assert found.sample(jax.random.key(2), 10)["phi"].shape == (10,)


@pytest.fixture(scope="module")
def runs(problem):
    """Some runs of SMC^2, which share what was compiled."""
    model, ys, _ = problem
    smc2 = SMC2(model, 50, 30)
    states = []
    for seed in range(NUM_RUNS):
        state = smc2.init(jax.random.key(10 + seed))
        for y in ys:
            state = smc2.step(state, y)
        states.append(state)
    return smc2, states


@pytest.mark.slow
def test_smc2_converges_to_the_exact_posterior_and_evidence(problem, runs):
    _, _, exact = problem
    smc2, states = runs
    found = [smc2.posterior(state) for state in states]
    assert all(state.num_runs_of_the_past >= smc2.num_moves for state in states)
    for name, of_run, right in (
        ("mean", lambda one: one.mean()["phi"], exact.mean()["phi"]),
        ("evidence", lambda one: np.exp(one.log_evidence - exact.log_evidence), 1.0),
    ):
        values = np.array([of_run(one) for one in found])
        # few runs: their own spread is a rough standard error, so 8 of it (Student's t, 5 degrees: 5e-4; fixed seeds)
        assert abs(values.mean() - right) < 8 * values.std(ddof=1) / NUM_RUNS**0.5, name
    ratios = np.array([one.sd()["phi"] for one in found]) / exact.sd()["phi"]
    assert 0.8 < ratios.mean() < 1.2


@pytest.mark.slow
def test_smc2_doubles_filters_that_are_too_noisy(problem, monkeypatch):
    model, ys, _ = problem
    monkeypatch.setattr("paramfilter.references.smc2.TOO_FEW_ACCEPTED", 1.1)
    smc2 = SMC2(model, 50, 4)
    state = smc2.init(jax.random.key(3))
    while state.num_states == 4:
        state = smc2.step(state, ys[state.time])
    assert state.num_states == 8
    assert jax.tree.leaves(state.x)[0].shape[:2] == (50, 8)
    exact = pf.references.kalman_grid(model, ys[: state.time])
    assert abs(smc2.posterior(state).mean()["phi"] - exact.mean()["phi"]) < exact.sd()["phi"]


def test_the_past_of_smc2_grows(problem):
    model, _, _ = problem
    smc2 = SMC2(model, 4, 2, ess_share=1e-9)  # never moves
    state = smc2.init(jax.random.key(4))
    ys = 0.01 * np.arange(FIRST_ROOM + 3)
    for y in ys:
        state = smc2.step(state, y)
    assert np.array_equal(state.past[0][: state.time], ys)


def test_smc2_says_what_is_wrong(problem):
    model, _, _ = problem
    with pytest.raises(ModelError, match="at least 2 particles"):
        SMC2(model, 1)
    smc2 = SMC2(model, 4, 2)
    with pytest.raises(ModelError, match="no value of theta explains the observation at t = 1"):
        smc2.step(smc2.init(jax.random.key(5)), 1e200)

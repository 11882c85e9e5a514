"""PMMH against the exact posterior; limits in standard errors are 5 (false alarms: 6e-7), seeds are fixed."""

import jax
import numpy as np
import pytest

import paramfilter as pf
from paramfilter.references import pmmh


@pytest.mark.slow
def test_pmmh_draws_from_the_exact_posterior():
    model = pf.models.linear_gaussian()
    ys = pf.simulate(jax.random.key(0), model, {"phi": 0.6}, 30)[1].at[4].set(jax.numpy.nan)
    exact = pf.references.kalman_grid(model, ys)
    found = pmmh(jax.random.key(1), model, ys, num_particles=30, num_draws=2000, num_warmup=400, num_chains=2)
    sd = exact.sd()["phi"]
    assert found.rhat < 1.05 and 0.1 < found.acceptance < 0.6
    assert found.standard_error < 0.1
    assert abs(found.mean()["phi"] - exact.mean()["phi"]) < 5 * found.standard_error * sd
    # the log sd of n effective draws has a standard error of at most 1 / sqrt(n) for tails like a normal law's
    assert abs(np.log(found.sd()["phi"] / sd)) < 5 * found.standard_error
    assert found.quantile(0.5)["phi"] == pytest.approx(exact.quantile(0.5)["phi"], abs=0.5 * sd)
    assert found.sample(jax.random.key(2), 10)["phi"].shape == (10,)

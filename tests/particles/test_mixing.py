"""Beliefs that are mixtures over ancestors."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paramfilter as pf
from paramfilter.models.cauchy_ar1 import TRUTH as CAUCHY_AR1_TRUTH
from paramfilter.particles import AncestorMixing, Grid
from paramfilter.particles.mixing import several_ancestors
from paramfilter.proposals import Guided, LookAhead


def test_several_ancestors_are_the_own_one_and_draws_by_weight():
    num_ancestors, own = 4001, jnp.array([3, 2, 1, 0, 3, 3, 3, 3])
    weights = np.array([0.1, 0.2, 0.3, 0.4, 0.4, 0.3, 0.0, 0.3]) / 2
    found = np.asarray(several_ancestors(jax.random.key(0), num_ancestors, jnp.log(weights), own))
    assert found.shape == (8, num_ancestors) and np.array_equal(found[:, 0], own)
    counts = np.bincount(found[:, 1:].ravel(), minlength=8)
    expected = counts.sum() * weights
    # Each within seven standard errors; an ancestor of no weight is never drawn. False alarms: 2e-11.
    assert np.all(np.abs(counts - expected) <= 7 * np.sqrt(expected)), (counts, expected)


@pytest.mark.slow
def test_cauchy_states_do_not_lock_theta_in():
    """The paper's second example with N = 100, on a series on which paths lock the coefficient in at 0.3.

    The right posterior is by quadrature. On this series three other keys ended 1 to 5 sds away, and paths 23 to 77.
    The keys are fixed.
    """
    right_mean, right_sd = 0.7176, 0.0089
    ys = pf.simulate(jax.random.key(1), pf.models.cauchy_ar1(), CAUCHY_AR1_TRUTH, 1000)[1]
    filter = pf.ParticleFilter(pf.models.cauchy_ar1(), 100, Grid(129), LookAhead(Guided()), mixing=AncestorMixing(8))
    run = jax.jit(lambda key: jax.lax.fori_loop(0, len(ys), lambda i, s: filter.step(s, ys[i])[0], filter.init(key)))
    for seed in range(2):
        mean = filter.posterior(run(jax.random.key(seed))).mean()["a"]
        assert abs(mean - right_mean) < 12 * right_sd

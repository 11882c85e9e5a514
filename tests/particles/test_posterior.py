"""The posterior as a mixture of beliefs: what is known of it in closed form, before data and for given statistics."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.numerics.compensated import CompensatedSum

PRIOR = dist.InverseGamma(4.0, 3.0)
WEIGHTS = np.array([0.1, 0.2, 0.3, 0.4])


@pytest.fixture(scope="module")
def filter():
    return pf.storvik_filter(pf.models.linear_gaussian(phi=0.5, q=PRIOR), 4)


@pytest.fixture(scope="module")
def state(filter):
    return replace(filter.init(jax.random.key(0)), log_weights=jnp.log(jnp.asarray(WEIGHTS, float)))


def test_density_before_data_is_the_prior_on_the_natural_scale(filter, state):
    posterior = filter.posterior(state)
    for q in (0.4, 1.0, 2.5):
        assert float(posterior.log_prob({"q": q})) == pytest.approx(float(PRIOR.log_prob(q)), abs=1e-4)


def test_variance_is_that_within_particles_and_between_them(filter, state):
    squares = np.array([0.0, 4.0, 10.0, 50.0])
    sums = replace(state.statistics[0], square=CompensatedSum.start(jnp.asarray(squares, float)))
    means = (3.0 + squares / 2) / 3  # of InverseGamma(4, b): b / 3, and its variance is half the square of that
    expected = np.sum(WEIGHTS * means**2 * 1.5) - np.sum(WEIGHTS * means) ** 2
    found = filter.posterior(replace(state, statistics=(sums,))).sd()["q"]
    assert float(found) == pytest.approx(np.sqrt(expected), rel=1e-5)

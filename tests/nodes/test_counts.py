"""Counts without bound: a window of whole numbers that follows the state."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy import stats

import paramfilter as pf

THETAS = {"a": np.array([0.5, 0.6, 0.7, 0.8]), "b": np.array([1.5, 1.3, 1.0, 0.8])}


def model_of(level, moves):
    """Return a model of counts around 3 times `level`; b is in units of it."""
    return pf.StateSpaceModel(
        prior={"a": dist.Beta(2.0, 2.0), "b": dist.Gamma(2.0, 2.0)},
        initial=lambda theta, inputs: dist.Poisson(level),
        transition=lambda theta, x, inputs: moves(theta["a"] * x + level * theta["b"]),
        observation=lambda theta, x, inputs: dist.Poisson(0.3 * x + 0.5),
        name="counts",
    )


def log_likelihood(ys, level, law, a, b, most):
    """Sum over all states from 0 to `most`."""
    states = np.arange(most)
    moves = law(states[None], a * states[:, None] + level * b)
    weights, total = stats.poisson.pmf(states, level), 0.0
    for y in ys:
        look = 1.0 if np.isnan(y) else stats.poisson.pmf(y, 0.3 * states + 0.5)
        weights = weights @ moves * look
        total += np.log(weights.sum())
        weights = weights / weights.sum()
    return total


@pytest.mark.parametrize(
    ("level", "moves", "law", "most"),
    [
        (2.0, dist.Poisson, stats.poisson.pmf, 80),
        pytest.param(60.0, dist.Poisson, stats.poisson.pmf, 600, marks=pytest.mark.slow),
        pytest.param(
            8.0,
            lambda mean: dist.NegativeBinomial2(mean, 5.0),
            lambda k, mean: stats.nbinom.pmf(k, 5.0, 5 / (5 + mean)),
            480,
            marks=pytest.mark.slow,
        ),
    ],
    ids=["few", "many", "overdispersed"],
)
def test_log_likelihoods_are_those_of_a_sum_over_all_states(level, moves, law, most):
    """Nats, over 60 counts with a gap; no random numbers."""
    model = model_of(level, moves)
    ys = np.array(pf.simulate(jax.random.key(0), model, {"a": 0.7, "b": 1.0}, 60)[1], float)
    ys[30:35] = np.nan
    filter = pf.auto_filter(model, 64)
    assert "Counts" in filter.choice
    posterior = filter.posterior(pf.catch_up(filter, filter.init(jax.random.key(1)), ys))
    found = []
    for a, b in zip(THETAS["a"], THETAS["b"], strict=True):
        theta = {"a": np.float32(a), "b": np.float32(b)}
        log_prior = sum(float(model.prior[name].log_prob(value)) for name, value in theta.items())
        exact = log_likelihood(ys, level, law, a, b, most)
        found.append(float(posterior.log_prob(theta)) - log_prior - exact)
    assert np.ptp(found) < 0.02
    assert max(posterior.error().values()) < 0.1

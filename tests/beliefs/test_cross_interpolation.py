"""Cross interpolation: exact where the model is separable, accurate elsewhere, and a filter that learns with it."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.support import gibbs

import paramfilter as pf
from paramfilter.beliefs import CrossInterpolation
from paramfilter.beliefs.base import init_shared
from paramfilter.inspect.cross import cross_of_prior

AUTOREGRESSION = pf.models.linear_gaussian(q=dist.LogNormal(0.0, 0.5))  # decomposed once: models compare by identity


def verdict(kind, model, theta, seed, num_steps):
    path = gibbs.simulate_path(model, theta, seed, num_steps)
    start = np.asarray(model.parameters.unconstrain(theta))
    exact = gibbs.exact_points(gibbs.exact_log_density(model), path, start, np.full(len(start), 0.1), jax.random.key(9))
    belief = kind.bind(model)
    return gibbs.judge(belief, exact, *gibbs.follow(belief)(jax.random.key(1), path))


def test_an_autoregression_is_exact_with_four_numbers(float64):
    assert cross_of_prior(AUTOREGRESSION).exact_rank == 4
    found = verdict(CrossInterpolation(), AUTOREGRESSION, {"phi": 0.8, "q": 1.0}, seed=0, num_steps=300)
    assert found.divergence < 1e-10 and found.mean_error < 1e-5


@pytest.mark.slow
def test_stochastic_volatility_is_exact_with_six_numbers(float64):
    model, truth = pf.models.stochastic_volatility(), {"mu": -1.0, "phi": 0.95, "sigma": 0.25}
    assert cross_of_prior(model).exact_rank == 6
    found = verdict(CrossInterpolation(), model, truth, seed=0, num_steps=300)
    assert found.divergence < 1e-10 and found.mean_error < 1e-5


@pytest.mark.slow
def test_star_is_right_where_the_papers_series_is_not(float64):
    found = verdict(CrossInterpolation(), pf.models.star(), {"gamma": 1.0, "c": 3.0}, seed=1, num_steps=300)
    assert found.divergence < 1e-3 and found.mean_error < 0.1


@pytest.mark.slow
def test_a_filter_learns_star_and_can_be_saved(tmp_path):
    model = pf.models.star()
    filter = pf.ParticleFilter(model, 300, CrossInterpolation())
    ys = pf.simulate(jax.random.key(0), model, {"gamma": 1.0, "c": 3.0}, 120)[1]
    state, history = pf.run(filter, filter.init(jax.random.key(1)), ys[:100])
    assert np.all(np.isfinite(history.theta.mean["gamma"]))
    assert float(history.info.approximation_error[-1]) < 0.5
    pf.save(tmp_path / "run.safetensors", state)
    again = pf.restore(tmp_path / "run.safetensors", filter)
    first, second = (pf.run(filter, one, ys[100:])[0] for one in (state, again))
    np.testing.assert_array_equal(first.z, second.z)
    posterior = filter.posterior(first)
    assert np.isfinite(float(posterior.log_prob({"gamma": 1.0, "c": 3.0})))
    assert abs(float(posterior.mean()["c"]) - 2.0) < 4.0


def test_density_is_normalised(float64):
    """Before data it is the prior; the few points behind the normaliser are right to a few percent."""
    belief = CrossInterpolation().bind(AUTOREGRESSION)
    shared = init_shared(belief, jnp.asarray(AUTOREGRESSION.parameters.prior_draws[:10]))
    log_prob = jax.jit(lambda z: belief.log_prob(shared, belief.init(), z))
    for z in ([0.3, 0.0], [0.5, 0.4]):
        expected = float(AUTOREGRESSION.parameters.log_prior(jnp.array(z)))
        assert float(log_prob(jnp.array(z))) == pytest.approx(expected, abs=0.05)


def test_no_pivots_are_refused():
    with pytest.raises(pf.errors.BeliefError, match="at least one pivot"):
        CrossInterpolation(0).bind(pf.models.star())


@pytest.mark.slow
def test_what_interpolation_misses_is_reported(float64):
    found = verdict(CrossInterpolation(8), pf.models.star(), {"gamma": 1.0, "c": 3.0}, seed=1, num_steps=100)
    assert found.error > 0.05 and found.reported > found.error / 3

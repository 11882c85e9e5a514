"""Chebyshev beliefs against exact densities: given the states, and as samplers of what they believe."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.support import gibbs

import paramfilter as pf
from paramfilter.beliefs import Chebyshev
from paramfilter.model import Datum
from paramfilter.polynomials import chebyshev_points, interpolation_row

MAX_Z = 5.5  # false-alarm rate 4e-8 a comparison


def verdict(kind, model, theta, seed, num_steps, scale=0.05):
    path = gibbs.simulate_path(model, theta, seed, num_steps)
    start = np.asarray(model.parameters.unconstrain(theta))
    exact = gibbs.exact_points(
        gibbs.exact_log_density(model), path, start, np.full(len(start), scale), jax.random.key(9)
    )
    belief = kind.bind(model)
    return gibbs.judge(belief, exact, *gibbs.follow(belief)(jax.random.key(1), path))


def test_interpolation_is_exact_for_polynomials(float64):
    values = chebyshev_points(9) ** 7 - chebyshev_points(9) ** 2
    found = jax.vmap(lambda u: interpolation_row(9, u) @ jnp.asarray(values))(jnp.linspace(-1, 1, 33))
    np.testing.assert_allclose(found, np.linspace(-1, 1, 33) ** 7 - np.linspace(-1, 1, 33) ** 2, atol=1e-13)


def test_sin_given_the_states_is_right(float64):
    found = verdict(Chebyshev(17), pf.models.sin(), {"theta": 0.7}, seed=0, num_steps=300)
    assert found.divergence < 1e-4 and found.mean_error < 0.01


def test_heavy_tailed_states_are_no_trouble(float64):
    """Jumps of hundreds narrow the belief a hundredfold in one step: the window has to be there before the datum."""
    found = verdict(Chebyshev(49), pf.models.cauchy_ar1(), {"a": 0.7}, seed=9, num_steps=300)
    assert found.divergence < 1e-2 and found.mean_error < 0.1


@pytest.mark.slow
def test_two_parameters(float64):
    model = pf.models.linear_gaussian(q=dist.LogNormal(0.0, 0.5))
    found = verdict(Chebyshev(9), model, {"phi": 0.8, "q": 1.0}, seed=0, num_steps=300, scale=0.1)
    assert found.divergence < 1e-3 and found.mean_error < 0.1


@pytest.mark.slow
def test_too_few_nodes_are_reported():
    kind, model = Chebyshev(4), pf.models.sin(prior_sd=1.0)
    filter = pf.extended_parameter_filter(model, 100, belief=kind)
    ys = pf.simulate(jax.random.key(0), model, {"theta": 1.2}, 150)[1]
    state, history = pf.run(filter, filter.init(jax.random.key(1)), ys)
    assert float(jnp.max(history.info.approximation_error)) > 0.5
    assert int(state.outcome) & pf.Outcome.BELIEF_INACCURATE
    assert float(filter.posterior(state).approximation_error()) > 0


@pytest.mark.slow
@pytest.mark.parametrize("dimension", [1, 2])
def test_draws_follow_the_belief(dimension):
    model = pf.models.sin() if dimension == 1 else pf.models.linear_gaussian(q=dist.LogNormal(0.0, 0.5))
    theta = {"theta": 0.7} if dimension == 1 else {"phi": 0.8, "q": 1.0}
    belief = Chebyshev().bind(model)
    path = gibbs.simulate_path(model, theta, 3, 60)

    def absorb(statistic, step):
        return belief.absorb(None, statistic, Datum(*step, None)), None

    steps = tuple(jnp.asarray(part, float) for part in (path.x[:-1], path.x[1:], path.y))
    statistic = jax.jit(lambda: jax.lax.scan(absorb, belief.start(), steps)[0])()
    keys = jax.random.split(jax.random.key(4), 20_000)
    draws = jax.jit(jax.vmap(lambda key: belief.draw(key, None, statistic, jnp.zeros(dimension)).z))(keys)
    thetas = jax.vmap(model.parameters.constrain)(draws)
    moments = belief.moments(None, statistic, draws[0])
    for name, values in thetas.items():
        sd = float(jnp.sqrt(moments.variance[name]))
        z = (float(values.mean()) - float(moments.mean[name])) / (sd / np.sqrt(len(values)))
        assert abs(z) < MAX_Z
        assert float(values.std()) == pytest.approx(sd, rel=0.05)


def test_draws_of_two_parameters_are_correlated_as_the_belief_is():
    """a and b are standard normal, and a + b = 0.5 was seen with a noise of 1: their correlation becomes -1/2."""
    model = pf.StateSpaceModel(
        prior={"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["a"] + theta["b"], 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
    )
    belief, num_draws = Chebyshev().bind(model), 4000
    start = belief.start()
    points = belief.points.at_nodes(start.window)
    values = (-0.5 * (jnp.sum(points, axis=1) - 0.5) ** 2).reshape(belief.num_nodes)
    draw = lambda key: belief.draw(key, None, replace(start, values=values), jnp.zeros(2)).z
    draws = jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(5), num_draws))
    found = np.corrcoef(np.asarray(draws, np.float64).T)[0, 1]
    # Fisher's z has a standard error of 1/sqrt(n); 6 of them have a false-alarm rate of 2e-9.
    assert np.arctanh(found) == pytest.approx(np.arctanh(-0.5), abs=6 / np.sqrt(num_draws))


@pytest.mark.slow
def test_an_impossible_theta_does_not_spoil_the_belief():
    """The support of the transition ends where theta says: minus infinity at some nodes."""
    model = pf.StateSpaceModel(
        prior={"width": dist.LogNormal(0.0, 0.5)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Uniform(x - theta["width"], x + theta["width"]),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
    )
    filter = pf.ParticleFilter(model, 50, Chebyshev())
    ys = pf.simulate(jax.random.key(0), model, {"width": 1.0}, 20)[1]
    state, _ = pf.run(filter, filter.init(jax.random.key(1)), ys)
    assert np.isfinite(float(filter.posterior(state).mean()["width"]))


def test_three_parameters_are_sent_to_cross_interpolation():
    with pytest.raises(pf.errors.BeliefError, match=r"one or two parameters.*CrossInterpolation"):
        Chebyshev().bind(pf.models.stochastic_volatility())

"""Beliefs on a shared grid against exact densities: given the states, and as samplers of what they believe."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from tests.support import gibbs

import paramfilter as pf
from paramfilter.model import Transition
from paramfilter.particles import Grid
from paramfilter.polynomials import interpolated, misses_between

PAIR = pf.StateSpaceModel(
    prior={"a": dist.Normal(0.0, 1.0), "b": dist.Normal(0.0, 1.0)},
    initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
    transition=lambda theta, x, inputs: dist.Normal(theta["a"] + theta["b"], 1.0),
    observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
)


def verdict(kind, model, theta, seed, num_steps, scale=0.05):
    path = gibbs.simulate_path(model, theta, seed, num_steps)
    start = np.asarray(model.parameters.unconstrain(theta))
    exact = gibbs.exact_points(
        gibbs.exact_log_density(model), path, start, np.full(len(start), scale), jax.random.key(9)
    )
    belief = kind.bind(model)
    return gibbs.judge(belief, exact, *gibbs.follow(belief)(jax.random.key(1), path))


def test_local_polynomials_are_exact_up_to_degree_five_and_know_what_they_miss(float64):
    points, places = jnp.arange(24.0), jnp.linspace(0.0, 23.0, 50)
    quintic = lambda s: (s / 10 - 1) ** 5 - s**2
    np.testing.assert_allclose(interpolated(quintic(points), places), quintic(places), atol=1e-11)
    middle = 0.5 + points[2:-3]
    missed = np.max(np.abs(interpolated(jnp.sin(points), middle) - jnp.sin(middle)))
    assert missed / 5 < np.max(np.abs(misses_between(jnp.sin(points)))) < 5 * missed


def test_sin_given_the_states_is_right(float64):
    found = verdict(Grid(33), pf.models.sin(), {"theta": 0.7}, seed=0, num_steps=300)
    assert found.divergence < 1e-4 and found.mean_error < 0.01


def test_heavy_tailed_states_are_no_trouble(float64):
    """Jumps of hundreds narrow the belief a hundredfold in one step: the grid has to be there before the datum.

    With 129 points the mean given these states is off by 0.4 sds; on another path with 257 as well.
    """
    found = verdict(Grid(257), pf.models.cauchy_ar1(), {"a": 0.7}, seed=9, num_steps=300)
    assert found.divergence < 1e-2 and found.mean_error < 0.1


@pytest.mark.slow
def test_two_parameters(float64):
    model = pf.models.linear_gaussian(q=dist.LogNormal(0.0, 0.5))
    found = verdict(Grid(), model, {"phi": 0.8, "q": 1.0}, seed=0, num_steps=300, scale=0.1)
    assert found.divergence < 1e-3 and found.mean_error < 0.1


def test_rows_that_were_left_on_an_old_grid_are_brought_to_the_new_one():
    """What the next datum makes of a population does not depend on where its rows lie."""
    model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0), q=1.0, r=1.0)
    belief = Grid(65).bind(model)
    rows = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), belief.init())
    absorb = jax.jit(belief.update_all)
    for step in range(4):
        rows = absorb(None, rows, Transition(jnp.array([2.0, 3.0]), jnp.array([1.0 + step, 2.0]), jnp.zeros(()), None))
    narrower = replace(rows.place, half_width=0.8 * rows.place.half_width)
    second = jax.vmap(belief._moved)(rows, narrower)
    mixed = jax.tree.map(lambda one, other: jnp.stack([one[0], other[1]]), rows, second)
    datum = Transition(jnp.array([2.0, -1.0]), jnp.array([1.0, 2.0]), jnp.zeros(()), None)
    moments = lambda rows: jax.vmap(lambda row: belief.moments(None, row, jnp.zeros(1)))(rows)
    right, found = (moments(absorb(None, given, datum)) for given in (rows, mixed))
    np.testing.assert_allclose(found.mean["phi"], right.mean["phi"], rtol=1e-3)
    np.testing.assert_allclose(found.variance["phi"], right.variance["phi"], rtol=3e-3)


def test_a_belief_narrower_than_the_spacing_is_reported():
    belief = Grid(65).bind(pf.models.sin())
    start = belief.init()
    narrow = lambda width: replace(start, values=-0.5 * ((jnp.arange(65.0) - 32.0) / width) ** 2)
    errors = [float(belief.error(None, narrow(width))) for width in (2.0, 0.2)]
    assert errors[0] < 1e-4 and errors[1] > 0.5


def test_draws_and_density_are_those_of_two_correlated_parameters():
    """a and b are standard normal, and a + b = 0.5 was seen with a noise of 1: their correlation becomes -1/2."""
    belief, num_draws = Grid().bind(PAIR), 4000
    points, start = np.linspace(-1.0, 1.0, belief.size), belief.init()
    z = start.place.center + start.place.half_width * np.stack(np.meshgrid(points, points, indexing="ij"), axis=-1)
    statistic = replace(start, values=start.values - 0.5 * (jnp.sum(z, axis=-1) - 0.5) ** 2)
    draw = lambda key: belief.sample(key, None, statistic, jnp.zeros(2)).z
    draws = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(5), num_draws)), np.float64)
    # Fisher's z has a standard error of 1/sqrt(n); 6 of them have a false-alarm rate of 2e-9.
    assert np.arctanh(np.corrcoef(draws.T)[0, 1]) == pytest.approx(np.arctanh(-0.5), abs=6 / np.sqrt(num_draws))
    np.testing.assert_allclose(draws.mean(axis=0), 1 / 6, atol=6 * np.sqrt(2 / 3 / num_draws))
    covariance = np.array([[2.0, -1.0], [-1.0, 2.0]]) / 3
    right = dist.MultivariateNormal(jnp.full(2, 1 / 6), covariance).log_prob(jnp.asarray(draws[:20]))
    found = jax.vmap(lambda z: belief.log_prob(None, statistic, z))(jnp.asarray(draws[:20], jnp.float32))
    np.testing.assert_allclose(found, right, atol=1e-3)
    assert float(belief.log_prob(None, statistic, jnp.array([0.0, 100.0]))) == -np.inf


@pytest.mark.slow
def test_an_impossible_theta_does_not_spoil_the_belief():
    """The support of the transition ends where theta says: minus infinity at some points."""
    model = pf.StateSpaceModel(
        prior={"width": dist.LogNormal(0.0, 0.5)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Uniform(x - theta["width"], x + theta["width"]),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
    )
    filter = pf.ParticleFilter(model, 50, Grid())
    ys = pf.simulate(jax.random.key(0), model, {"width": 1.0}, 20)[1]
    state, _ = pf.run(filter, filter.init(jax.random.key(1)), ys)
    assert 0.5 < float(filter.posterior(state).mean()["width"]) < 2.0


def test_three_parameters_are_sent_to_cross_interpolation():
    with pytest.raises(pf.errors.BeliefError, match=r"one or two parameters.*auto_filter"):
        Grid().bind(pf.models.stochastic_volatility())

"""The moment-matched belief is exact where the posterior is Gaussian, and where it is not it says how wrong it is."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.beliefs import Conjugate, Grid
from paramfilter.beliefs.moment_matched import MomentMatched, _on_axes_and_corners
from paramfilter.model import Transition


def absorb_path(belief, xs, ys):
    """Feed a belief with known states, as a particle would."""

    def absorb(statistic, step):
        x_prev, x, y = step
        return belief.update(None, statistic, Transition(x_prev, x, y, None)), None

    return jax.jit(lambda: jax.lax.scan(absorb, belief.init(), (xs[:-1], xs[1:], ys[1:]))[0])()


def regression(dimension):
    """A scalar state that depends on several coefficients at once, so that they become correlated."""
    powers = jnp.arange(dimension)
    return pf.StateSpaceModel(
        prior={"beta": dist.Normal(0.1 * jnp.ones(dimension), 0.3).to_event(1)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(jnp.dot(theta["beta"], jnp.cos(powers * x)), 1.0),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
    )


def test_coefficient_with_a_normal_prior_is_exact(float64):
    model = pf.models.linear_gaussian(phi=dist.Normal(0.3, 0.2))
    xs, ys = pf.simulate(jax.random.key(0), model, {"phi": 0.8}, 60)
    exact = Conjugate().bind(model)
    expected = exact.moments(None, absorb_path(exact, xs, ys), jnp.zeros(1))
    belief = MomentMatched(num_points=11).bind(model)
    statistic = absorb_path(belief, xs, ys)
    found = belief.moments(None, statistic, jnp.zeros(1))
    assert float(found.mean["phi"]) == pytest.approx(float(expected.mean["phi"]), rel=1e-6)
    assert float(found.variance["phi"]) == pytest.approx(float(expected.variance["phi"]), rel=1e-6)
    assert float(belief.error(None, statistic)) < 1e-6


# Each rule is exact for polynomials only, and the likelihood of a datum is none: the limits are what the rules leave.
@pytest.mark.parametrize(("dimension", "limit"), [(2, 1e-5), (3, 1e-3)])
def test_correlated_coefficients_are_matched(float64, dimension, limit):
    model = regression(dimension)
    xs, ys = pf.simulate(jax.random.key(1), model, {"beta": 0.4 * jnp.ones(dimension)}, 60)
    path = np.asarray(xs)
    design = np.cos(np.arange(dimension) * path[:-1, None])
    precision = design.T @ design + np.eye(dimension) / 0.3**2
    mean = np.linalg.solve(precision, design.T @ path[1:] + 0.1 / 0.3**2)
    belief = MomentMatched().bind(model)
    statistic = absorb_path(belief, xs, ys)
    # In units of the exact posterior: the covariance should be the identity, the mean should not be off.
    whitener = np.linalg.cholesky(precision).T
    factor = whitener @ np.asarray(statistic.factor)
    np.testing.assert_allclose(factor @ factor.T, np.eye(dimension), atol=limit)
    np.testing.assert_allclose(whitener @ (np.asarray(statistic.mean) - mean), 0.0, atol=limit)


def test_sharp_datum_is_taken_in_by_parts_and_does_not_collapse_the_belief(float64):
    model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 3.0))
    belief = MomentMatched().bind(model)
    x_prev, x = jnp.array(50.0), jnp.array(45.0)  # 150 times sharper than the prior; the nodes are one sd apart
    statistic = jax.jit(belief.update)(None, belief.init(), Transition(x_prev, x, x, None))
    sd = 1.0 / np.sqrt(50.0**2 + 1.0 / 9.0)
    assert float(statistic.factor[0, 0]) == pytest.approx(sd, rel=0.05)
    assert float(statistic.mean[0]) == pytest.approx(0.9, abs=0.05 * sd)


def test_rule_for_many_parameters_is_exact_up_to_degree_five():
    nodes, weights = _on_axes_and_corners(6)
    expected = {
        (): 1,
        (0,): 0,
        (0, 0): 1,
        (0, 1): 0,
        (0, 0, 1): 0,
        (0, 0, 0, 0): 3,
        (0, 0, 1, 1): 1,
        (0, 0, 0, 0, 1): 0,
    }
    for chosen, value in expected.items():
        assert np.sum(weights * np.prod(nodes[:, list(chosen)], axis=1)) == pytest.approx(value, abs=1e-12)
    assert np.all(weights > 0)


def true_error(log_ratio, mean, sd):
    """Return the standard deviation of log(q/p) under a Gaussian, by quadrature: the error that is to be reported."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(8)  # out to four standard deviations
    weights /= np.sum(weights)
    differences = np.asarray(jax.vmap(log_ratio)(jnp.asarray(mean + sd * nodes[:, None], float)))
    return np.sqrt(weights @ (differences - weights @ differences) ** 2)


@pytest.mark.slow
def test_error_on_sin_is_reported_within_a_factor():
    model = pf.models.sin()
    xs, ys = pf.simulate(jax.random.key(3), model, {"theta": 0.7}, 400)
    exact, belief = Grid().bind(model), MomentMatched().bind(model)
    right, statistic = absorb_path(exact, xs, ys), absorb_path(belief, xs, ys)
    moments = exact.moments(None, right, jnp.zeros(1))
    log_ratio = lambda z: belief.log_prob(None, statistic, z) - exact.log_prob(None, right, z)
    true = true_error(log_ratio, float(moments.mean["theta"]), float(jnp.sqrt(moments.variance["theta"])))
    assert true > 0.1
    assert true / 3 < float(belief.error(None, statistic)) < 10 * true


def test_prior_that_is_not_gaussian_counts_as_an_error_from_the_start():
    model = pf.models.linear_gaussian(phi=0.8, q=dist.InverseGamma(2.0, 2.0))
    belief = MomentMatched().bind(model)
    statistic = belief.init()
    log_ratio = lambda z: belief.log_prob(None, statistic, z) - model.parameters.log_prior(z)
    true = true_error(log_ratio, float(statistic.mean[0]), float(statistic.factor[0, 0]))
    assert true / 3 < float(belief.error(None, statistic)) < 10 * true
    gaussian = MomentMatched().bind(pf.models.sin())
    assert float(gaussian.error(None, gaussian.init())) < 1e-5


def test_draws_and_density_are_those_of_the_gaussian():
    belief = MomentMatched().bind(regression(2))
    start = belief.init()
    statistic = type(start)(jnp.array([0.5, -1.0]), jnp.array([[0.3, 0.0], [0.2, 0.1]]), start.misses)
    gaussian = dist.MultivariateNormal(statistic.mean, scale_tril=statistic.factor)
    z = jnp.array([0.6, -0.8])
    assert float(belief.log_prob(None, statistic, z)) == pytest.approx(float(gaussian.log_prob(z)), rel=1e-5)
    num_draws = 20_000
    draw = lambda key: belief.sample(key, None, statistic, z).z
    draws = np.asarray(jax.jit(jax.vmap(draw))(jax.random.split(jax.random.key(0), num_draws)), np.float64)
    whitened = np.linalg.solve(np.asarray(statistic.factor, np.float64), (draws - np.asarray(statistic.mean)).T)
    errors = np.append(whitened.mean(axis=1), np.mean(whitened[0] * whitened[1])) * np.sqrt(num_draws)
    assert np.all(np.abs(errors) < 5.5)  # standard errors; false alarms: 1e-7 for the three
    squares = (np.mean(whitened**2, axis=1) - 1.0) * np.sqrt(num_draws / 2)
    assert np.all(np.abs(squares) < 5.5)  # standard errors; false alarms: 1e-7 for the two


def test_datum_that_is_possible_nowhere_makes_the_statistic_nan():
    belief = MomentMatched().bind(pf.models.sin())
    impossible = Transition(jnp.array(1.0), jnp.array(jnp.inf), jnp.array(1.0), None)
    statistic = jax.jit(belief.update)(None, belief.init(), impossible)
    assert bool(jnp.any(jnp.isnan(statistic.misses)))


@pytest.mark.slow
def test_filter_with_moment_matched_beliefs_runs_in_float32_and_learns():
    model = pf.models.linear_gaussian(phi=dist.Normal(0.3, 0.2))
    _, ys = pf.simulate(jax.random.key(0), model, {"phi": 0.8}, 100)
    particle_filter = pf.ParticleFilter(model, 100, MomentMatched())
    state, _ = pf.run(particle_filter, particle_filter.init(jax.random.key(1)), ys)
    posterior = particle_filter.posterior(state)
    assert int(state.outcome) == 0
    assert 0.5 < float(posterior.mean()["phi"]) < 1.0 and float(posterior.sd()["phi"]) < 0.15
    assert state.statistics.mean.dtype == jnp.float32


@pytest.mark.parametrize(
    ("belief", "model", "words"),
    [(MomentMatched(2), pf.models.sin(), "at least 3"), (MomentMatched(), regression(11), "CrossInterpolation")],
)
def test_what_does_not_fit_is_refused_with_the_cure(belief, model, words):
    with pytest.raises(pf.errors.BeliefError, match=words):
        belief.bind(model)

"""Proposals that see the data leave the filter's law as it is: weights average to p(y | x_prev), weighted states to
E(x | x_prev, y), against exact formulas and quadrature."""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.proposals import Bootstrap, Guided, LookAhead
from paramfilter.proposals.gaussian_product import GaussianProduct
from paramfilter.proposals.laplace_product import DEFENCE, LaplaceProduct

NUM_DRAWS = 20_000
MAX_Z = 5.5  # false-alarm rate 4e-8 a comparison, below 1e-6 for this file


def moves(model, theta, x_prev, y, seed=0):
    """Many independent moves of one particle."""
    proposal = Guided().bind(model)

    @jax.jit
    def draw(keys):
        plan = proposal.plan(theta, x_prev, y, None)
        return jax.vmap(lambda key: proposal.propose(key, plan, theta, x_prev, y, None))(keys)

    return draw(jax.random.split(jax.random.key(seed), NUM_DRAWS))


def scalar_model(transition, observation):
    return pf.StateSpaceModel(
        prior={"a": dist.Normal(0.5, 0.2)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: transition(theta["a"] * x),
        observation=lambda theta, x, inputs: observation(x),
    )


CASES = {
    "volatility": (scalar_model(lambda m: dist.Normal(m, 0.5), lambda x: dist.Normal(0.0, jnp.exp(x / 2))), 2.5),
    "counts": (scalar_model(lambda m: dist.Normal(m, 0.7), lambda x: dist.Poisson(jnp.exp(x))), 5.0),
    "cauchy, near": (scalar_model(lambda m: dist.Cauchy(m, 1.0), lambda x: dist.Normal(x, 10.0)), 4.0),
    "cauchy, far": (scalar_model(lambda m: dist.Cauchy(m, 1.0), lambda x: dist.Normal(x, 10.0)), 80.0),
    "heavy tails, two peaks": (
        scalar_model(lambda m: dist.StudentT(3.0, m, 0.5), lambda x: dist.Normal(x**2 / 4, 0.5)),
        3.0,
    ),
    "missing": (scalar_model(lambda m: dist.Normal(m, 0.5), lambda x: dist.Normal(0.0, jnp.exp(x / 2))), jnp.nan),
}


@pytest.mark.parametrize("name", CASES)
def test_approximate_moves_are_weighted_right(name):
    model, y = CASES[name]
    theta, x_prev = {"a": jnp.array(0.6)}, jnp.array(1.5)
    found = moves(model, theta, x_prev, jnp.asarray(y))
    assert isinstance(Guided().bind(model), LaplaceProduct)

    grid = jnp.concatenate([x_prev + jnp.linspace(-12, 12, 20_001), jnp.linspace(-300, 300, 20_001)])
    grid = jnp.sort(grid)
    log_transition = jax.vmap(lambda x: model.transition_log_prob(theta, x_prev, x, None))(grid)
    log_observation = jax.vmap(lambda x: model.observation_log_prob(theta, x, jnp.asarray(y), None))(grid)
    density = np.nan_to_num(np.exp(np.asarray(log_transition + log_observation, np.float64)))  # exp(300) overflows
    points = np.asarray(grid, np.float64)
    weights, states = np.exp(np.asarray(found.log_weight, np.float64)), np.asarray(found.x, np.float64)
    for feature in (lambda x: np.ones_like(x), np.tanh, lambda x: np.cos(x / 3)):
        exact = np.trapezoid(density * feature(points), points)
        samples = weights * feature(states)
        assert abs(samples.mean() - exact) < MAX_Z * samples.std() / np.sqrt(NUM_DRAWS) + 1e-5 * abs(exact)
    # Bounded by the defence: log p(y | x) - log DEFENCE at most.
    assert np.all(weights <= 1.0001 * np.exp(np.nanmax(np.asarray(log_observation))) / DEFENCE)


def test_a_place_without_numbers_has_no_weight():
    """A variance of exp(-1000) is 0 and the log density there is not a number. A t around it is a poor fit, no more."""
    model, y = CASES["volatility"]
    proposal, theta, x_prev = Guided().bind(model), {"a": jnp.array(0.6)}, jnp.array(1.5)
    plan = replace(proposal.plan(theta, x_prev, jnp.asarray(y), None), centers=jnp.array([[-1000.0]]))
    keys = jax.random.split(jax.random.key(0), 200)
    found = jax.vmap(lambda key: proposal.propose(key, plan, theta, x_prev, jnp.asarray(y), None))(keys)
    is_far = np.asarray(found.x) < -500
    assert 100 < np.sum(is_far) < 200
    assert np.all(np.asarray(found.log_weight)[is_far] == -np.inf)
    assert np.all(np.isfinite(np.asarray(found.log_weight)[~is_far]))


def test_effective_share_of_the_moves_is_high():
    share = {}
    for name in ("volatility", "counts", "cauchy, near", "cauchy, far"):
        model, y = CASES[name]
        weights = np.exp(np.asarray(moves(model, {"a": jnp.array(0.6)}, jnp.array(1.5), jnp.asarray(y)).log_weight))
        share[name] = weights.mean() ** 2 / np.mean(weights**2)
    assert min(share.values()) > 0.5, share


@pytest.mark.parametrize("missing", [(), (0,), (0, 1)])
def test_gaussian_moves_are_exact(missing):
    scale = jnp.linalg.cholesky(jnp.array([[1.0, 0.3], [0.3, 0.5]]))
    rows = jnp.array([[1.0, 0.5], [0.0, 2.0]])
    model = pf.StateSpaceModel(
        prior={"a": dist.Normal(0.5, 0.2)},
        initial=lambda theta, inputs: {"p": dist.Normal(jnp.zeros(2), 1.0).to_event(1)},
        transition=lambda theta, x, inputs: {"p": dist.MultivariateNormal(theta["a"] * x["p"], scale_tril=scale)},
        observation=lambda theta, x, inputs: dist.Normal(rows @ x["p"] + 1.0, jnp.array([0.3, 0.8])).to_event(1),
    )
    theta, x_prev = {"a": jnp.array(0.6)}, {"p": jnp.array([1.0, -2.0])}
    y = jnp.array([0.7, -1.5]).at[jnp.array(missing, int)].set(jnp.nan)
    assert isinstance(Guided().bind(model), GaussianProduct)
    found = moves(model, theta, x_prev, y)

    keep = [index for index in range(2) if index not in missing]
    prior_mean, prior = np.array([0.6, -1.2]), np.array([[1.0, 0.3], [0.3, 0.5]])
    slope, noise = np.asarray(rows, np.float64)[keep], np.diag([0.09, 0.64])[np.ix_(keep, keep)]
    seen = slope @ prior @ slope.T + noise
    gain = prior @ slope.T @ np.linalg.inv(seen) if keep else np.zeros((2, 0))
    residual = np.asarray(y, np.float64)[keep] - slope @ prior_mean - 1.0
    mean, covariance = prior_mean + gain @ residual, prior - gain @ slope @ prior
    log_predictive = (
        -0.5 * (residual @ np.linalg.solve(seen, residual) + np.linalg.slogdet(2 * np.pi * seen)[1]) if keep else 0.0
    )

    assert np.allclose(found.log_weight, log_predictive, atol=1e-5)
    states = np.asarray(found.x["p"], np.float64)
    assert np.all(np.abs(states.mean(axis=0) - mean) < MAX_Z * np.sqrt(np.diag(covariance) / NUM_DRAWS))
    sample = np.cov(states.T)
    errors = np.sqrt((np.outer(np.diag(covariance), np.diag(covariance)) + covariance**2) / NUM_DRAWS)
    assert np.all(np.abs(sample - covariance) < MAX_Z * errors)


def is_observed_linearly(model):
    return isinstance(Guided().bind(model), GaussianProduct)


def test_what_is_not_linear_is_not_taken_for_it():
    assert is_observed_linearly(pf.models.sin())
    assert not is_observed_linearly(pf.models.stochastic_volatility())
    assert not is_observed_linearly(scalar_model(lambda m: dist.Normal(m, 1.0), lambda x: dist.Normal(x**2, 1.0)))
    assert not is_observed_linearly(
        scalar_model(lambda m: dist.Normal(m, 1.0), lambda x: dist.Normal(x, jnp.sqrt(1 + x**2)))
    )


def test_whole_numbers_are_refused_with_the_cure():
    model = pf.StateSpaceModel(
        prior={"rate": dist.LogNormal(0.0, 0.3)},
        initial=lambda theta, inputs: dist.Poisson(5.0),
        transition=lambda theta, x, inputs: dist.Poisson(theta["rate"] * (x + 1.0)),
        observation=lambda theta, x, inputs: dist.Normal(x * 1.0, 1.0),
    )
    with pytest.raises(pf.errors.ProposalError, match=r"whole numbers. Use Bootstrap\(\)"):
        Guided().bind(model)


def test_looking_ahead_blindly_is_refused():
    with pytest.raises(pf.errors.ProposalError, match=r"Bootstrap\(\) does not; use Guided\(\)"):
        LookAhead(Bootstrap()).bind(pf.models.sin())


@pytest.mark.parametrize(
    ("proposal", "resampling"),
    [
        (Guided(), pf.resampling.Systematic()),
        (LookAhead(), pf.resampling.Systematic()),
        (LookAhead(), pf.resampling.WhenEssBelow(0.5, pf.resampling.Systematic())),
    ],
    ids=["guided", "ahead", "ahead when needed"],
)
def test_evidence_and_posterior_agree_with_the_kalman_filter(proposal, resampling):
    model = pf.models.linear_gaussian(phi=dist.Normal(0.3, 0.2))
    _, ys = pf.simulate(jax.random.key(3), model, {"phi": 0.5}, 30)
    ys = ys.at[7].set(jnp.nan)
    exact = pf.references.kalman_grid(model, ys)
    filter = pf.ParticleFilter(model, 2000, pf.particles.Conjugate(), proposal, resampling)

    @jax.jit
    @jax.vmap
    def one(key):
        state = jax.lax.fori_loop(0, len(ys), lambda t, s: filter.step(s, ys[t])[0], filter.init(key))
        return state.log_evidence, filter.posterior(state).mean()["phi"]

    evidence, mean = (np.asarray(part, np.float64) for part in one(jax.random.split(jax.random.key(5), 24)))
    ratios = np.exp(evidence - float(exact.log_evidence))  # an estimate of the evidence is unbiased, its log is not
    assert abs(ratios.mean() - 1) < MAX_Z * ratios.std() / np.sqrt(24)
    assert ratios.std() < 0.5
    error = (mean - float(exact.mean()["phi"])) / float(exact.sd()["phi"])
    assert abs(error.mean()) < MAX_Z * error.std() / np.sqrt(24) + 0.01
    assert error.std() < 0.15

"""The yardsticks that move points: what a kernel keeps, what jitter adds, and both filters against exact answers.

Seeds are fixed, so nothing here can flake. Limits in standard errors are 5 (false alarms: 6e-7).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paramfilter as pf
from paramfilter.beliefs import Jitter, ShrinkingKernel
from paramfilter.errors import BeliefError, ModelError, ProposalError
from paramfilter.proposals import CrowdMove, crowd_of

NUM_POINTS = 20_000


def moved(belief, z):
    bound = belief.bind(pf.models.star())
    shared, _ = bound.regroup(bound.start_shared(z), None, z, jnp.zeros(len(z)))
    keys = jax.random.split(jax.random.key(1), len(z))
    return jax.jit(jax.vmap(lambda key, point: bound.draw(key, shared, None, point).z))(keys, z)


@pytest.fixture(scope="module")
def points():
    mixing = jnp.array([[1.0, 0.0], [0.6, 0.2]])
    return 3.0 + jax.random.normal(jax.random.key(0), (NUM_POINTS, 2)) @ mixing.T


def test_the_kernel_keeps_mean_and_covariance(points):
    after = moved(ShrinkingKernel(0.8), points)
    assert not np.allclose(points, after, atol=0.1)
    standard_error = np.std(points, axis=0) / NUM_POINTS**0.5
    assert np.all(np.abs(np.mean(after, axis=0) - np.mean(points, axis=0)) < 5 * standard_error)
    # the sd of a sample variance is sqrt(2 / n) of it, that of a covariance at most as much of the product of sds
    limits = 5 * (2 / NUM_POINTS) ** 0.5 * np.outer(np.std(points, axis=0), np.std(points, axis=0))
    assert np.all(np.abs(np.cov(after.T) - np.cov(points.T)) < limits)


def test_jitter_adds_its_share_of_the_prior(points):
    added = moved(Jitter(0.1), points) - points
    prior_sd = np.std(pf.models.star().parameters.prior_draws, axis=0)
    assert np.std(added, axis=0) == pytest.approx(0.1 * prior_sd, rel=5 * (2 * NUM_POINTS) ** -0.5)


@pytest.fixture(scope="module")
def problem():
    model = pf.models.linear_gaussian()
    ys = pf.simulate(jax.random.key(2), model, {"phi": 0.6}, 40)[1].at[12].set(jnp.nan)
    return model, ys, pf.references.kalman_grid(model, ys)


@pytest.mark.parametrize(
    ("make", "error", "ratios"),
    [
        (lambda model: pf.liu_west_filter(model, 2000), 0.2, (0.8, 1.2)),
        (lambda model: pf.nested_particle_filter(model, 400, num_states=100), 0.3, (0.8, 1.5)),
    ],
    ids=["liu_west_filter", "nested_particle_filter"],
)
def test_yardsticks_are_near_the_exact_answer_at_first(problem, make, error, ratios):
    model, ys, exact = problem
    filter = make(model)
    state, history = pf.run(filter, filter.init(jax.random.key(3)), ys)
    posterior = filter.posterior(state)
    assert abs(posterior.mean()["phi"] - exact.mean()["phi"]) < error * exact.sd()["phi"]
    assert ratios[0] < posterior.sd()["phi"] / exact.sd()["phi"] < ratios[1]
    assert float(state.log_evidence) == pytest.approx(exact.log_evidence, abs=0.5)
    assert history.info.log_evidence_increment[12] == pytest.approx(0.0, abs=1e-5)


def test_the_evidence_of_crowds_is_unbiased():
    """With theta all but known, jitter does nothing, and the mean over 2000 runs is the exact likelihood."""
    model = pf.models.linear_gaussian()
    filter = pf.ParticleFilter(crowd_of(model, 8), 4, Jitter(1e-6), CrowdMove())
    ys = pf.simulate(jax.random.key(4), model, {"phi": 0.4}, 6)[1]
    exact = pf.references.kalman_grid(model, ys).log_evidence

    @jax.jit
    def estimate(key):
        return jax.lax.scan(filter.step, filter.init(key), ys)[0].log_evidence

    estimates = jax.lax.map(estimate, jax.random.split(jax.random.key(5), 2000), batch_size=500)
    ratios = np.exp(np.asarray(estimates, np.float64) - exact)
    assert abs(ratios.mean() - 1) < 5 * ratios.std() / np.sqrt(len(ratios))
    assert ratios.std() < 2.0  # enough power to see a bias of a quarter


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: ShrinkingKernel(0.2), BeliefError, "between 1/3 and 1"),
        (lambda: Jitter(0.0), BeliefError, "must be positive"),
        (lambda: crowd_of(pf.models.sin(), 1), ModelError, "at least 2 states"),
        (lambda: CrowdMove().bind(pf.models.sin()), ProposalError, "crowd_of"),
    ],
)
def test_what_cannot_work_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()

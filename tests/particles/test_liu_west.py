"""Liu and West: what the kernel keeps, and the filter against exact answers.

Seeds are fixed, so nothing here can flake. Limits in standard errors are 5 (false alarms: 6e-7).
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import paramfilter as pf
from paramfilter.errors import ArgumentError, BeliefError
from paramfilter.particles import ShrinkingKernel

NUM_POINTS = 20_000


STAR = pf.models.star()


def moved(belief, z):
    bound = belief.bind(STAR)
    shared, statistics = bound.adapt(bound.init_shared(z), None, z, jnp.zeros(len(z)))
    keys = jax.random.split(jax.random.key(1), len(z))
    return jax.jit(jax.vmap(lambda key, own: bound.sample(key, shared, statistics, own).z))(keys, z)


@pytest.fixture(scope="module")
def points():
    mixing = jnp.array([[1.0, 0.0], [0.6, 0.2]])
    return 3.0 + jax.random.normal(jax.random.key(0), (NUM_POINTS, 2)) @ mixing.T


def test_the_kernel_keeps_mean_and_covariance(points):
    after = moved(ShrinkingKernel(0.8), points)
    kept = [np.corrcoef(before, now)[0, 1] for before, now in zip(points.T, after.T, strict=True)]
    assert kept == pytest.approx(2 * [(3 * 0.8 - 1) / (2 * 0.8)], abs=5 * (1 - 0.875**2) / NUM_POINTS**0.5)
    standard_error = np.std(points, axis=0) / NUM_POINTS**0.5
    assert np.all(np.abs(np.mean(after, axis=0) - np.mean(points, axis=0)) < 5 * standard_error)
    # the sd of a sample variance is sqrt(2 / n) of it, that of a covariance at most as much of the product of sds
    limits = 5 * (2 / NUM_POINTS) ** 0.5 * np.outer(np.std(points, axis=0), np.std(points, axis=0))
    assert np.all(np.abs(np.cov(after.T) - np.cov(points.T)) < limits)


def test_liu_west_is_near_the_exact_answer_at_first():
    model = pf.models.linear_gaussian()
    ys = pf.simulate(jax.random.key(2), model, {"phi": 0.6}, 40)[1].at[12].set(jnp.nan)
    exact = pf.references.kalman_grid(model, ys)
    filter = pf.liu_west_filter(model, 2000)
    state, history = pf.run(filter, filter.init(jax.random.key(3)), ys)
    posterior = filter.posterior(state)
    assert abs(posterior.mean()["phi"] - exact.mean()["phi"]) < 0.2 * exact.sd()["phi"]
    assert 0.8 < posterior.sd()["phi"] / exact.sd()["phi"] < 1.2
    assert float(state.log_evidence) == pytest.approx(exact.log_evidence, abs=0.5)
    assert history.info.log_evidence_increment[12] == pytest.approx(0.0, abs=1e-5)


def test_rho_of_the_paper_and_discount_of_liu_and_west_give_the_same_bits(points):
    by_rho, by_discount, other = (
        moved(pf.liu_west_filter(STAR, 4, **options).engine.belief, points)
        for options in ({"rho": 0.9}, {"discount": 1 / (3 - 2 * 0.9)}, {"discount": 0.9})
    )
    assert np.array_equal(by_rho, by_discount) and not np.array_equal(by_rho, other)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: ShrinkingKernel(0.2), BeliefError, "between 1/3 and 1"),
        (
            lambda: pf.liu_west_filter(pf.models.sin(), 20, rho=1.0),
            BeliefError,
            "rho must lie between 0 and 1, got 1.0",
        ),
        (
            lambda: pf.liu_west_filter(pf.models.sin(), 20, rho=0.9, discount=0.9),
            ArgumentError,
            "got discount=0.9 and rho=0.9.*Pass one of them",
        ),
    ],
)
def test_what_cannot_work_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()

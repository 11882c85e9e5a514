"""Values are missing, times are irregular, some observations are wrong."""

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.filters.outliers import mean_and_spread
from paramfilter.filters.step_info import NUM_FORECASTS
from paramfilter.outcome import Outcome
from paramfilter.particles import Conjugate, PointMass
from paramfilter.proposals import LookAhead


def shares_of_three(observation):
    return pf.StateSpaceModel(
        prior={"a": dist.Normal(0.5, 0.1)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["a"] * x, 1.0),
        observation=lambda theta, x, inputs: observation(x),
    )


@pytest.fixture(scope="module")
def counts():
    model = shares_of_three(lambda x: dist.Multinomial(10, jax.nn.softmax(jnp.stack([x, 0.0 * x, -x]))))
    return pf.ParticleFilter(model, 20, PointMass())


@pytest.mark.slow
def test_what_can_only_be_missing_as_a_whole_is_refused_in_part(counts):
    state = counts.init(jax.random.key(0))
    ys = np.array([[3.0, 3, 4], [np.nan] * 3, [np.nan, 5, 5]])
    with pytest.raises(pf.errors.DataError, match=r"index 2 is missing in part, but a Multinomial.*Set all"):
        pf.run(counts, state, ys, progress=False)
    with pytest.raises(pf.errors.DataError, match="the observation is missing in part"):
        counts.step(state, ys[2])
    state, history = pf.run(counts, state, ys[:2], progress=False)
    assert int(state.outcome) == 0 and float(history.info.log_evidence_increment[1]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    "observation",
    [
        lambda x: dist.Normal(jnp.stack([x, -x, x]), 1.0).to_event(1),
        lambda x: dist.MultivariateNormal(jnp.stack([x, -x, x]), 0.5 * jnp.eye(3) + 0.5),
    ],
    ids=["factorises", "is a joint Gaussian"],
)
def test_what_can_be_marginalised_may_be_missing_in_part(observation):
    filter = pf.ParticleFilter(shares_of_three(observation), 20, PointMass())
    assert filter.engine.shapes.whole == (None,)
    state, _ = filter.step(filter.init(jax.random.key(0)), np.array([np.nan, 0.3, 0.1]))
    assert int(state.outcome) == 0


@pytest.mark.slow
def test_irregular_times_come_in_as_inputs():
    """A drift learned from a walk seen at irregular times, against the Kalman filter of (x, drift)."""
    model = pf.StateSpaceModel(
        prior={"drift": dist.Normal(0.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, dt: dist.Normal(x + theta["drift"] * dt, jnp.sqrt(dt)),
        observation=lambda theta, x, dt: dist.Normal(x, 0.5),
        example_inputs=jnp.array(1.0),
    )
    gaps = np.asarray(jax.random.exponential(jax.random.key(1), (60,))) + 0.01
    _, ys = pf.simulate(jax.random.key(2), model, {"drift": 0.4}, 60, inputs=jnp.asarray(gaps))
    filter = pf.ParticleFilter(model, 2000, Conjugate(), LookAhead())
    state, _ = pf.run(filter, filter.init(jax.random.key(3)), ys, jnp.asarray(gaps), progress=False)

    mean, covariance, seen = np.zeros(2), np.eye(2), np.array([1.0, 0.0])
    for y, gap in zip(np.asarray(ys, float), gaps, strict=True):
        move = np.array([[1.0, gap], [0.0, 1.0]])
        mean, covariance = move @ mean, move @ covariance @ move.T + np.diag([gap, 0.0])
        gain = covariance @ seen / (seen @ covariance @ seen + 0.25)
        mean, covariance = mean + gain * (y - seen @ mean), covariance - np.outer(gain, seen @ covariance)
    posterior, right_sd = filter.posterior(state), np.sqrt(covariance[1, 1])
    # Monte Carlo error is about 0.05 sd here.
    assert float(posterior.mean()["drift"]) == pytest.approx(mean[1], abs=0.3 * right_sd)
    assert float(posterior.sd()["drift"]) == pytest.approx(right_sd, rel=0.15)


@pytest.fixture(scope="module")
def filters():
    parts = (pf.models.linear_gaussian(phi=dist.Normal(0.5, 0.3)), 200, Conjugate(), LookAhead())
    return pf.ParticleFilter(*parts), pf.ParticleFilter(*parts, outliers=pf.OutlierGate())


def test_far_is_far_from_the_forecasts():
    forecasts = 1000.0 + jnp.linspace(-1, 1, NUM_FORECASTS)[:, None] * jnp.ones(2)
    kept, counts = pf.OutlierGate().screen(
        jnp.array([1001.0, 0.0]), *mean_and_spread(forecasts), jnp.zeros(2, jnp.int32)
    )
    assert float(kept[0]) == 1001.0 and np.isnan(kept[1]) and counts.tolist() == [0, 1]


class TestOutliers:
    def test_a_slip_is_as_good_as_missing(self, filters):
        plain, careful = filters
        _, ys = pf.simulate(jax.random.key(4), plain.model, {"phi": 0.7}, 40)
        with_slip, with_gap = ys.at[20].set(1000.0), ys.at[20].set(jnp.nan)
        skipped, history = pf.run(careful, careful.init(jax.random.key(5)), with_slip, progress=False)
        missing, _ = pf.run(plain, plain.init(jax.random.key(5)), with_gap, progress=False)
        assert np.array_equal(skipped.z, missing.z) and np.array_equal(skipped.log_weights, missing.log_weights)
        assert np.flatnonzero(history.info.outcome).tolist() == [20]
        assert Outcome(int(skipped.outcome)) == Outcome.OUTLIER_SKIPPED
        assert float(history.info.pit[20]) > 100 / 101, "above all forecasts"
        assert [finding.code.code for finding in pf.diagnose(skipped, history).findings] == ["W12"]

    def test_good_data_are_left_alone(self, filters):
        plain, careful = filters
        _, ys = pf.simulate(jax.random.key(6), plain.model, {"phi": 0.7}, 40)
        states = [pf.run(f, f.init(jax.random.key(7)), ys, progress=False)[0] for f in (plain, careful)]
        assert np.array_equal(states[0].z, states[1].z) and int(states[1].outcome) == 0

    def test_a_shifted_level_is_taken_in_after_a_while(self, filters):
        _, careful = filters
        ys = jnp.concatenate([jnp.zeros(10), jnp.full(6, 60.0)])
        _, history = pf.run(careful, careful.init(jax.random.key(8)), ys, progress=False)
        is_skipped = (np.asarray(history.info.outcome) & Outcome.OUTLIER_SKIPPED) != 0
        assert is_skipped[:14].tolist() == [*[False] * 10, True, True, True, False]

    def test_forecasts_that_are_all_alike_do_not_make_a_count_of_one_an_outlier(self):
        kept, counts = pf.OutlierGate().screen(
            jnp.array([1.0, 9.0]),
            *mean_and_spread(jnp.zeros((NUM_FORECASTS, 2), jnp.int32)),
            jnp.zeros(2, jnp.int32),
        )
        assert float(kept[0]) == 1.0 and np.isnan(kept[1]) and counts.tolist() == [0, 1]

    def test_what_is_missing_does_not_end_the_count(self):
        forecasts, policy = jnp.linspace(-1, 1, NUM_FORECASTS), pf.OutlierGate(max_consecutive=2)
        count = jnp.int32(0)
        for y, is_kept in [(50.0, False), (jnp.nan, False), (50.0, False), (50.0, True), (50.0, False)]:
            kept, count = policy.screen(jnp.array(y), *mean_and_spread(forecasts), count)
            assert bool(jnp.isfinite(kept)) == is_kept

    def test_a_policy_without_sense_is_refused(self):
        with pytest.raises(pf.errors.DataError, match=r"positive distance.*OutlierGate\(\)"):
            pf.OutlierGate(num_sd=0.0)

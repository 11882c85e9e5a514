"""Banks of filters, one for each value of theta, against exact answers.

Tolerances are in standard errors over independent seeds; at 6 of them a test that is right fails less than once in 1e8
runs, and seeds are fixed.
"""

from dataclasses import replace

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.beliefs import RenewingKernel
from paramfilter.errors import BeliefError, ModelError, ProposalError
from paramfilter.proposals import Bootstrap, CrowdMove, Guided, KalmanMove, LookAhead, crowd_of, with_kalman_filter

TURN = jnp.array([[1.0, 1.0], [0.0, 1.0]])
PUSH = jnp.array([[1 / 3, 1 / 2], [1 / 2, 1.0]])


def tracker():
    """Make position and speed, with unknown variances of acceleration and sensor."""
    return pf.StateSpaceModel(
        prior={"q": dist.InverseGamma(2.0, 1.0), "r": dist.InverseGamma(2.0, 1.0)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), jnp.array([5.0, 2.0])).to_event(1),
        transition=lambda theta, x, inputs: dist.MultivariateNormal(TURN @ x, theta["q"] * PUSH),
        observation=lambda theta, x, inputs: dist.Normal(x[0], jnp.sqrt(theta["r"])),
        name="tracker",
    )


@pytest.fixture(scope="module")
def tracked():
    """Return 200 observations of a tracker, ten of them missing, and the exact posterior."""
    _, ys = pf.simulate(jax.random.key(0), tracker(), {"q": 0.1, "r": 1.0}, 200)
    ys = ys.at[50:60].set(jnp.nan)
    return ys, pf.references.kalman_grid(tracker(), ys)


def answers(filter, ys, num_seeds):
    """Return the filter's final states, one for each seed."""
    turn = lambda state, y: (filter.step(state, y)[0], None)
    run = jax.jit(jax.vmap(lambda key: jax.lax.scan(turn, filter.init(key), ys)[0]))
    return run(jax.random.split(jax.random.key(1), num_seeds))


def posteriors(filter, states, num_seeds):
    each = [filter.posterior(jax.tree.map(lambda leaf, i=i: leaf[i], states)) for i in range(num_seeds)]
    return [(one.mean(), one.sd()) for one in each]


@pytest.mark.slow
def test_q_and_r_of_a_tracker_come_out_right(tracked):
    """q a tenth of r: where beliefs on paths are far off, the bank's mean and sd are those of quadrature."""
    ys, exact = tracked
    filter, num_seeds = pf.kalman_bank_filter(tracker(), 600), 12
    states = answers(filter, ys, num_seeds)
    found = posteriors(filter, states, num_seeds)
    for name in ("q", "r"):
        unit = exact.sd()[name]
        errors = np.array([float(mean[name]) - exact.mean()[name] for mean, _ in found]) / unit
        ratios = np.array([float(sd[name]) for _, sd in found]) / unit
        # Twelve runs of 600 values leave 0.05 sds of noise; the kernel's own bias was below that.
        assert abs(errors.mean()) < 6 * max(errors.std(ddof=1), 0.1) / num_seeds**0.5
        assert np.sqrt(np.mean(errors**2)) < 0.4
        assert abs(np.log(np.median(ratios))) < 0.2
    evidence = np.asarray(jax.vmap(lambda state: state.log_evidence)(states)) - exact.log_evidence
    assert abs(evidence.mean()) < 6 * max(evidence.std(ddof=1), 0.1) / num_seeds**0.5


def test_the_state_is_that_of_a_kalman_filter(tracked):
    """Theta known: all values are the same, and mean and covariance are the exact ones."""
    ys, _ = tracked
    system = pf.StateSpaceModel(
        prior={"r": dist.LogNormal(0.0, 1e-6)},
        initial=tracker().initial,
        transition=lambda theta, x, inputs: dist.MultivariateNormal(TURN @ x, 0.1 * PUSH),
        observation=lambda theta, x, inputs: dist.Normal(x[0], jnp.sqrt(theta["r"])),
    )
    filter = pf.kalman_bank_filter(system, 4)
    state, history = pf.run(filter, filter.init(jax.random.key(0)), ys)
    mean, covariance = np.zeros(2), np.diag([25.0, 4.0])
    for y in np.asarray(ys, float):
        mean, covariance = TURN @ mean, TURN @ covariance @ TURN.T + 0.1 * PUSH
        if not np.isnan(y):
            gain = covariance[:, 0] / (covariance[0, 0] + 1.0)
            mean, covariance = mean + gain * (y - mean[0]), covariance - np.outer(gain, covariance[0])
    np.testing.assert_allclose(state.x["mean"][0], mean, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(state.x["covariance"][0], covariance, rtol=2e-3, atol=2e-3)
    # the history is of position and speed, as the model has them
    np.testing.assert_allclose(history.x.mean[-1], mean, rtol=2e-3, atol=2e-3)
    np.testing.assert_allclose(history.x.sd[-1], np.sqrt(np.diag(covariance)), rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("preset", [pf.kalman_bank_filter, pf.particle_bank_filter])
def test_forecasts_are_paths_of_the_model(preset):
    """A level that moves by 0.1 a step, seen with a noise of 1: two observations ahead share the level of the first.

    Known theta, so their covariance is P + 0.1^2, with P the variance of the level now. 4000 futures leave 1.6 % of the
    product of sds as the standard error of a covariance; the limit is 6 of them.
    """
    model = pf.StateSpaceModel(
        prior={"r": dist.LogNormal(0.0, 1e-6)},
        initial=lambda theta, inputs: dist.Normal(0.0, 2.0),
        transition=lambda theta, x, inputs: dist.Normal(x, 0.1),
        observation=lambda theta, x, inputs: dist.Normal(x, theta["r"]),
    )
    options = {"num_states": 2000} if preset is pf.particle_bank_filter else {}
    filter = preset(model, 2, **options)
    state, history = pf.run(filter, filter.init(jax.random.key(0)), jnp.array([0.4]))
    before = 2.0**2 + 0.1**2
    variance = 1 / (1 / before + 1)
    assert float(history.x.sd[-1]) ** 2 == pytest.approx(variance, rel=0.1)
    forecast = pf.predict(jax.random.key(1), filter, state, num_steps=2, num_draws=4000)
    assert forecast.x.shape == forecast.y.shape == (4000, 2)
    covariance = np.cov(np.asarray(forecast.y).T)
    total = variance + 0.1**2 + 1
    # the crowd's own variance is off by 2 / 2000 of its square at each of 4000 states: 3.2 % of it, and 6 of those
    assert covariance[0, 1] == pytest.approx(variance + 0.1**2, abs=6 * 0.016 * total + 6 * 0.032 * variance)
    assert covariance[0, 1] > 0.4


@pytest.mark.slow
@pytest.mark.parametrize("preset", [pf.kalman_bank_filter, pf.particle_bank_filter])
def test_banks_are_calibrated(preset):
    """Series are drawn from the model, not from what particles hold: ranks are uniform for theta and for the state."""
    model = pf.models.linear_gaussian(phi=dist.Normal(0.5, 0.3))
    ranks = pf.calibrate(jax.random.key(0), preset(model, 200), (20,), 200, progress=False)
    chances = {name: float(chance[0]) for name, chance in ranks.chance().items()}
    assert list(chances) == ["phi", "x", "log p(y | x, theta)"]
    assert min(chances.values()) > 1e-6, chances


@pytest.mark.slow
def test_two_sensors_one_of_which_fails():
    """A vector observed with correlated noise, one component missing at times: the evidence is that of quadrature."""
    noise = jnp.array([[1.0, 0.6], [0.6, 1.5]])
    model = pf.StateSpaceModel(
        prior={"phi": dist.Normal(0.5, 0.3)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        observation=lambda theta, x, inputs: dist.MultivariateNormal(jnp.stack([x, 2 * x]), noise),
    )
    _, ys = pf.simulate(jax.random.key(3), model, {"phi": 0.8}, 40)
    ys = ys.at[5:9, 0].set(jnp.nan).at[20].set(jnp.nan)
    exact = pf.references.kalman_grid(model, ys)
    filter, num_seeds = pf.kalman_bank_filter(model, 300), 8
    states = answers(filter, ys, num_seeds)
    evidence = np.asarray(jax.vmap(lambda state: state.log_evidence)(states)) - exact.log_evidence
    assert abs(evidence.mean()) < 6 * max(evidence.std(ddof=1), 0.03) / num_seeds**0.5
    forecast = pf.predict(jax.random.key(2), filter, jax.tree.map(lambda leaf: leaf[0], states), num_steps=3)
    assert forecast.y.shape[1:] == (3, 2) and bool(jnp.all(jnp.isfinite(forecast.y)))


@pytest.mark.parametrize("member", [Guided(), Bootstrap()], ids=["looking", "blind"])
def test_a_bank_of_particle_filters_agrees_with_quadrature(member):
    model = pf.models.linear_gaussian(phi=dist.Normal(0.5, 0.3))
    _, ys = pf.simulate(jax.random.key(0), model, {"phi": 0.8}, 100)
    exact = pf.references.kalman_grid(model, ys)
    filter, num_seeds = replace(pf.particle_bank_filter(model, 200, num_states=50), proposal=CrowdMove(member)), 8
    found = posteriors(filter, answers(filter, ys, num_seeds), num_seeds)
    errors = np.array([float(mean["phi"]) - exact.mean()["phi"] for mean, _ in found]) / exact.sd()["phi"]
    ratios = np.array([float(sd["phi"]) for _, sd in found]) / exact.sd()["phi"]
    assert abs(errors.mean()) < 6 * max(errors.std(ddof=1), 0.1) / num_seeds**0.5
    assert abs(np.log(np.median(ratios))) < 0.25


def test_values_move_only_after_they_were_resampled(tracked):
    ys, _ = tracked
    filter = pf.kalman_bank_filter(tracker(), 50)
    state, num_resampled = filter.init(jax.random.key(0)), 0
    for y in ys[:40]:
        new, info = filter.step(state, y)
        stays = bool(jnp.all(new.z == state.z))
        assert stays != bool(info.resampled)
        num_resampled += int(info.resampled)
        state = new
    assert 0 < num_resampled < 40
    assert len(np.unique(np.asarray(state.z[:, 0]))) == 50  # copies have parted


@pytest.mark.slow
def test_each_island_renews_its_own_copies(tracked):
    """Islands are resampled at different steps, and those that were not keep their values."""
    ys, _ = tracked
    filter, num_islands = pf.kalman_bank_filter(tracker(), 150, num_islands=3), 3
    state, alone = filter.init(jax.random.key(0)), 0
    for y in ys[:40]:
        new, info = filter.step(state, y)
        stays = np.all(np.reshape(np.asarray(new.z == state.z), (num_islands, -1)), axis=1)
        assert bool(info.resampled) == (not stays.all())
        alone += 0 < stays.sum() < num_islands
        state = new
    assert alone >= 1
    assert len(np.unique(np.asarray(state.z[:, 0]))) == 150


def test_values_stay_in_a_gap(tracked):
    """Weights are still even in a gap that begins right after resampling; nothing is resampled, so nothing moves."""
    ys, _ = tracked
    filter = pf.kalman_bank_filter(tracker(), 50)
    state, was_resampled = filter.init(jax.random.key(0)), False
    for y in ys[:20]:
        before, (state, info) = state, filter.step(state, y)
        if info.resampled:
            # the same step again, with its observation missing: resampled all the same, and weights are even after it
            before, _ = filter.step(before, jnp.nan)
            after, later = filter.step(before, jnp.nan)
            assert not later.resampled and bool(jnp.all(after.z == before.z))
            was_resampled = True
    assert was_resampled


def test_few_values_follow_the_data_beyond_the_outermost():
    """A prior 5 sds away and 100 values: the copies alone end 5 posterior sds short, and sure of it (measured)."""
    model = pf.models.linear_gaussian(phi=dist.Normal(0.3, 0.1))
    ys = pf.simulate(jax.random.key(0), model, {"phi": 0.8}, 500)[1]
    exact = pf.references.kalman_grid(model, ys)
    filter, num_seeds = pf.kalman_bank_filter(model, 100), 8
    found = posteriors(filter, answers(filter, ys, num_seeds), num_seeds)
    errors = np.array([float(mean["phi"]) - exact.mean()["phi"] for mean, _ in found]) / exact.sd()["phi"]
    ratios = np.array([float(sd["phi"]) for _, sd in found]) / exact.sd()["phi"]
    assert np.median(np.abs(errors)) < 1.5
    assert np.median(ratios) > 0.7


@pytest.mark.parametrize(
    ("weights_are_exact", "spread", "is_fitted"), [(True, 0.2, True), (True, 0.8, False), (False, 0.2, False)]
)
def test_exact_weights_are_fitted_when_values_have_settled(weights_are_exact, spread, is_fitted):
    """Weighed by a density at 0.1 as wide as they are, values make a law half way between. The prior's sd is 1."""
    belief = RenewingKernel(weights_are_exact=weights_are_exact).bind(
        pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0))
    )
    z = spread * jax.random.normal(jax.random.key(0), (200, 1))
    center, sd = float(jnp.mean(z)), float(jnp.std(z))
    log_weights = -0.5 * ((z[:, 0] - 0.1) / sd) ** 2
    copies = z[jax.random.categorical(jax.random.key(1), log_weights, shape=(200,))]
    shared = belief.witness(None, belief.start_shared(z), None, z, log_weights, 1)
    shared, _ = belief.regroup(shared, jnp.zeros(200, bool), copies, jnp.zeros(200), jnp.ones(200, bool))
    of_copies = float(jnp.mean(shared.shape.evened(copies)))
    expected = (center + 0.1) / 2 if is_fitted else of_copies
    assert abs((center + 0.1) / 2 - of_copies) > 0.01 * spread  # the two can be told apart
    assert float(shared.posterior.mean[0]) == pytest.approx(expected, abs=1e-3 * spread)


@pytest.mark.slow
@pytest.mark.parametrize(("center", "is_told"), [(0.3, True), (0.8, False)])
def test_a_posterior_far_out_in_the_prior_is_told(center, is_told):
    model = pf.models.linear_gaussian(phi=dist.Normal(center, 0.1))
    ys = pf.simulate(jax.random.key(0), model, {"phi": 0.8}, 500)[1]
    filter = pf.kalman_bank_filter(model, 100)
    state, history = pf.run(filter, filter.init(jax.random.key(0)), ys)
    assert [finding.code.code for finding in pf.diagnose(state, history).findings] == ["W13"] * is_told


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        (lambda: pf.kalman_bank_filter(pf.models.sin(), 10), ModelError, "in transition its mean is not linear in x"),
        (lambda: pf.kalman_bank_filter(pf.models.stochastic_volatility(), 10), ModelError, "its scale depends on x"),
        (lambda: pf.kalman_bank_filter(pf.models.cauchy_ar1(), 10), ModelError, "Gaussian laws"),
        (lambda: KalmanMove().bind(tracker()), ProposalError, "with_kalman_filter"),
        (lambda: CrowdMove(LookAhead(Guided())).bind(crowd_of(tracker(), 3)), ProposalError, "without LookAhead"),
        (lambda: RenewingKernel(0.2), BeliefError, "0.85 is usual"),
        (
            lambda: pf.ParticleFilter(pf.models.sin(), 10, RenewingKernel(), LookAhead(Guided())),
            ModelError,
            "without LookAhead",
        ),
    ],
)
def test_what_cannot_work_is_refused(wrong, error, message):
    with pytest.raises(error, match=message):
        wrong()


def test_an_observation_in_two_parts_is_refused():
    model = pf.StateSpaceModel(
        prior={"phi": dist.Normal(0.5, 0.3)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        observation=lambda theta, x, inputs: {"a": dist.Normal(x, 1.0), "b": dist.Normal(x, 2.0)},
    )
    with pytest.raises(ModelError, match="Stack the sensors"):
        with_kalman_filter(model)

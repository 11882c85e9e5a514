"""A node filter that forgets has the posterior in which old observations count less."""

import jax
import numpy as np
import numpyro.distributions as dist
import pytest
from scipy.special import logsumexp

import paramfilter as pf
from paramfilter.errors import ModelError

MODEL = pf.StateSpaceModel(
    prior={"phi": dist.Normal(0.0, 0.7), "q": dist.LogNormal(0.0, 1.0)},
    initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
    transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x, theta["q"]),
    observation=lambda theta, x, inputs: dist.Normal(x, 0.5),
    name="drifting",
)
MEMORY = 12.0
FILTER = pf.node_filter(MODEL, 256, memory=MEMORY)  # keeps 240 observations; replays begin at multiples of 120


def changed_series(seed):
    """Return 400 observations whose parameters change at the middle; some are missing."""
    laws = {"phi": 0.9, "q": 1.0}, {"phi": -0.3, "q": 0.5}
    ys = np.concatenate([pf.simulate(jax.random.key(seed + i), MODEL, law, 200)[1] for i, law in enumerate(laws)])
    ys[300:320] = np.nan
    return ys


def discounted(ys, memory):
    """Return mean and sd of each parameter on a grid of theta, and the sum of the log densities of the forecasts."""
    phi, log_q = np.meshgrid(np.linspace(-2.0, 2.0, 201), np.linspace(-2.5, 2.0, 181), indexing="ij")
    q = np.exp(log_q)
    log_weights = log_prior = -0.5 * ((phi / 0.7) ** 2 + log_q**2)
    mean, variance, evidence = np.zeros_like(phi), np.ones_like(phi), 0.0
    for y in ys:
        mean, variance = phi * mean, phi**2 * variance + q**2
        log_weights = log_prior + (1 - 1 / memory) * (log_weights - log_prior)
        before = logsumexp(log_weights)
        if np.isfinite(y):
            spread, apart = variance + 0.25, y - mean
            log_weights = log_weights - 0.5 * (np.log(2 * np.pi * spread) + apart**2 / spread)
            mean, variance = mean + variance / spread * apart, variance * 0.25 / spread
        evidence += logsumexp(log_weights) - before
    weights = np.exp(log_weights - logsumexp(log_weights))
    mean = {name: np.sum(weights * values) for name, values in (("phi", phi), ("q", q))}
    sd = {
        "phi": np.sqrt(np.sum(weights * (phi - mean["phi"]) ** 2)),
        "q": np.sqrt(np.sum(weights * (q - mean["q"]) ** 2)),
    }
    return mean, sd, evidence


@pytest.fixture(scope="module")
def after():
    """The state and the history of one run."""
    return pf.run(FILTER, FILTER.init(jax.random.key(1)), changed_series(0))


@pytest.mark.parametrize("seed", [0, 10, 20])
def test_the_posterior_is_the_exact_discounted_one(seed):
    """The reported error is 0.02 sds; five times that is exceeded less than once in 10^5 times."""
    ys = changed_series(seed)
    for stop in (200, 315, 400):
        posterior = FILTER.posterior(pf.catch_up(FILTER, FILTER.init(jax.random.key(1)), ys[:stop]))
        mean, sd, _ = discounted(ys[:stop], MEMORY)
        for name in MODEL.prior:
            assert abs(float(posterior.mean()[name]) - mean[name]) < 0.1 * sd[name]
            assert float(posterior.sd()[name]) == pytest.approx(sd[name], rel=0.1)
            assert posterior.error()[name] < 0.05


def test_the_evidence_is_that_of_the_forecasts(after):
    """Nats: renewals move each of the two by less than 0.5."""
    state, history = after
    wanted = discounted(changed_series(0), MEMORY)[2]
    assert float(state.log_evidence) == pytest.approx(wanted, abs=1.0)
    assert np.sum(history.info.log_evidence_increment) == pytest.approx(wanted, abs=1.0)


@pytest.mark.slow
def test_log_prob_is_normalized(after):
    posterior = FILTER.posterior(after[0])
    phi, q = np.linspace(-2.0, 2.0, 41), np.linspace(0.1, 3.0, 30)
    heights = [[float(posterior.log_prob({"phi": np.float32(a), "q": np.float32(b)})) for b in q] for a in phi]
    assert np.sum(np.exp(heights)) * 0.1 * 0.1 == pytest.approx(1.0, abs=0.05)


def test_a_saved_state_continues_with_the_same_bits(after, tmp_path):
    ys = changed_series(0)
    state = pf.catch_up(FILTER, FILTER.init(jax.random.key(1)), ys[:250])
    pf.save(tmp_path / "state.safetensors", state)
    state, _ = pf.run(FILTER, pf.restore(tmp_path / "state.safetensors", FILTER), ys[250:])
    np.testing.assert_array_equal(state.nodes.z, after[0].nodes.z)
    np.testing.assert_array_equal(state.nodes.log_likelihood, after[0].nodes.log_likelihood)
    with pytest.raises(pf.errors.CheckpointError, match="memory"):
        pf.restore(tmp_path / "state.safetensors", pf.node_filter(MODEL, 256, memory=11.0, num_kept=240))


@pytest.mark.slow
def test_a_fleet_forgets_as_its_filter_does(after):
    fleet = pf.Fleet(FILTER)
    state = fleet.init(jax.random.key(7), ["a", "b"])
    alone = pf.catch_up(FILTER, fleet.one(state, "a"), changed_series(0))
    state = fleet.run(state, np.stack([changed_series(0), changed_series(10)]))
    for name in MODEL.prior:
        sd = float(FILTER.posterior(alone).sd()[name])
        assert abs(float(fleet.mean(state)[name][0]) - float(FILTER.engine.moments(alone).mean[name])) < 0.1 * sd


def test_a_memory_that_is_too_short_or_longer_than_what_is_kept_is_refused():
    with pytest.raises(ModelError, match=r"memory must be longer than one observation, got 1.0"):
        pf.node_filter(MODEL, 256, memory=1.0)
    with pytest.raises(ModelError, match=r"num_kept must be .* 2000"):
        pf.node_filter(MODEL, 256, memory=100.0, num_kept=300)

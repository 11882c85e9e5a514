"""Every promise of the contract, for every preset, on one small model with inputs and a gap in the data.

This table is the contract: a change of the library may add rows, and does not edit those that are here.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest

import paramfilter as pf
from paramfilter.presets import PRESETS
from paramfilter.tracing import RUN_ONCE

NUM_STEPS, NUM_PARTICLES = 6, 32
NAMES = ["phi", "bias"]
"""In the order of the prior, which is not that of the alphabet."""
TRUTH = {"phi": 0.7, "bias": 0.2}


@functools.cache
def model():
    return pf.StateSpaceModel(
        prior={"phi": dist.Normal(0.5, 0.3), "bias": dist.Normal(0.0, 0.5)},
        initial=lambda theta, inputs: dist.Normal(0.0, 1.0),
        transition=lambda theta, x, inputs: dist.Normal(theta["phi"] * x + theta["bias"] + inputs["push"], 0.5),
        observation=lambda theta, x, inputs: dist.Normal(x, 0.4),
        name="pushed",
        example_inputs={"push": 0.0},
    )


@functools.cache
def data():
    inputs = {"push": np.asarray(np.arange(NUM_STEPS) % 3 - 1, np.float32)}
    ys = np.array(pf.simulate(jax.random.key(0), model(), TRUTH, NUM_STEPS, inputs)[1])
    ys[4] = np.nan
    return ys, inputs


@pytest.fixture(scope="module", params=[name for name in PRESETS if name != "auto_filter"])
def filter(request):
    return PRESETS[request.param](model(), NUM_PARTICLES)


@pytest.fixture(scope="module")
def begun(filter):
    return filter.init(jax.random.key(1), {"push": jnp.float32(0.0)})


@pytest.fixture(scope="module")
def ran(filter, begun):
    ys, inputs = data()
    return pf.run(filter, begun, ys, inputs, progress=False)


def same(one, other):
    """Tell whether two trees hold the same bits."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    numbers = lambda leaf: np.asarray(
        jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf
    )
    return all(np.array_equal(numbers(a), numbers(b), equal_nan=numbers(a).dtype.kind == "f") for a, b in pairs)


def at(inputs, t):
    return jax.tree.map(lambda leaf: leaf[t], inputs)


def test_the_default_is_one_of_these_filters():
    auto, node = (PRESETS[name](model(), NUM_PARTICLES) for name in ("auto_filter", "node_filter"))
    assert auto.fingerprint == node.fingerprint and type(auto) is type(node)


def test_a_posterior_has_moments_quantiles_draws_and_a_density(filter, ran):
    posterior = filter.posterior(ran[0])
    mean, sd = float(posterior.mean()["phi"]), float(posterior.sd()["phi"])
    assert 0 < sd < 0.5 and abs(mean - 0.6) < 0.6
    low, high = np.asarray(posterior.quantile([0.05, 0.95])["phi"])
    assert low < mean < high
    draws = np.asarray(posterior.sample(jax.random.key(2), 200)["phi"])
    assert draws.shape == (200,) and abs(np.mean(draws) - mean) < 5 * sd / np.sqrt(200)
    here, far = (float(posterior.log_prob(posterior.mean() | {"phi": value})) for value in (mean, mean + 8 * sd))
    assert np.isfinite(here) and here > far


def test_answers_come_in_the_order_of_the_prior_and_in_the_shape_of_the_levels(filter, ran):
    posterior = filter.posterior(ran[0])
    answers = (posterior.mean(), posterior.sd(), posterior.quantile(0.5), posterior.sample(jax.random.key(2), 3))
    for answer in (*answers, posterior.error()):
        assert list(answer) == NAMES
    for levels, shape in ((0.5, ()), ([0.5], (1,)), ((0.1, 0.5, 0.9), (3,))):
        assert np.shape(posterior.quantile(levels)["bias"]) == shape
    assert float(posterior.quantile(0.5)["phi"]) == float(posterior.quantile([0.1, 0.5])["phi"][1])


def test_an_error_is_a_number_or_has_a_reason(filter, ran):
    error = filter.posterior(ran[0]).error()
    assert all(np.isnan(one) if error.not_measured else 0 < one < 0.5 for one in error.values())
    assert bool(error.not_measured) == isinstance(filter, pf.ParticleFilter)


def test_steps_and_chunks_give_the_bits_of_a_run(filter, begun, ran):
    ys, inputs = data()
    state = begun
    for t in range(2):
        state, _ = filter.step(state, ys[t], at(inputs, t))
    for start, stop in ((2, 3), (3, NUM_STEPS)):
        state, _ = pf.run(filter, state, ys[start:stop], at(inputs, slice(start, stop)), progress=False)
    assert same(state, ran[0])


def test_catching_up_ends_where_a_run_ends(filter, begun, ran):
    ys, inputs = data()
    state = pf.catch_up(filter, begun, ys[:5], at(inputs, slice(5)))
    state = pf.catch_up(filter, state, ys[5:], at(inputs, slice(5, None)))
    assert int(state.time) == NUM_STEPS
    np.testing.assert_allclose(state.log_evidence, ran[0].log_evidence, atol=1e-4)  # rounding only
    means = [float(filter.posterior(one).mean()["phi"]) for one in (state, ran[0])]
    assert means[0] == pytest.approx(means[1], abs=1e-4)


def test_a_saved_state_goes_on_with_the_same_bits(filter, ran, tmp_path):
    pf.save(tmp_path / "state.safetensors", ran[0])
    restored = pf.restore(tmp_path / "state.safetensors", filter)
    assert same(restored, ran[0])
    after = [filter.step(state, 0.3, {"push": 1.0})[0] for state in (restored, ran[0])]
    assert same(*after)


def test_a_missing_observation_teaches_nothing_but_time_goes_on(filter, begun):
    state, info = filter.step(begun, np.nan, {"push": 0.0})
    assert int(state.time) == 1 and float(info.log_evidence_increment) == pytest.approx(0.0, abs=1e-5)


def test_inputs_count(filter, ran):
    pushed, left = (filter.step(ran[0], 0.3, {"push": push})[1] for push in (3.0, 0.0))
    assert float(pushed.log_evidence_increment) < float(left.log_evidence_increment)


def test_forecasts_reach_ahead(filter, ran):
    forecast = pf.predict(jax.random.key(3), filter, ran[0], num_steps=3, inputs={"push": np.zeros(3)})
    sds = np.std(forecast.y, axis=0)
    assert sds.shape == (3,) and sds[2] > 0.8 * sds[0] > 0.3


def test_results_and_a_diagnosis_read_the_posterior_once_each(filter, ran, monkeypatch):
    readings = []
    read = type(filter).posterior
    monkeypatch.setattr(type(filter), "posterior", lambda self, state: readings.append(state) or read(self, state))
    state, history = ran
    tree = pf.to_datatree(state, history)
    assert "pushed" in str(tree.attrs) and len(readings) == 1
    assert [name for name in tree["posterior"].data_vars] == NAMES
    diagnosis = pf.diagnose(state, history)
    assert diagnosis.passed and f"{NUM_STEPS} steps" in str(diagnosis) and len(readings) == 2


def test_filters_can_be_vmapped(filter, begun):
    step = jax.jit(jax.vmap(filter.step, in_axes=(None, 0, None)), compiler_options=RUN_ONCE)
    both = step(begun, jnp.array([0.1, 0.6]), {"push": jnp.float32(0.0)})[0]
    alone = filter.step(begun, 0.6, {"push": jnp.float32(0.0)})[0]
    second = jax.tree.map(lambda leaf: leaf[1], both)
    np.testing.assert_allclose(second.log_evidence, alone.log_evidence, atol=2e-5)


def test_a_series_of_a_fleet_does_not_notice_the_others(filter, tmp_path):
    ys, inputs = data()
    fleet, together = pf.Fleet(filter), {"push": np.tile(inputs["push"], (2, 1))}
    first = {"push": np.zeros(2, np.float32)}
    both = fleet.init(jax.random.key(4), ["a", "b"], inputs=first)
    alone, _ = pf.run(filter, fleet.one(both, "a"), ys, inputs, progress=False)
    both = fleet.run(both, np.stack([ys, -ys]), inputs=together)
    np.testing.assert_allclose(fleet.one(both, "a").log_evidence, alone.log_evidence, atol=1e-3)
    mean, sd = (getattr(filter.posterior(alone), part)()["phi"] for part in ("mean", "sd"))
    assert abs(float(fleet.mean(both)["phi"][0]) - float(mean)) < 0.05 * float(sd)
    other = fleet.init(jax.random.key(4), ["c", "a"], inputs=first)
    other = fleet.run(other, np.stack([0 * ys, ys]), inputs=together)
    assert same(fleet.one(both, "a"), fleet.one(other, "a"))
    fleet.save(tmp_path / "fleet.safetensors", both)
    assert same(fleet.one(fleet.restore(tmp_path / "fleet.safetensors"), "b"), fleet.one(both, "b"))


def test_a_user_sees_few_names_and_the_rest_is_behind_one(filter):
    """What is behind `engine` may change; these names may not."""
    names = {name for name in dir(filter) if not name.startswith("_")}
    assert {"choice", "engine", "fingerprint", "init", "model", "posterior", "size", "step"} <= names
    assert len(names) <= 12

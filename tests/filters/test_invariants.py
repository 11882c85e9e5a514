"""A stream is a stream however it is cut: stepping, running, chunking and restoring give the same bits."""

import functools
import os
import subprocess
import sys
import textwrap

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pytest
from compilations import compilations

import paramfilter as pf

NUM_STEPS = 24

FILTERS = {
    "storvik": lambda: pf.storvik_filter(
        pf.models.linear_gaussian(q=dist.InverseGamma(4.0, 3.0)), 32, resampling=pf.resampling.Systematic()
    ),
    "taylor of mean": lambda: pf.extended_parameter_filter(
        pf.models.sin(), 32, belief=pf.particles.TaylorOfMean(order=3)
    ),
    "taylor of log density, two parameters": lambda: pf.ParticleFilter(
        pf.models.star(), 32, pf.particles.TaylorOfLogDensity(order=2)
    ),
    "liu west": lambda: pf.liu_west_filter(pf.models.linear_gaussian(q=dist.InverseGamma(4.0, 3.0)), 32),
    "sir": lambda: pf.sir_filter(pf.models.sin(), 32, resampling=pf.resampling.Multinomial()),
}


@functools.cache
def make(name, x64):
    """Build each filter once; call it with that precision on."""
    return FILTERS[name]()


CASES = [*((name, False) for name in FILTERS), ("storvik", True), ("liu west", True)]
QUICK = (("storvik", False), ("liu west", True))
"""Two filters, two precisions; `test_contract` has more filters, with fewer cuts."""


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(
            (name, x64),
            id=f"{name}, {'float64' if x64 else 'float32'}",
            marks=() if (name, x64) in QUICK else pytest.mark.slow,
        )
        for name, x64 in CASES
    ],
)
def case(request):
    """A filter, its data with a gap, and the states that a plain step loop goes through."""
    name, x64 = request.param
    with jax.enable_x64(x64):
        filter = make(name, x64)
        ys = pf.simulate(jax.random.key(0), filter.model, _some_theta(filter.model), NUM_STEPS)[1].at[7].set(jnp.nan)
        states, infos = [filter.init(jax.random.key(1))], []
        for y in ys:
            state, info = filter.step(states[-1], y)
            states.append(state)
            infos.append(info)
        yield filter, ys, states, infos


def _some_theta(model):
    return model.parameters.constrain(jnp.asarray(model.parameters.prior_draws[0], float))


def same_bits(first, second):
    leaves = zip(jax.tree.leaves(first), jax.tree.leaves(second), strict=True)
    return all(np.array_equal(_raw(a), _raw(b), equal_nan=True) for a, b in leaves)


def _raw(leaf):
    return jax.random.key_data(leaf) if jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key) else leaf


def test_run_equals_the_step_loop(case):
    filter, ys, states, infos = case
    state, history = pf.run(filter, states[0], ys)
    assert same_bits(state, states[-1])
    assert same_bits(history.info, jax.tree.map(lambda *leaves: jnp.stack(leaves), *infos))


def test_scan_equals_the_step_loop(case):
    filter, ys, states, _ = case
    state, _ = jax.jit(lambda state, ys: jax.lax.scan(filter.step, state, ys))(states[0], ys)
    assert same_bits(state, states[-1])


@pytest.mark.parametrize("seed", range(5))
def test_any_chunking_gives_the_same_bits(case, seed):
    filter, ys, states, _ = case
    cuts = np.unique(np.asarray(jax.random.randint(jax.random.key(seed), (4,), 1, NUM_STEPS)))
    state = states[0]
    for chunk in np.split(np.asarray(ys), cuts):
        state, _ = pf.run(filter, state, chunk)
    assert same_bits(state, states[-1])


def test_save_and_restore_in_the_middle_changes_nothing(case, tmp_path):
    filter, ys, states, _ = case
    pf.save(tmp_path / "run.safetensors", states[10])
    restored = pf.restore(tmp_path / "run.safetensors", filter)
    assert same_bits(restored, states[10])
    state, _ = pf.run(filter, restored, ys[10:])
    assert same_bits(state, states[-1])


def test_step_is_compiled_once(case):
    filter, ys, states, _ = case
    y = float(ys[3])  # a Python number is as good as an array
    with compilations() as count:
        filter.step(states[3], y)
    assert count[0] == 0


OTHER_PROCESS = """
    import sys, jax, numpy as np, paramfilter as pf
    jax.config.update("jax_enable_x64", {x64})
    filter = pf.extended_parameter_filter(pf.models.sin(), 32, belief=pf.particles.TaylorOfMean(order=3))
    state = pf.restore(sys.argv[1], filter)
    state, _ = pf.run(filter, state, np.array({ys}))
    pf.save(sys.argv[2], state)
"""


@pytest.mark.slow
@pytest.mark.parametrize("x64", [False, True], ids=["float32", "float64"])
def test_restoring_in_another_process_gives_the_same_bits(x64, tmp_path):
    with jax.enable_x64(x64):
        filter = make("taylor of mean", x64)
        ys = np.asarray(pf.simulate(jax.random.key(0), filter.model, {"theta": 0.3}, NUM_STEPS)[1], np.float64)
        middle, _ = pf.run(filter, filter.init(jax.random.key(1)), ys[:9])
        last, _ = pf.run(filter, middle, ys[9:])
        pf.save(tmp_path / "middle.safetensors", middle)
        script = textwrap.dedent(OTHER_PROCESS).format(x64=x64, ys=ys[9:].tolist())
        paths = [str(tmp_path / "middle.safetensors"), str(tmp_path / "last.safetensors")]
        subprocess.run([sys.executable, "-c", script, *paths], check=True, env=os.environ, cwd=tmp_path)
        assert same_bits(pf.restore(paths[1], filter), last)


@pytest.mark.slow
def test_missing_observation_leaves_weights_alone():
    filter = make("taylor of mean", False)
    state, _ = pf.run(filter, filter.init(jax.random.key(1)), np.array([0.3, -0.2]))
    after, info = filter.step(state, np.nan)
    assert float(info.log_evidence_increment) == pytest.approx(0.0, abs=1e-6)
    expected = state.log_weights if not bool(info.resampled) else jnp.full(32, -jnp.log(32.0))
    np.testing.assert_allclose(after.log_weights, expected, atol=1e-6)


def test_a_thousand_steps_use_one_compile_and_a_state_of_one_size():
    with jax.enable_x64(False):  # said as in `case`, so that what it compiled is found again
        filter = make("storvik", False)
        state = filter.init(jax.random.key(0))
        shapes = jax.tree.map(jnp.shape, state)
        ys = pf.simulate(jax.random.key(1), filter.model, {"phi": 0.5, "q": 1.0}, 1000)[1]
        state, _ = filter.step(state, float(ys[0]))
        ys = np.asarray(ys)
        with compilations() as count:
            for y in ys[1:]:
                state, _ = filter.step(state, y)
    assert count[0] == 0
    assert jax.tree.map(jnp.shape, state) == shapes

"""A table's states are a fleet's, to the last bit: any kind of filter, in any order, in any batches, done twice."""

import copy
import functools

import hypothesis
import hypothesis.strategies as st
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pyarrow as pa
import pytest
from tests.tables.logs import by_a_fleet, cut, in_batches, in_disorder, states_of

import paramfilter as pf
from paramfilter.tables import Rules, StateTable

MODEL = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5)


@functools.cache
def compiled():
    return StateTable(pf.storvik_filter(MODEL, 16), seed=3)


def table(reorder, fill_gaps):
    one = copy.copy(compiled())
    one.rules = Rules(reorder, fill_gaps, longest_gap=30)
    return one


def as_table(batch):
    return pa.table(dict(zip(("series", "seq", "epoch", "y"), zip(*batch, strict=True), strict=True)))


@hypothesis.settings(max_examples=15)
@hypothesis.given(in_disorder, st.sets(st.integers(1, 100)), st.sampled_from([(0, True), (2, True), (2, False)]))
def test_order_batches_and_repeats_change_no_bit(log, cuts, rules):
    one, batches = table(*rules), [as_table(batch) for batch in cut(log, cuts)]
    states, outputs, aside = in_batches(one, batches)
    whole = in_batches(one, [as_table(log)] if log else [])
    assert states.equals(whole[0]) and outputs.equals(whole[1])
    assert aside.drop("place").equals(whole[2].drop("place"))
    again = in_batches(one, [part for part in batches for _ in range(2)])
    assert again[0].equals(states) and again[1].equals(outputs)
    if len(outputs):
        found, scores = by_a_fleet(one, outputs)
        assert found == {name: state for name, state in states_of(states).items() if name in found}
        np.testing.assert_allclose(
            outputs["log_score"], scores.log_score[~np.isnan(scores.log_score)], rtol=1e-4, atol=1e-5
        )


def level_and_offset(observation, **options):
    return pf.StateSpaceModel(
        prior={"q": dist.LogNormal(0.0, 0.5), "b": dist.Normal(0.0, 1.0)},
        initial=lambda theta, u: dist.Normal(jnp.zeros(2), jnp.ones(2)).to_event(1),
        transition=lambda theta, x, u: dist.Normal(
            jnp.stack([x[0] + x[1], x[1]]), jnp.stack([theta["q"], 0.1])
        ).to_event(1),
        observation=observation,
        **options,
    )


with_inputs = lambda: level_and_offset(
    lambda theta, x, u: dist.Normal(jnp.stack([x[0], x[0] + theta["b"] * u]), 0.5).to_event(1),
    example_inputs=np.float32(0.3),
)
regimes = lambda: pf.StateSpaceModel(
    prior={"shift": dist.Normal(1.0, 1.0)},
    initial=lambda theta, u: dist.Categorical(probs=jnp.array([0.5, 0.5])),
    transition=lambda theta, x, u: dist.Categorical(probs=jnp.array([[0.9, 0.1], [0.2, 0.8]])[x]),
    observation=lambda theta, x, u: dist.Normal(theta["shift"] * x, 1.0),
)
counts = lambda: pf.StateSpaceModel(
    prior={"a": dist.Beta(2.0, 2.0)},
    initial=lambda theta, u: dist.Poisson(2.0),
    transition=lambda theta, x, u: dist.Poisson(theta["a"] * x + 1.0),
    observation=lambda theta, x, u: dist.Poisson(0.3 * x + 0.5),
)
KINDS = {
    "SIR": lambda: pf.sir_filter(with_inputs(), 32),
    "Kalman": lambda: pf.node_filter(with_inputs(), 16, num_kept=32),
    "FiniteState": lambda: pf.node_filter(regimes(), 16, num_kept=32),
    "AssumedDensity": lambda: pf.node_filter(pf.models.stochastic_volatility(), 16, num_kept=32),
    "Counts": lambda: pf.node_filter(counts(), 16, num_kept=32),
}


@pytest.mark.parametrize(
    "kind", ["SIR", *(pytest.param(name, marks=pytest.mark.slow) for name in KINDS if name != "SIR")]
)
def test_every_kind_of_filter_gives_the_bits_of_a_fleet(kind):
    filter, names, num_times = KINDS[kind](), list("abcdefg"), 40
    assert kind == "SIR" or kind in repr(filter)
    has_inputs, shape = filter.model.example_inputs is not None, filter.engine.shapes.y.shape
    one = StateTable(filter, rules=Rules(reorder=3, fill_gaps=not has_inputs), forecasts=True)
    ys = jax.random.normal(jax.random.key(1), (len(names), num_times, *shape))
    ys = np.array(jnp.round(2 * jnp.abs(ys)), float)
    ys[2, 3:6] = np.nan
    ys[3, 4].flat[:1] = np.nan
    told = {(name, seq): seq / 10 for name in names for seq in range(1, num_times + 1)} if has_inputs else None
    rows = [(name, seq) for seq in range(1, num_times + 1) for name in names if has_inputs or (name, seq) != ("b", 7)]
    rows[10], rows[24] = rows[24], rows[10]
    rows.insert(30, rows[3])
    values = [ys[names.index(name), seq - 1] for name, seq in rows]
    events = {"series": [name for name, _ in rows], "seq": [seq for _, seq in rows]}
    events["y"] = [None if np.all(np.isnan(y)) else y.tolist() for y in values]
    events = pa.table(events | ({"inputs": [told[row] for row in rows]} if has_inputs else {}))
    states, outputs, aside = in_batches(one, [events.slice(start, 60) for start in range(0, len(events), 60)])
    assert aside["fate"].to_pylist() == ["duplicate"] and len(outputs) == len(names) * num_times
    assert {"applied", "missing"} <= set(outputs["fate"].to_pylist())
    assert states["ledger"].null_count == len(names) - (not has_inputs)
    found, scores = by_a_fleet(one, outputs, told)
    assert found == states_of(states)
    np.testing.assert_allclose(outputs["log_score"], scores.log_score.ravel(), rtol=1e-3, atol=1e-4)
    label, pit = ("pit_1", scores.pit[..., 1]) if shape else ("pit", scores.pit)
    np.testing.assert_allclose(outputs[label], pit.ravel(), atol=1e-3)
    assert not any(outputs[name].null_count for name in outputs.column_names if name.endswith(("_mean", "_sd")))

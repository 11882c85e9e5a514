"""What a table of states is good for beside new events: forecasts, another model, new series."""

import functools

import jax
import numpy as np
import numpyro.distributions as dist
import pyarrow as pa
import pytest
from tests.tables.logs import in_batches, states_of

import paramfilter as pf
from paramfilter.errors import DataError, ModelError
from paramfilter.gaussian import Gaussian
from paramfilter.tables import Rules, StateTable, posterior_as_prior

MODEL = pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5)
NAMES = ["lima", "oslo", "rome"]


@functools.cache
def table():
    return StateTable(pf.storvik_filter(MODEL, 64), rules=Rules(reorder=1))


@functools.cache
def nodes():
    return StateTable(pf.node_filter(MODEL, 16, num_kept=32), groups=16)


@functools.cache
def learned():
    """Return states of which one has an event that waits, and the same states in a fleet."""
    ys = np.array(jax.random.normal(jax.random.key(2), (20, len(NAMES))), float)
    events = [pa.table({"series": NAMES, "seq": [turn + 1] * 3, "y": y}) for turn, y in enumerate(ys)]
    fleet = pf.Fleet(table().filter)
    state = fleet.run(fleet.init(jax.random.key(0), NAMES), ys.T)
    last = pa.table({"series": ["oslo"], "seq": [22], "y": [0.25]})
    return in_batches(table(), [*events, last])[0], fleet, state


def test_forecasts_are_those_of_a_fleet():
    states, fleet, state = learned()
    found = table().predict(states, 4, levels=(0.05, 0.975))
    assert found.column_names == ["series", "seq", "ahead", "mean", "sd", "q5", "q97_5"]
    assert found["seq"].to_pylist() == [21, 22, 23, 24] * 3 and found["ahead"].to_pylist() == [1, 2, 3, 4] * 3
    expected = fleet.predict(state, 4, levels=(0.05, 0.975))
    for name, values in zip(found.column_names[3:], (expected.mean, expected.sd, *expected.quantiles), strict=True):
        np.testing.assert_allclose(found[name].to_numpy().reshape(3, 4), values, rtol=1e-5)
    assert not len(table().predict(table().empty(), 4))


def test_a_new_series_starts_from_what_others_have_learned():
    population = pf.fleet.Population(MODEL, Gaussian(np.float32([0.3]), np.float32([[0.1]])), num_series=2)
    informed = StateTable(nodes().filter, population=population)
    new = pf.Fleet(nodes().filter).init(jax.random.key(0), ["bonn"], prior=population)
    assert informed.started(["bonn"])[0].tobytes() == np.asarray(informed._pack(new.series))[0].tobytes()
    assert informed.started(["bonn"])[0].tobytes() != nodes().started(["bonn"])[0].tobytes()


def test_another_filter_goes_on_from_what_was_learned():
    states, fleet, state = learned()
    migrated = table().migrate(states, nodes())
    for name in ("series", "seq", "epoch", "ledger"):
        assert migrated[name].equals(states[name])
    assert migrated["ledger"].null_count == 2 and max(migrated["group"].to_pylist()) < 16
    begun = nodes()._unpack(np.stack([np.frombuffer(row, np.uint32) for row in states_of(migrated).values()]))
    moments = jax.vmap(nodes().filter.engine.moments)(begun)
    np.testing.assert_allclose(moments.mean["phi"], fleet.mean(state)["phi"], atol=0.1)
    np.testing.assert_allclose(np.sqrt(moments.variance["phi"]), fleet.sd(state)["phi"], rtol=0.5)
    assert nodes().require_own(migrated) is migrated


def test_a_function_of_the_users_makes_the_new_state():
    seen, old = [], learned()[0]
    started = {name: nodes().started([name])[0].tobytes() for name in NAMES}
    migrated = table().migrate(old, nodes(), how=lambda series: seen.append((series.name, series.num_steps)))
    assert seen == [("lima", 20), ("oslo", 20), ("rome", 20)] and states_of(migrated) == started
    begun = states_of(table().migrate(old, nodes(), how=lambda series: series.start))
    for name in NAMES:  # compiled for one series, not for a block of them
        one, other = (nodes()._unpack(np.frombuffer(row[name], np.uint32)[None]) for row in (begun, started))
        np.testing.assert_allclose(one.nodes.z, other.nodes.z, rtol=1e-5)
    with pytest.raises(DataError, match="no state of the new filter"):
        table().migrate(old, nodes(), how=lambda series: series.old_state)
    with pytest.raises(ModelError, match="needs a node filter"):
        table().migrate(old, table(), how=posterior_as_prior)

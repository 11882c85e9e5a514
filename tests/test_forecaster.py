"""Forecasts of many series from a long table."""

import copy
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pytest

import paramfilter as pf
from paramfilter.errors import CheckpointError, DataError
from paramfilter.forecaster import Forecaster

LENGTHS = {"a": 20, "b": 17, "c": 20}
DAYS = pd.date_range("2026-01-01", periods=24, freq="D")


@cache
def model():
    """Return a noisy level."""
    return pf.StateSpaceModel(
        prior={"level": dist.Normal(0.0, 4.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 0.5),
        transition=lambda theta, x, inputs: dist.Normal(0.5 * x, 0.5),
        observation=lambda theta, x, inputs: dist.Normal(theta["level"] + x, 1.0),
    )


@cache
def compiled():
    return Forecaster(model(), num_nodes=32, num_kept=64)


def forecaster(seed=0, prior=None):
    """Return a forecaster without data, which shares its compiled code with the others."""
    one = copy.copy(compiled())
    one.seed, one.prior = seed, prior
    return one


@cache
def table():
    """Return a table of three series of different lengths, whose rows are in no order."""
    parts = []
    for number, (one, length) in enumerate(LENGTHS.items()):
        y = 1.0 + number + np.asarray(jax.random.normal(jax.random.key(number), (length,)), float)
        parts.append(pd.DataFrame({"unique_id": one, "ds": DAYS[:length], "y": y}))
    whole = pd.concat(parts, ignore_index=True)
    return whole.iloc[np.asarray(jax.random.permutation(jax.random.key(9), len(whole)))]


def assert_same_state(one, other):
    assert one.state.ids == other.state.ids
    num = len(one.state.ids)
    leaves = zip(jax.tree.leaves(one.state.series), jax.tree.leaves(other.state.series), strict=True)
    for left, right in leaves:
        if jnp.issubdtype(left.dtype, jax.dtypes.prng_key):
            left, right = jax.random.key_data(left), jax.random.key_data(right)
        np.testing.assert_array_equal(left[:num], right[:num])


def test_a_fit_is_a_run_of_a_fleet():
    fitted = forecaster(seed=3).fit(table())
    ys = np.full((3, 20), np.nan)
    for row, (one, length) in enumerate(LENGTHS.items()):
        ys[row, :length] = table()[table().unique_id == one].sort_values("ds").y
    state = fitted.fleet.init(jax.random.key(3), ["a", "b", "c"])
    state = fitted.fleet.run(state, ys, lengths=list(LENGTHS.values()))
    np.testing.assert_array_equal(fitted.fleet.mean(fitted.state)["level"], fitted.fleet.mean(state)["level"])


def test_a_fit_and_an_update_are_one_fit():
    early = table().ds < DAYS[15]
    parts = forecaster().fit(table()[early])
    new = parts.update(table()[~early])
    whole = forecaster().fit(table())
    assert_same_state(parts, whole)
    pd.testing.assert_frame_equal(parts.predict(2), whole.predict(2))
    assert list(new) == ["unique_id", "ds", "y", "tail_probability"]
    np.testing.assert_array_equal(new.y, table()[~early].y)


def test_an_outlier_has_a_small_tail_probability_at_its_own_row():
    """The forecasts have an sd of about 1.2, so 20 is more than ten sds away."""
    fitted = forecaster().fit(table())
    rows = {"unique_id": ["c", "a", "a"], "ds": ["2026-01-21", "2026-01-22", "2026-01-21"], "y": [3.0, 20.0, None]}
    found = fitted.update(rows).tail_probability.to_numpy()
    assert found[1] < 1e-5 < found[0]
    assert np.isnan(found[2])


def test_forecasts_have_the_columns_of_statsforecast_and_continue_the_dates():
    found = forecaster().fit(table()).predict(3, level=[50, 97.5])
    ends = ["lo-97.5", "lo-50", "hi-50", "hi-97.5"]
    assert list(found) == ["unique_id", "ds", "paramfilter", *(f"paramfilter-{end}" for end in ends)]
    assert found.unique_id.tolist() == ["a"] * 3 + ["b"] * 3 + ["c"] * 3
    assert found.ds.tolist() == [*DAYS[20:23], *DAYS[17:20], *DAYS[20:23]]
    assert np.all(np.diff(found[[f"paramfilter-{end}" for end in ends]].to_numpy(), axis=1) > 0)


@pytest.mark.parametrize(
    ("times", "following"),
    [
        (["2026-01-31", "2026-02-28", "2026-03-31"], ["2026-04-30", "2026-05-31"]),
        (["2026-10-01", "2026-11-01", "2026-12-01"], ["2027-01-01", "2027-02-01"]),
        (["2024-01-01", "2025-01-01", "2026-01-01"], ["2027-01-01", "2028-01-01"]),
        (["2026-01-30", "2026-01-31", "2026-02-01"], ["2026-02-02", "2026-02-03"]),
        (["2026-01-01T22:00", "2026-01-01T23:00", "2026-01-02T00:00"], ["2026-01-02T01:00", "2026-01-02T02:00"]),
        (["2026-11-18", "2026-11-19", "2026-11-20", "2026-11-23", "2026-11-26"], ["2026-11-27", "2026-11-30"]),
        (["2026-01-30", "2026-02-27", "2026-03-31", "2026-04-30", "2026-05-29"], ["2026-06-30", "2026-07-31"]),
        (["2026-01-15", "2026-02-15", "2026-03-15"], ["2026-04-15", "2026-05-15"]),
        ([3, 5, 7], [9, 11]),
        ([0.5, 1.0, 1.5], [2.0, 2.5]),
    ],
)
def test_times_continue_at_the_step_of_the_series(times, following):
    found = (
        forecaster().fit({"unique_id": [1] * len(times), "ds": times, "y": np.arange(len(times)) / 2}).predict(2)["ds"]
    )
    wanted = np.array(following, "datetime64") if isinstance(times[0], str) else np.array(following)
    np.testing.assert_array_equal(found, wanted)
    assert found.dtype.kind == wanted.dtype.kind


def test_tables_of_polars_come_back_as_such_with_names_of_their_own():
    days = pl.date_range(pl.date(2026, 1, 1), pl.date(2026, 1, 3), eager=True)
    rows = pl.DataFrame({"sensor": ["x"] * 3, "day": days, "level": [0.1, 0.2, 0.3]})
    found = forecaster().fit(rows, id_col="sensor", time_col="day", target_col="level").predict(1, level=[])
    assert found.columns == ["sensor", "day", "paramfilter"]
    assert found.schema["day"] == pl.Date


def test_a_new_series_starts_from_the_population():
    parts = [table().assign(unique_id=table().unique_id + str(number)) for number in range(3)]
    rows = {"unique_id": ["new"], "ds": [DAYS[3]], "y": [np.nan]}
    sds = {}
    for prior in ("population", None):
        fitted = forecaster(prior=prior).fit(pd.concat(parts))
        population = fitted.fleet.population(fitted.state)
        fitted.update(pd.DataFrame(rows))
        sds[prior] = fitted.fleet.sd(fitted.state)["level"][-1]
    assert sds["population"] == pytest.approx(population.normal.scale[0, 0], rel=0.07)
    assert sds[None] == pytest.approx(4.0, rel=0.07)
    assert fitted.predict(1).ds.iloc[-1] == DAYS[4]


@pytest.mark.slow
def test_covariates_enter_the_fit_and_the_forecast():
    heated = pf.StateSpaceModel(
        prior={"slope": dist.Normal(0.0, 4.0)},
        initial=lambda theta, inputs: dist.Normal(0.0, 0.1),
        transition=lambda theta, x, inputs: dist.Normal(0.5 * x, 0.1),
        observation=lambda theta, x, inputs: dist.Normal(theta["slope"] * inputs["heat"] + x, 0.1),
        example_inputs={"heat": 1.0},
    )
    heat = np.tile([0.0, 1.0, 2.0], 5)
    rows = {"unique_id": ["a"] * 15, "ds": np.arange(15), "y": 3.0 * heat, "heat": heat}
    fitted = Forecaster(heated, num_nodes=32, num_kept=64).fit(rows)
    fitted.update({"unique_id": ["a"], "ds": [15], "y": [3.0], "heat": [1.0]})
    future = {"unique_id": ["a", "a"], "ds": [17, 16], "heat": [0.0, 5.0]}
    found = fitted.predict(2, X_df=future)
    assert found["ds"].tolist() == [16, 17]
    # Posterior sd of the slope below 0.1, and noise of sd 0.2 in a mean of 1,024 draws.
    np.testing.assert_allclose(found["paramfilter"], [15.0, 0.0], atol=0.6)
    with pytest.raises(DataError, match="needs those of the future"):
        fitted.predict(2)
    with pytest.raises(DataError, match="must have 3 rows for each of the 1 series"):
        fitted.predict(3, X_df=future)
    with pytest.raises(DataError, match='no column "heat"'):
        fitted.update({"unique_id": ["a"], "ds": [16], "y": [3.0]})


def test_a_saved_forecaster_goes_on_bit_for_bit(tmp_path):
    early = table().ds < DAYS[15]
    first = forecaster(prior="population").fit(table()[early])
    first.update(pd.DataFrame({"unique_id": ["new"], "ds": [DAYS[3]], "y": [1.0]}))
    first.save(tmp_path / "forecaster.safetensors")
    second = forecaster(prior="population").load(tmp_path / "forecaster.safetensors")
    pd.testing.assert_frame_equal(first.update(table()[~early]), second.update(table()[~early]))
    assert_same_state(first, second)
    pd.testing.assert_frame_equal(first.predict(2), second.predict(2))


def test_the_file_of_a_fleet_is_no_forecaster(tmp_path):
    fitted = forecaster().fit(table())
    fitted.fleet.save(tmp_path / "fleet.safetensors", fitted.state)
    with pytest.raises(CheckpointError, match=r"Read it with fleet\.restore"):
        forecaster().load(tmp_path / "fleet.safetensors")


ROW = {"unique_id": ["a"], "ds": ["2026-02-01"], "y": [1.0]}


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: forecaster().predict(1), r"Call fit\(df\)"),
        (lambda: Forecaster(model(), prior="others"), 'must be "population"'),
        (lambda: forecaster().fit(ROW, id_col="sensor"), 'no column "sensor"'),
        (lambda: forecaster().fit({name: [] for name in ROW}), "has no rows"),
        (lambda: forecaster().fit(ROW | {"unique_id": [None]}), "without an id"),
        (
            lambda: forecaster().fit(ROW | {"ds": ["soon"]}),
            "must hold dates, text such as 2026-01-31, or numbers; row 0 is 'soon'",
        ),
        (lambda: forecaster().fit(ROW | {"ds": [np.nan]}), "has no time in row 0"),
        (lambda: forecaster().fit({name: values * 2 for name, values in ROW.items()}), "two rows of time 2026-02-01"),
        (lambda: forecaster().fit(ROW).update(ROW), "not later than its last row"),
        (lambda: forecaster().fit(ROW).update(ROW | {"ds": [1]}), "Convert it to the same type"),
        (lambda: forecaster().fit(ROW).predict(1), "step between dates is not known"),
        (lambda: forecaster().fit(ROW | {"ds": [1]}).predict(1, level=[0.9, 120]), "between 0 and 100"),
    ],
)
def test_mistakes_are_named(call, words):
    with pytest.raises(DataError, match=words):
        call()

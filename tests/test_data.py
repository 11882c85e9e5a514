"""The door for data: whatever comes, it is numbers as they were meant, or an error that names the row and the cure."""

import datetime
import decimal
import numbers
import re
import sys
import warnings

import h5netcdf
import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paramfilter as pf
from paramfilter.data import as_floats, long_table
from paramfilter.errors import DataError, ModelError

CONTAINERS = {
    "list": list,
    "tuple": tuple,
    "array of objects": lambda values: np.array(values, object),
    "pandas": lambda values: pd.Series(values, dtype=object),
    "masked array": lambda values: np.ma.masked_array(values, np.zeros(len(values), bool)),
    "array": np.array,
    "polars": lambda values: pl.Series(values) if {*map(type, values)} <= PLAIN else None,
    "arrow": lambda values: pa.array(values) if {*map(type, values)} <= PLAIN else None,
}
PLAIN = {float, type(None)}
"""What polars and pyarrow can be given: other kinds end the process in their own code."""
NUMBERS = [
    *(0, -1, 2**53, True, 0.5, -0.0, 1e-308, 5e-324, 1.7e308, np.float32(1.5), np.int8(-128), np.uint64(2**64 - 1)),
    *(np.float16(2.0), decimal.Decimal("1e-5"), decimal.Decimal("-7"), float("inf"), float("-inf")),
]
MISSING = [None, float("nan"), pd.NA, pd.NaT, np.ma.masked, decimal.Decimal("NaN")]
REFUSED = [
    *("1.5", "", "abc", b"1", 10**400, -(10**400), 1j, datetime.date(2026, 1, 1), np.datetime64("2026-01-01")),
    *(datetime.timedelta(1), np.timedelta64(1, "D"), object(), {"y": 1.0}, dist.Normal(0.0, 1.0)),
]


def contained(container, values):
    """Put values into a container, or None if it does not take them."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return CONTAINERS[container](values)
    except Exception:  # of the container's own library: these values do not reach us in it
        return None


@settings(max_examples=300, deadline=None, derandomize=True, database=None)
@given(
    container=st.sampled_from(sorted(CONTAINERS)),
    values=st.lists(st.sampled_from([*NUMBERS, *MISSING, *REFUSED]), min_size=1, max_size=3),
)
def test_values_become_the_floats_they_are_or_are_refused(container, values):
    column = contained(container, values)
    if column is None:
        return
    held = column.to_pylist() if container == "arrow" else list(column)  # a library may have made other kinds of them
    is_plain = [isinstance(one, int | float) and abs(one) <= sys.float_info.max for one in held]
    try:
        found = as_floats(column, "y", np.float64)
    except DataError as error:
        assert "y must be" in str(error) and len(str(error)) < 500 and not all(is_plain)
        return
    assert found.shape == (len(values),) and found.dtype == np.float64
    for one, number in zip(held, found, strict=True):
        is_missing = type(one) is not np.datetime64 and any(one is other for other in MISSING)
        assert is_missing or isinstance(one, numbers.Real | decimal.Decimal | np.bool_)
        assert not isinstance(one, np.timedelta64)  # which NumPy counts among the integers
        np.testing.assert_equal(number, np.nan if is_missing else float(one))


@pytest.mark.parametrize("container", ["list", "array of objects", "pandas"])
@pytest.mark.parametrize("bad", REFUSED, ids=lambda one: type(one).__name__)
def test_what_is_no_number_is_named_with_its_row(container, bad):
    with pytest.raises(DataError, match=r"row 1 is|cannot become one|of dtype"):
        as_floats(contained(container, [0.5, bad]), "y")


def test_decimals_of_a_database_are_numbers():
    column = pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("-3.25")])
    np.testing.assert_array_equal(pf.observations_from_table(pa.table({"y": column})).ys, [1.5, np.nan, -3.25])


def test_a_column_keeps_what_is_masked_missing():
    table = {"y": np.ma.masked_array([1.0, 99999.0, 3.0], [0, 1, 0])}
    np.testing.assert_array_equal(pf.observations_from_table(table).ys, [1.0, np.nan, 3.0])


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ({"y": [1.0, 2.0], "t": [1, 2, 3]}, "columns of different lengths, [2, 3]"),
        ({"y": [], "t": []}, "no rows"),
        ({"y": 3.0, "t": [1]}, "a value for each row"),
        ({"y": [[1.0], [2.0, 3.0]], "t": [1, 2]}, 'column "y" must be numbers in one array'),
        ({"level": [1.0], "t": [1]}, 'no column "y". Its columns are'),
        ({"y": [1.0, 2.0, 3.0], "t": [1, 3, 2]}, "row 2 (2) is earlier than the row before (3). Sort"),
        ({"y": [1.0, 2.0], "t": np.array(["2026-01-01", "NaT"], "datetime64[D]")}, "row 1 has no time"),
    ],
)
def test_a_table_that_is_not_whole_is_refused(table, message):
    with pytest.raises(DataError, match=re.escape(message)):
        pf.observations_from_table(table, y="y", time="t")


def test_two_columns_of_one_name_are_refused():
    with pytest.raises(DataError, match="two columns of one name"):
        pf.observations_from_table(pd.DataFrame([[1.0, 2.0]], columns=["y", "y"]), y="y")


@pytest.mark.parametrize("far", ["9999-12-31", "1600-02-29", "0001-01-01"])
def test_dates_far_away_stay_where_they_are(far):
    days = sorted(["2026-01-01", "2026-01-02", far])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = pf.observations_from_table({"y": [1.0, 2.0, 3.0], "t": days}, y="y", time="t")
    assert found.times.astype(str).tolist() == days
    columns = {"y": [1.0, 2.0, 3.0], "id": ["a"] * 3, "t": days}
    assert long_table(columns, "y", None, "id", "t").panel(np.arange(3.0)).tolist() == [[0.0, 1.0, 2.0]]


BUSINESS = pd.bdate_range("2026-01-01", periods=60)
OSLO = pd.date_range("2026-01-01", periods=6, tz="Europe/Oslo")
MONTHS = pd.period_range("2026-01", periods=6, freq="M")


@pytest.mark.parametrize(
    ("index", "message"),
    [
        (BUSINESS, None),
        (BUSINESS.delete([20, 40]), None),
        (BUSINESS.delete(range(10, 30)), r"20 rows .*asfreq\('B'\)"),
        (OSLO, None),
        (OSLO.delete(2), "1 rows seem to be missing"),
        (MONTHS, None),
        (MONTHS.delete(2), "1 rows seem to be missing"),
        (pd.date_range("2026-01-31", periods=6, freq="ME").delete(2), r"asfreq\('ME'\)"),
    ],
    ids=[
        "business days",
        "holidays",
        "weeks",
        "zone",
        "zone with a gap",
        "periods",
        "periods with a gap",
        "month ends",
    ],
)
def test_a_calendar_is_recognized_and_its_gaps_are_counted(index, message):
    table = pd.DataFrame({"y": np.arange(len(index))}, index=index)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        pf.observations_from_table(table)
    said = [str(one.message) for one in caught]
    assert said == [] if message is None else len(said) == 1 and re.search(message, said[0])


@pytest.mark.parametrize("index", [OSLO[[0, 2, 1]], MONTHS[[0, 2, 1]], BUSINESS[[0, 2, 1]]])
def test_times_that_go_back_are_refused_whatever_their_kind(index):
    with pytest.raises(DataError, match=r"row 2 .* is earlier than the row before"):
        pf.observations_from_table(pd.DataFrame({"y": [1.0, 2.0, 3.0]}, index=index))


def test_a_frequency_can_be_given_and_is_held_to():
    table = pd.DataFrame({"y": np.arange(5.0)}, index=pd.bdate_range("2026-11-16", periods=5))
    assert pf.observations_from_table(table, freq="B").freq == "B"
    with pytest.raises(DataError, match=r"row 0 \(2026-11-16\) is not a date of freq='ME'"):
        pf.observations_from_table(table, freq="ME")
    with pytest.raises(DataError, match="'often' is not a frequency of pandas"):
        pf.observations_from_table(table, freq="often")


def observed(observation, **options):
    model = pf.models.linear_gaussian()
    return pf.StateSpaceModel(model.prior, model.initial, model.transition, observation, **options)


@pytest.fixture(scope="module")
def counts():
    filter = pf.node_filter(observed(lambda theta, x, inputs: dist.Poisson(jnp.exp(x))), 32)
    return filter, filter.init(jax.random.key(0))


@pytest.mark.parametrize(("ys", "where"), [([1, 2.5], "index 1 is 2.5"), ([-3, np.nan], "index 0 is -3")])
def test_a_value_that_the_distribution_cannot_give_is_refused(counts, ys, where):
    filter, state = counts
    with pytest.raises(DataError, match=f"{where}, and the model's Poisson gives only whole numbers from 0"):
        pf.run(filter, state, ys, progress=False)
    with pytest.raises(DataError, match=r"the observation is 2\.5"):
        filter.step(state, 2.5)
    with pytest.raises(DataError, match="index 1 is -1"):
        fleet = pf.Fleet(filter)
        fleet.update(fleet.init(jax.random.key(0), ["a", "b"]), ["a", "b"], [3.0, -1.0])


@pytest.mark.parametrize(
    ("distribution", "good", "bad"),
    [
        (lambda x: dist.LogNormal(x, 1.0), [1e-30, 7.0], [0.0, -1.0]),
        (lambda x: dist.Beta(1.0, jnp.exp(x)), [0.0, 1.0], [-0.1, 1.1]),
        (lambda x: dist.Bernoulli(logits=x), [0.0, 1.0], [2.0, 0.5, -1.0]),
        (lambda x: dist.Binomial(10, logits=x), [0.0, 10.0], [11.0]),
        (lambda x: dist.Normal(x, 1.0).to_event(0), [-1e30, 1e30], []),
        (lambda x: dist.VonMises(x, 1.0), [-9.0, 9.0], []),
        (lambda x: dist.TruncatedNormal(x, 1.0, low=0.0), [0.0, 3.0], [-1.0]),
        (lambda x: dist.Uniform(x, x + 1.0), [-9.0, 9.0], []),
    ],
)
def test_the_support_of_a_distribution_is_known_where_no_parameter_moves_it(distribution, good, bad):
    filter = pf.sir_filter(observed(lambda theta, x, inputs: distribution(x)), 8)
    assert filter.engine.as_observation([*good, np.nan], ("time",)).shape == (3,)
    for value in bad:
        with pytest.raises(DataError, match="gives only"):
            filter.engine.as_observation(value)


def test_names_that_the_model_does_not_have_are_refused():
    plain = pf.sir_filter(pf.models.linear_gaussian(), 8)
    with pytest.raises(DataError, match="linear_gaussian uses no inputs"):
        pf.run(plain, plain.init(jax.random.key(0)), [0.1], {"push": np.zeros(1)}, progress=False)
    pushed = lambda theta, x, inputs: dist.Normal(x + inputs["push"], 1.0)
    filter = pf.sir_filter(observed(pushed, example_inputs={"push": 0.0}), 8)
    state = filter.init(jax.random.key(0))
    with pytest.raises(DataError, match=r"no input 'pusch'; did you mean push\?"):
        filter.step(state, 0.1, {"push": 0.0, "pusch": 1.0})
    with pytest.raises(DataError, match="inputs lack 'push'"):
        filter.step(state, 0.1, {})


@pytest.mark.parametrize("draw", [np.random.default_rng(0).normal, np.random.normal])  # noqa: TID251
def test_a_model_that_draws_its_own_random_numbers_is_refused(draw):
    with pytest.raises(ModelError, match=r"seems to draw from numpy\.random"):
        pf.sir_filter(observed(lambda theta, x, inputs: dist.Normal(x + draw(), 1.0)), 8)


def test_sizes_that_nothing_can_hold_are_refused_before_memory_is_asked_for(tmp_path):
    with pytest.raises(ModelError, match="at most 2147483647"):
        pf.node_filter(pf.models.linear_gaussian(), 10**12)
    with pytest.raises(ModelError, match="leading axis of steps"):
        observed(lambda theta, x, inputs: dist.Normal(x, 1.0), typical_inputs=3.0)
    path = tmp_path / "huge.nc"
    with h5netcdf.File(path, "w") as file:
        file.dimensions = {"time": 4 * 10**9}
        file.create_variable("x", ("time",), "f8", chunks=(10**6,))
    assert path.stat().st_size < 10**5
    with pytest.raises(DataError, match=r"says that it holds 32\.0 GB"):
        pf.results.load_result(path)

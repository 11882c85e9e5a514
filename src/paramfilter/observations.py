"""Read observations, inputs and times from a table.

A table is anything narwhals reads (pandas, polars, pyarrow, ...) or a dict of columns. A column becomes an array of
floats; null and NaN are missing values. Times are labels of the results and do not enter the model; text in ISO format
becomes dates.

>>> table = {"day": ["mon", "tue", "wed"], "level": [0.1, None, 0.3], "rain": [0.0, 2.0, 1.0]}
>>> data = observations_from_table(table, y="level", inputs={"rain": "rain"}, time="day")
>>> data.ys, data.inputs, data.times
(array([0.1, nan, 0.3]), {'rain': array([0., 2., 1.])}, array(['mon', 'tue', 'wed'], dtype='<U3'))
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int, Shaped

from paramfilter.errors import DataError
from paramfilter.extras import extra
from paramfilter.labels import in_brief
from paramfilter.types import Inputs, Observation

Columns = Any
"""A column's name; several names for a vector; or a dict (or other tree) of these."""


DATE = re.compile(r"\s*\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}(:\d{2}(\.\d+)?)?)?\s*$")
"""A date, or a date and a time of day; without a time zone, which numpy does not keep."""


FEWEST_TIMES = 3
UNEVEN = 0.25
"""Share of the usual gap by which another may differ: months and years have different lengths."""
DAY, MONTH = np.timedelta64(1, "D"), np.timedelta64(1, "M")


@dataclass(frozen=True, eq=False)
class Observations:
    """Observations with their inputs and times, as `run` and `to_datatree` accept them.

    Attributes:
        ys: Observations with a leading time axis; NaN where missing.
        inputs: Inputs with the same leading axis, or None.
        times: Time of each observation, used as a label; None to count steps.
        columns: The columns that `ys` came from, for labels: a name, a list of names, or a dict of these; None if they
            did not come from a table.
    """

    ys: Observation
    inputs: Inputs = None
    times: np.ndarray | None = None
    columns: Columns = None

    def __len__(self) -> int:
        return len(jax.tree.leaves(self.ys)[0])

    @property
    def num_missing(self) -> int:
        """How many rows have no observation at all."""
        leaves = [np.asarray(leaf, float).reshape(len(self), -1) for leaf in jax.tree.leaves(self.ys)]
        return int(np.sum(np.all([np.isnan(leaf).all(axis=1) for leaf in leaves], axis=0)))

    def __repr__(self) -> str:
        parts = [f"{len(self)} rows of {self._names()}", f"{self.num_missing} missing"]
        if self.inputs is not None:
            parts.append("with inputs")
        if self.times is not None and len(self):
            first, last = (_short(one) for one in self.times[[0, -1]])
            parts.append(f"{first} to {last}")
        return f"Observations({', '.join(parts)})"

    def _names(self) -> str:
        if self.columns is not None:
            return ", ".join(jax.tree.leaves(self.columns))
        paths, _ = jax.tree_util.tree_flatten_with_path(self.ys)
        name_of = lambda path: jax.tree_util.keystr(path, simple=True, separator=".") or "y"
        return in_brief({name_of(path): np.shape(leaf)[1:] for path, leaf in paths})


def _short(time: Any) -> str:
    """Write a time, a date without its midnight."""
    return str(time).removesuffix(".000000000").removesuffix("T00:00:00")


def observations_from_table(
    table: Any, y: Columns = None, inputs: Columns = None, time: str | None = None
) -> Observations:
    """Read observations, inputs and times from a table.

    Args:
        table: A DataFrame of pandas, polars or pyarrow, a Series of pandas or polars, or a dict of columns.
        y: Column of the observations; a list of columns for a vector; a dict of columns if the model observes a dict.
            None uses the only column that is not named otherwise.
        inputs: Columns of the inputs, in the structure that the model expects: a name, a list or a dict.
        time: Column of the times. None uses the index of a pandas table, unless it only counts rows.

    Returns:
        `Observations`, which you can pass to `run` in place of `ys`.

    Raises:
        DataError: A column is missing or does not hold numbers, or `y` is ambiguous.
    """
    columns = columns_of(table)
    if y is None:
        y = _only_column(columns, {*jax.tree.leaves(inputs), time})
    times = _column(columns, time) if time is not None else _index_of(table)
    if times is not None:
        times = _as_dates(times)
        _warn_of_gaps(times, inputs is not None)
    pick = lambda names: _numbers(columns, names)
    return Observations(pick(y), None if inputs is None else pick(inputs), times, _listed(y))


def _listed(names: Columns) -> Columns:
    """Return names of columns with every sequence as a list."""
    if isinstance(names, Mapping):
        return {key: _listed(value) for key, value in names.items()}
    return names if isinstance(names, str) else [_listed(name) for name in names]


def columns_of(table: Any) -> Mapping[str, Any]:
    """Return the columns of a table by name."""
    if isinstance(table, Mapping):
        return table
    narwhals = extra("narwhals", "tables")
    try:
        frame = narwhals.from_native(table, allow_series=True)
    except TypeError as error:
        is_path = isinstance(table, str | PathLike)
        raise DataError(
            f"a table is a DataFrame or Series of pandas, polars or pyarrow, or a dict of columns; got a "
            f"{type(table).__name__}. "
            + ("Read the file first, such as pandas.read_csv(path)." if is_path else "Pass arrays to run directly.")
        ) from error
    if isinstance(frame, narwhals.LazyFrame):
        frame = frame.collect()
    if isinstance(frame, narwhals.Series):
        return {str(frame.name or "y"): frame.to_numpy()}
    return {str(name): frame[name].to_numpy() for name in frame.columns}


def _only_column(columns: Mapping[str, Any], used: set[str | None]) -> str:
    left = [name for name in columns if name not in used]
    if len(left) != 1:
        raise DataError(f'the column of the observations is ambiguous; the columns are {left}. Name it: y="...".')
    return left[0]


def _numbers(columns: Mapping[str, Any], names: Columns) -> Any:
    """Replace names by arrays: a list of names becomes one array with a last axis."""
    if isinstance(names, str):
        return _as_floats(names, _column(columns, names))
    if isinstance(names, Mapping):
        return {key: _numbers(columns, value) for key, value in names.items()}
    if isinstance(names, Sequence) and names:
        return np.stack([_numbers(columns, name) for name in names], axis=-1)
    raise DataError(f'columns must be a name, or a list or dict of names; got {names!r}. Write y="level", for example.')


def _column(columns: Mapping[str, Any], name: str) -> np.ndarray:
    if name not in columns:
        raise DataError(f'the table has no column "{name}"; its columns are {list(columns)}. Check the spelling.')
    return np.asarray(columns[name])


def _as_dates(times: np.ndarray) -> np.ndarray:
    """Parse text such as 2026-01-31 12:00 as dates if all values have this form; leave other values unchanged."""
    if not all(isinstance(one, str) for one in times) or not all(DATE.match(one) for one in times):
        return times
    try:
        return np.array([one.strip() for one in times], "datetime64[ns]")
    except ValueError:
        return times


def _warn_of_gaps(times: np.ndarray, has_inputs: bool) -> None:
    """Warn of rows that are out of order or, if no input tells the model, not evenly spaced."""
    if len(times) < FEWEST_TIMES or times.dtype.kind not in "Mmiuf":
        return
    if times.dtype.kind == "M":
        times = times.astype("datetime64[s]")
    gaps = np.diff(times).astype(float)
    usual = np.median(gaps)
    is_odd = np.abs(gaps - usual) >= UNEVEN * usual
    if np.any(gaps <= 0):
        row = int(np.argmax(gaps <= 0)) + 1
        cure = "Sort the table by time." if np.any(gaps < 0) else "Keep one row for each time."
        text = f"row {row} ({times[row]}) is not later than the row before ({times[row - 1]}). {cure}"
    elif np.any(is_odd) and not has_inputs:
        row = int(np.argmax(is_odd)) + 1
        text = f"times are not evenly spaced, first from {times[row - 1]} to {times[row]}. {_cure_of(gaps / usual)}"
    else:
        return
    warnings.warn(f"{text} The model moves one step for each row, whatever its time.", stacklevel=3)


def _cure_of(steps: np.ndarray) -> str:
    whole = np.round(steps)
    if np.all((np.abs(steps - whole) < UNEVEN) & (whole >= 1)):
        return f"{int(np.sum(whole - 1))} rows seem to be missing: insert them with NaN (pandas: table.asfreq(...))."
    return "Pass the time since the row before as an input, such as inputs={'dt': 'dt'}."


def _as_floats(name: str, column: np.ndarray) -> np.ndarray:
    if column.dtype == object:  # numbers and None
        column = np.array([np.nan if value is None else value for value in column])
    if column.dtype.kind not in "biuf":
        first = next((index for index, value in enumerate(column) if not _is_number(value)), 0)
        raise DataError(
            f'column "{name}" holds {column.dtype} instead of numbers; row {first} is {column[first].item()!r}. '
            "Convert the column to numbers, and leave missing values empty."
        )
    return column.astype(float)


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return not isinstance(value, np.datetime64 | np.timedelta64)


def _index_of(table: Any) -> np.ndarray | None:
    """Return the index of a pandas table, unless it only counts rows."""
    index = getattr(table, "index", None)
    if index is None or callable(index) or type(index).__name__ == "RangeIndex":
        return None
    return np.asarray(index)


@dataclass(frozen=True, eq=False)
class LongTable:
    """The rows of many series, in the order of a table.

    Attributes:
        ids: The id of each series, sorted.
        series: The series of each row, as an index of `ids`.
        place: The place of each row among those of its series, by time.
        times: The time of each row.
        ys: The observation of each row.
        inputs: The inputs of each row, or None.
    """

    ids: list[Hashable]
    series: Int[np.ndarray, " row"]
    place: Int[np.ndarray, " row"]
    times: Shaped[np.ndarray, " row"]
    ys: Float[np.ndarray, " row"] | None
    inputs: Inputs

    @property
    def lengths(self) -> Int[np.ndarray, " series"]:
        """How many rows each series has."""
        return np.bincount(self.series)

    def panel(self, tree: Any, rest: float = 0.0) -> Any:
        """Arrange columns with leading axes of series and time; `rest` is where a series has no more rows."""

        def arrange(leaf):
            filled = np.full((len(self.ids), int(np.max(self.place)) + 1, *leaf.shape[1:]), rest, leaf.dtype)
            filled[self.series, self.place] = leaf
            return filled

        return jax.tree.map(arrange, tree)

    def times_of_series(self) -> list[np.ndarray]:
        """Return the times of each series, in their order."""
        order = np.lexsort((self.place, self.series))
        return np.split(self.times[order], np.cumsum(self.lengths)[:-1])


def long_table(columns: Mapping[str, Any], y: str | None, inputs: Columns, series: str, time: str) -> LongTable:
    """Read the rows of many series, in any order; `y` is None for rows of the future."""
    names, times = _column(columns, series), as_times(_column(columns, time), time)
    if len(names) == 0:
        raise DataError("the table has no rows. Leave the call out if there are no observations.")
    if any(one is None or one != one for one in names):
        raise DataError(f'column "{series}" has a row without an id. Remove the row, or name its series.')
    ids, number = np.unique(names, return_inverse=True)
    order = np.lexsort((times, number))
    is_first = np.diff(number[order], prepend=-1) > 0
    again = np.flatnonzero(~is_first[1:] & (np.diff(times[order]) == np.zeros(1, np.diff(times).dtype)))
    if len(again):
        row = order[again[0]]
        raise DataError(f"series {names[row]!r} has two rows of time {times[row]}. Keep one row for each time.")
    place = np.empty(len(names), int)
    place[order] = np.arange(len(names)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    pick = lambda column: None if column is None else _numbers(columns, column)
    return LongTable(ids.tolist(), number, place, times, pick(y), pick(inputs))


def as_times(times: np.ndarray, name: str) -> np.ndarray:
    """Return a column of times as dates, integers or floats, or refuse it."""
    times = _as_dates(times)
    if times.dtype.kind not in "Miuf":
        raise DataError(
            f'column "{name}" must hold dates without a time zone, text such as 2026-01-31, or numbers; got '
            f"{times[0]!r}. Convert the column first."
        )
    times = times if times.dtype.kind == "M" else times.astype(float if times.dtype.kind == "f" else int)
    if np.any(np.isnan(times)):
        raise DataError(f'column "{name}" has a row without a time. Remove the row, or name its time.')
    return times


def next_times(times: np.ndarray, num: int, step: tuple[int, Any]) -> np.ndarray:
    """Continue times by a step of `step_between`.

    >>> ends = np.array(["2026-01-31", "2026-02-28", "2026-03-31"], "datetime64[D]")
    >>> next_times(ends, 2, step_between(ends))
    array(['2026-04-30', '2026-05-31'], dtype='datetime64[D]')
    """
    months, rest = step
    if not months:
        return times[-1] + rest * np.arange(1, num + 1)
    month = (times[-1] + rest).astype("datetime64[M]")
    start = month + months * MONTH * np.arange(1, num + 1)
    after = start + MONTH
    within = times[-1] + rest - month
    return np.minimum(start.astype(times.dtype) + within, after.astype(times.dtype) - DAY) - rest


def step_between(times: np.ndarray) -> tuple[int, Any] | None:
    """Return the step between times, None if there is only one time.

    Returns:
        A number of months and what to add to a date before months are counted: a day at the ends of months. Or 0 and
        the median gap.
    """
    if len(times) < 2:
        return None
    for rest in (DAY, 0 * DAY) if times.dtype.kind == "M" else ():
        months = (times + rest).astype("datetime64[M]")
        within = times + rest - months
        if np.all(within == within[0]) and (within[0] < DAY or not rest):
            return int(np.median(np.diff(months).astype(int))), rest
    gaps = np.diff(times)
    return 0, np.sort(gaps)[len(gaps) // 2]

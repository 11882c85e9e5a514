"""The door for data: tables, arrays and single observations become floats with NaN where a value is missing.

`run`, `step`, fleets, the forecaster and the command line all come through here. What cannot be numbers is refused with
a `DataError` that names the column, the row and what to do.

A table is anything narwhals reads (pandas, polars, pyarrow, ...) or a dict of columns.

>>> table = {"day": ["mon", "tue", "wed"], "level": [0.1, None, 0.3], "rain": [0.0, 2.0, 1.0]}
>>> data = observations_from_table(table, y="level", inputs={"rain": "rain"}, time="day")
>>> data.ys, data.inputs, data.times
(array([0.1, nan, 0.3]), {'rain': array([0., 2., 1.])}, array(['mon', 'tue', 'wed'], dtype='<U3'))
"""

from __future__ import annotations

import decimal
import numbers
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int, Shaped

from paramfilter.arguments import describe, did_you_mean, kind_of
from paramfilter.calendars import as_times, brief, require_order, strict_times
from paramfilter.distributions import Support
from paramfilter.errors import DataError, extra
from paramfilter.labels import in_brief
from paramfilter.tracing import is_traced, strongly_typed
from paramfilter.types import Inputs, Observation

Columns = Any
"""A column's name; several names for a vector; or a dict (or other tree) of these."""

MISSING_KINDS = ("NAType", "NaTType", "MaskedConstant")
"""Classes of what pandas and NumPy put where a value is missing, besides None and NaN."""

REAL_KINDS = (numbers.Real, decimal.Decimal, np.bool_)


def as_floats(values: Any, name: str = "y", dtype: Any = None) -> Float[Array | np.ndarray, "..."]:
    """Turn values into floats: masked values, None and the like become NaN; anything else than real numbers is refused.

    What has a value becomes a NumPy array, so that nothing is compiled to cut and check it.

    Args:
        values: An array, a sequence or a number.
        name: What messages call it.
        dtype: Of the result; None is JAX's float, where a number that is too large becomes infinite.
    """
    if is_traced(values):
        return jnp.asarray(_require_real(jnp.asarray(values), values, name), float)
    mask = np.ma.getmaskarray(values) if isinstance(values, np.ma.MaskedArray) else None
    array = np.ma.getdata(values) if mask is not None else _as_array(values, name)
    if array.dtype == object:
        found = [_as_number(one, name, row) for row, one in enumerate(array.reshape(-1))]
        array = np.array(found, float).reshape(array.shape)
    with np.errstate(over="ignore"):
        array = _require_real(array, values, name).astype(jnp.result_type(float) if dtype is None else dtype)
    return array if mask is None else np.where(mask, np.nan, array)


def _as_array(values: Any, name: str) -> np.ndarray:
    try:
        if hasattr(values, "columns"):
            raise ValueError("it is a table")
        return np.asarray(values)
    except (TypeError, ValueError) as error:
        reason = str(error).partition(". ")[0]  # numpy adds two more sentences
        cure = (
            'Read a table with pf.observations_from_table(table, y="...", time="...").'
            if hasattr(values, "columns")
            else "Give numbers in rows of one length, with NaN where one is missing."
        )
        message = f"{name} must be numbers in one array, and {kind_of(values)} cannot become one ({reason}). {cure}"
        raise DataError(message) from error


def _as_number(value: Any, name: str, row: int) -> float:
    if value is None or type(value).__name__ in MISSING_KINDS:
        return np.nan
    try:
        if isinstance(value, REAL_KINDS) and not isinstance(value, np.timedelta64):
            return float(value)
    except (OverflowError, ValueError, TypeError):
        pass
    raise DataError(f"{name} must be real numbers; row {row} is {_short(value)}. {_CURE}")


_CURE = "Convert it to a number, and leave missing values empty (None or NaN); dates belong in time or inputs."


def _require_real(array: Any, values: Any, name: str) -> Any:
    """Refuse text, dates, spans of time and complex numbers."""
    if array.dtype.kind in "biuf" or jnp.issubdtype(array.dtype, jnp.floating):
        return array
    rows = np.asarray(values, object).reshape(-1) if not is_traced(values) else []
    odd = next((row for row, one in enumerate(rows) if not isinstance(one, numbers.Real)), 0)
    where = f"; row {odd} is {_short(rows[odd])}" if len(rows) else ""
    raise DataError(f"{name} must be real numbers, got {kind_of(values)} of dtype {array.dtype}{where}. {_CURE}")


def _short(value: Any) -> str:
    text = repr(value.item() if isinstance(value, np.generic) else value)
    return text if len(text) <= 40 else f"{text[:37]}..."


def as_observation(
    y: Observation,
    expected: Any,
    whole: Sequence[str | None],
    supports: Sequence[Support | None],
    leading: tuple[str, ...] = (),
) -> Observation:
    """Turn y into float arrays and check it against the model's own observation.

    Args:
        y: One observation, or several with leading axes.
        expected: Shapes of the parts of one observation.
        whole: For each part, the kind of a distribution whose components cannot be missing one by one, or None.
        supports: For each part, the values that its distribution can take, as far as they are known.
        leading: Names of the axes in front of one observation's.
    """
    is_one_array = jax.tree_util.treedef_is_leaf(jax.tree.structure(expected))
    y = as_floats(y) if is_one_array and isinstance(y, list | tuple) else jax.tree.map(as_floats, y)
    if jax.tree.structure(y) != jax.tree.structure(expected):
        raise DataError(
            f"an observation must have the structure of the model's own, {describe(expected)}; got {describe(y)}. "
            "Give arrays in that structure; NaN, not None, stands for a missing value."
        )
    for got, wanted, family, support in zip(
        jax.tree.leaves(y), jax.tree.leaves(expected), whole, supports, strict=True
    ):
        if got.shape[len(leading) :] != wanted.shape or got.ndim < len(leading):
            axes = ", ".join([*leading, *map(str, wanted.shape)])
            raise DataError(
                f"the model's observation has shape {wanted.shape}, so y must have shape ({axes}); got {got.shape}"
                f". {shape_advice(got.shape, wanted.shape, len(leading))}"
            )
        if not is_traced(got):  # inside a trace the step flags what cannot be weighed
            _refuse_partly_missing(got, family, leading)
            _refuse_impossible(got, support, leading)
    return y


def _refuse_partly_missing(y: np.ndarray, family: str | None, leading: tuple[str, ...]) -> None:
    if family is None:
        return
    missing = np.isnan(y).reshape(*y.shape[: len(leading)], -1)
    is_odd = np.any(missing, axis=-1) & ~np.all(missing, axis=-1)
    if np.any(is_odd):
        raise DataError(
            f"{_place(is_odd, leading)} is missing in part, but a {family} scores its components only together. Set "
            "all of them to NaN, or observe them through a distribution that factorises, such as "
            "dist.Normal(mean, sd).to_event(1), or a MultivariateNormal, which is marginalised exactly."
        )


def _refuse_impossible(y: np.ndarray, support: Support | None, leading: tuple[str, ...]) -> None:
    if support is not None and np.any(is_odd := support.excludes(y)):
        value = y[is_odd].flat[0].item()
        raise DataError(
            f"{_place(is_odd, leading)} is {value:g}, and the model's {support.family} gives only {support.words}. Set "
            "the value to NaN if it is missing or wrong, or choose a distribution that has this value."
        )


def _place(is_odd: Any, leading: tuple[str, ...]) -> str:
    """Name the first observation that is marked."""
    if not leading:
        return "the observation"
    index = np.argwhere(is_odd)[0][: len(leading)].tolist()
    return f"the observation at index {index[0] if len(index) == 1 else tuple(index)}"


def shape_advice(got: tuple[int, ...], wanted: tuple[int, ...], num_leading: int) -> str:
    """Say how data of one shape may become what is wanted, after so many leading axes."""
    fits = lambda shape: len(shape) == num_leading + len(wanted) and shape[num_leading:] == wanted
    if fits(got[::-1]):
        return "Transpose it: y.T."
    if got and got[-1] == 1 and fits(got[:-1]):
        return "Take its only column: y[..., 0]."
    if num_leading == 0 and got[1:] == wanted:
        return "step takes one observation; run(filter, state, ys) takes many."
    if num_leading == 1 and got == wanted:
        return "This is one observation; give it an axis in front, y[None], or use filter.step(state, y)."
    return "Add or drop axes; the components of one observation come last."


def common_length(ys: Observation) -> int:
    """Return the number of observations, or refuse parts of different lengths."""
    lengths = {len(leaf) for leaf in jax.tree.leaves(ys)}
    if len(lengths) != 1:
        raise DataError(
            f"all parts of ys must have a leading time axis of the same length; got lengths {sorted(lengths)}. Fill "
            "the shorter ones with NaN, which means missing."
        )
    if lengths == {0}:
        raise DataError(
            "ys holds no observation; its leading axis is time. Pass at least one, or call predict to forecast."
        )
    return lengths.pop()


def as_inputs(inputs: Inputs, ruler: str = "", length: int | None = None) -> Inputs:
    """Turn inputs into arrays; with a length, refuse leaves without a leading time axis of that length.

    `ruler` names the argument that the length was taken from.
    """
    try:
        inputs = jax.tree.map(_as_input, inputs)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(
            f"inputs must hold numbers only, got {describe(inputs)}. Turn dates into numbers, for example days since "
            "the first, and texts into indices."
        ) from error
    for leaf in jax.tree.leaves(inputs) if length is not None else ():
        if jnp.ndim(leaf) == 0 or len(leaf) != length:
            raise DataError(
                f"inputs must have a leading time axis of the same length as {ruler}, {length}; got "
                f'{describe(inputs)}. Give one dict of arrays, such as {{"dt": jnp.ones({length})}}, not a list of '
                "dicts and not one number for all steps."
            )
    return inputs


def _as_input(leaf: Any) -> Array | np.ndarray:
    """Return an array of a definite dtype that JAX has: of NumPy, if it has a value."""
    if is_traced(leaf):
        return strongly_typed(leaf)
    array = np.asarray(leaf)
    return array.astype(jnp.result_type(array), copy=False)


def require_same_names(inputs: Inputs, example: Inputs, model: str) -> None:
    """Refuse inputs that a model does not read, and inputs that lack a name."""
    if inputs is None:
        return
    if example is None:
        raise DataError(
            f"{model} uses no inputs, got {describe(inputs)}. Leave inputs out; or read them in the model's functions, "
            "and pass those of one step as StateSpaceModel(..., example_inputs=...)."
        )
    if not isinstance(example, Mapping) or not isinstance(inputs, Mapping):
        return
    for name in inputs.keys() - example.keys():
        hint = did_you_mean(str(name), map(str, example)) or "."
        raise DataError(f"{model} has no input {name!r}{hint} Its inputs are {', '.join(map(str, example))}.")
    for name in example.keys() - inputs.keys():
        raise DataError(f"inputs lack {name!r}, which {model} reads. Its inputs are {', '.join(map(str, example))}.")


@dataclass(frozen=True, eq=False)
class Observations:
    """Observations with their inputs and times, as `run` and `to_datatree` accept them.

    Attributes:
        ys: Observations with a leading time axis; NaN where missing.
        inputs: Inputs with the same leading axis, or None.
        times: Time of each observation, used as a label; None to count steps.
        columns: The columns that `ys` came from, for labels: a name, a list of names, or a dict of these; None if they
            did not come from a table.
        freq: Frequency of the times if it was given, such as "B"; forecasts continue the dates by it.
    """

    ys: Observation
    inputs: Inputs = None
    times: np.ndarray | None = None
    columns: Columns = None
    freq: Any = None

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
            parts.append(f"{brief(self.times[0])} to {brief(self.times[-1])}")
        return f"Observations({', '.join(parts)})"

    def _names(self) -> str:
        if self.columns is not None:
            return ", ".join(jax.tree.leaves(self.columns))
        paths, _ = jax.tree_util.tree_flatten_with_path(self.ys)
        name_of = lambda path: jax.tree_util.keystr(path, simple=True, separator=".") or "y"
        return in_brief({name_of(path): np.shape(leaf)[1:] for path, leaf in paths})


def observations_from_table(
    table: Any, y: Columns = None, inputs: Columns = None, time: str | None = None, freq: Any = None
) -> Observations:
    """Read observations, inputs and times from a table.

    Args:
        table: A DataFrame of pandas, polars or pyarrow, a Series of pandas or polars, or a dict of columns.
        y: Column of the observations; a list of columns for a vector; a dict of columns if the model observes a dict.
            None uses the only column that is not named otherwise.
        inputs: Columns of the inputs, in the structure that the model expects: a name, a list or a dict.
        time: Column of the times. None uses the index of a pandas table, unless it only counts rows.
        freq: Frequency of the dates as pandas writes it, such as "B" for business days or "ME" for ends of months; or
            the step between times that are numbers. None finds it.

    Returns:
        `Observations`, which you can pass to `run` in place of `ys`.

    Raises:
        DataError: A column is missing or does not hold numbers, `y` is ambiguous, or times go back.
    """
    columns = columns_of(table)
    if y is None:
        y = _only_column(columns, {*jax.tree.leaves(inputs), time})
    times = _column(columns, time) if time is not None else _index_of(table)
    picked = _picked(columns, y), None if inputs is None else _picked(columns, inputs)
    if times is not None:
        times = as_times(times)
    _require_rows(picked, (y, inputs), times)
    if times is not None:
        require_order(times, inputs is not None, freq)
    return Observations(*picked, times, _listed(y), freq)


def _require_rows(picked: Any, names: Any, times: np.ndarray | None) -> None:
    """Refuse columns of different lengths, and a table without rows."""
    leaves = jax.tree.leaves(picked)
    if any(np.ndim(leaf) == 0 for leaf in leaves):
        raise DataError(f"the columns {jax.tree.leaves(names)} must hold a value for each row; one is a single number.")
    lengths = sorted({len(leaf) for leaf in (*leaves, *([] if times is None else [times]))})
    if lengths[0] == 0 or len(lengths) > 1:
        found = "no rows" if lengths[-1] == 0 else f"columns of different lengths, {lengths}"
        raise DataError(f"the table has {found}. Give every column one value for each row, NaN where it is missing.")


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
    except narwhals.exceptions.DuplicateError as error:
        raise DataError(f"the table has two columns of one name ({error}). Rename one of them.") from error
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


def _picked(columns: Mapping[str, Any], names: Columns) -> Any:
    """Replace names by arrays: a list of names becomes one array with a last axis."""
    if isinstance(names, str):
        return as_floats(_column(columns, names), f'column "{names}"', np.float64)
    if isinstance(names, Mapping):
        return {key: _picked(columns, value) for key, value in names.items()}
    if isinstance(names, Sequence) and names:
        parts = [_picked(columns, name) for name in names]
        _require_rows(parts, names, None)
        return np.stack(parts, axis=-1)
    raise DataError(f'columns must be a name, or a list or dict of names; got {names!r}. Write y="level", for example.')


def _column(columns: Mapping[str, Any], name: str) -> Any:
    if name not in columns:
        hint = did_you_mean(str(name), map(str, columns)) or "."
        raise DataError(f'the table has no column "{name}"{hint} Its columns are {list(columns)}.')
    return columns[name]


def _index_of(table: Any) -> Any:
    """Return the index of a pandas table, unless it only counts rows."""
    index = getattr(table, "index", None)
    return None if index is None or callable(index) or type(index).__name__ == "RangeIndex" else index


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
    names = np.asarray(_column(columns, series))
    picked = tuple(None if column is None else _picked(columns, column) for column in (y, inputs))
    _require_rows((*picked, names), (y, inputs, series), np.asarray(_column(columns, time)))
    times = strict_times(_column(columns, time), time)
    if any(one is None or one != one for one in names):
        raise DataError(f'column "{series}" has a row without an id. Remove the row, or name its series.')
    try:
        ids, number = np.unique(names, return_inverse=True)
    except TypeError as error:
        raise DataError(f'column "{series}" mixes ids of several types ({error}). Make them all text.') from error
    order = np.lexsort((times, number))
    is_first = np.diff(number[order], prepend=-1) > 0
    again = np.flatnonzero(~is_first[1:] & (times[order][1:] == times[order][:-1]))
    if len(again):
        row = order[again[0]]
        raise DataError(f"series {names[row]!r} has two rows of time {times[row]}. Keep one row for each time.")
    place = np.empty(len(names), int)
    place[order] = np.arange(len(names)) - np.flatnonzero(is_first)[np.cumsum(is_first) - 1]
    return LongTable(ids.tolist(), number, place, times, *picked)

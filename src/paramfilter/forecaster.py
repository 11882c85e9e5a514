"""Forecast many series from one long table, with `fit`, `update` and `predict` as in StatsForecast.

A table has a row for each observation: the id of its series, its time, and its value. Each series has a node filter of
its own in a `Fleet`. `update` processes new rows at a cost that does not depend on the rows before them.

>>> import paramfilter as pf
>>> days = ["2026-01-01", "2026-01-02", "2026-01-03"]
>>> table = {"unique_id": ["a"] * 3 + ["b"] * 3, "ds": days * 2, "y": [0.3, 0.1, -0.2, 1.1, 0.8, 0.9]}
>>> forecaster = Forecaster(pf.models.linear_gaussian(), num_nodes=32, num_kept=64).fit(table)
>>> forecast = forecaster.predict(2, level=[90])
>>> list(forecast)
['unique_id', 'ds', 'paramfilter', 'paramfilter-lo-90', 'paramfilter-hi-90']
>>> forecast["ds"].astype("datetime64[D]").astype(str).tolist()
['2026-01-04', '2026-01-05', '2026-01-04', '2026-01-05']
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import jax
import numpy as np

from paramfilter import checkpoint
from paramfilter.arguments import whole_number
from paramfilter.calendars import calendar_of, times_after
from paramfilter.data import LongTable, columns_of, long_table
from paramfilter.errors import CheckpointError, DataError, extra
from paramfilter.fleet import Fleet, FleetState, Population
from paramfilter.model import StateSpaceModel
from paramfilter.presets import node_filter
from paramfilter.types import Inputs

NAME = "paramfilter"
NUM_TIMES = 8
"""Last times of each series, from which the step between times is found: days without a weekend are business days."""


@dataclass(frozen=True)
class Form:
    """The form of the tables: names of columns, type of the times, and the library (None for a dict)."""

    id_col: str
    time_col: str
    target_col: str
    library: str | None
    time_type: str = ""

    def table(self, columns: dict[str, Any]) -> Any:
        """Return columns as a table of the same library."""
        if self.library is None:
            return columns
        return extra("narwhals", "tables").from_dict(columns, backend=self.library).to_native()


class Forecaster:
    """Learn a model for each series of a table, and forecast.

    Args:
        model: The model of each series, with one number as its observation.
        num_nodes: Number of nodes of each series.
        num_kept: Number of observations that each series keeps for the renewal of its nodes.
        seed: Seed of the random numbers.
        prior: "population" starts a series that first appears in `update` from what the others have learned. A
            `Population` is the prior of all series. None uses the model's prior.
        freq: Frequency of the dates as pandas writes it, such as "B" or "ME", or the step between times that are
            numbers. None finds it from the last times of each series.

    Attributes:
        fleet: The `Fleet`.
        state: Its state, for example for `fleet.mean(state)`; None before `fit`.
    """

    def __init__(
        self,
        model: StateSpaceModel,
        *,
        num_nodes: int = 128,
        num_kept: int = 512,
        seed: int = 0,
        prior: Population | str | None = None,
        freq: Any = None,
    ):
        if prior is not None and prior != "population" and not isinstance(prior, Population):
            raise DataError(f'prior must be "population", a Population or None; got {prior!r}.')
        self.fleet = Fleet(node_filter(model, num_nodes, num_kept=num_kept))
        self.seed, self.prior, self.freq = whole_number(seed, "seed", 0, "Write seed=0."), prior, freq
        self.state: FleetState | None = None
        self._form: Form | None = None
        self._times: dict[Hashable, np.ndarray] = {}

    def fit(self, df: Any, *, id_col: str = "unique_id", time_col: str = "ds", target_col: str = "y") -> Forecaster:
        """Learn from a table, from the start.

        Args:
            df: A table of pandas, polars or pyarrow, or a dict of columns, with rows in any order. NaN means missing.
                Further columns are covariates if the model uses inputs, and are ignored otherwise.
            id_col: Column of the ids.
            time_col: Column of the times: dates, text in ISO format, or numbers. Each row is one step of the model.
            target_col: Column of the observations.
        """
        form = Form(id_col, time_col, target_col, library_of(df))
        rows = self._read(df, form, {}, target_col)
        prior = self.prior if isinstance(self.prior, Population) else None
        ys, inputs = rows.panel(rows.ys, np.nan), rows.panel(rows.inputs)
        first = jax.tree.map(lambda leaf: leaf[:, 0], inputs)
        state = self.fleet.init(jax.random.key(self.seed), rows.ids, inputs=first, prior=prior)
        self.state = self.fleet.run(state, ys, lengths=rows.lengths, inputs=inputs)
        self._form, self._times = replace(form, time_type=str(rows.times.dtype)), {}
        self._remember(rows)
        return self

    def update(self, df: Any) -> Any:
        """Process new rows of some or all series. An id that is new starts a series.

        Args:
            df: A table with the columns of `fit`. The rows of a series must be later than its rows so far.

        Returns:
            The ids, times and observations of `df`, with a column `tail_probability`: the probability of an
            observation as far out in its forecast. An alarm below 0.001 is false once in 1,000 observations.
        """
        state, form = self._fitted("update")
        rows = self._read(df, form, self._times, form.target_col)
        new = [number for number, one in enumerate(rows.ids) if one not in state.row_of]
        if new:
            first = jax.tree.map(lambda leaf: leaf[new, 0], rows.panel(rows.inputs))
            state = self.fleet.add(state, [rows.ids[number] for number in new], inputs=first, prior=self.prior)
        tail_probability = np.empty(len(rows.series))
        for place in range(int(np.max(rows.lengths))):
            now = np.flatnonzero(rows.place == place)
            ys, inputs = jax.tree.map(lambda leaf, now=now: leaf[now], (rows.ys, rows.inputs))
            ids = [rows.ids[number] for number in rows.series[now]]
            state, info = self.fleet.update(state, ids, ys, inputs=inputs)
            tail_probability[now] = info.tail_probability
        self.state = state
        self._remember(rows)
        columns = {form.id_col: np.array(rows.ids)[rows.series], form.time_col: rows.times, form.target_col: rows.ys}
        return form.table(columns | {"tail_probability": tail_probability})

    def predict(
        self, h: int, level: Sequence[float | int] = (50, 90), *, X_df: Any = None, num_draws: int = 1024
    ) -> Any:
        """Forecast the next observations of every series.

        Args:
            h: Number of steps ahead.
            level: Probabilities of the central intervals, in percent.
            X_df: Ids, times and covariates of the next `h` rows of every series; required if the model uses inputs.
                Without it, times continue by `freq`, or by the calendar that a series' last times follow.
            num_draws: Number of draws for each series.

        Returns:
            A table with a row for each series and step. The column `paramfilter` is the mean, and columns such as
            `paramfilter-lo-90` and `paramfilter-hi-90` are the ends of the intervals.
        """
        state, form = self._fitted("predict")
        h, level = whole_number(h, "h", 1, "The call is predict(h, level)."), sorted(level)
        if not all(0 < one < 100 for one in level):
            raise DataError(f"level must hold percentages between 0 and 100, such as (50, 90); got {level}.")
        if X_df is not None:
            times, inputs = self._future(h, X_df)
        elif self.fleet.filter.model.example_inputs is not None:
            raise DataError("the model uses inputs, so a forecast needs those of the future. Pass them as X_df=.")
        else:
            times, inputs = self._continued(h), None
        names = [f"-lo-{one:g}" for one in reversed(level)] + [f"-hi-{one:g}" for one in level]
        quantiles = [0.5 - one / 200 for one in reversed(level)] + [0.5 + one / 200 for one in level]
        found = self.fleet.predict(state, h, inputs=inputs, num_draws=num_draws, levels=[0.5, *quantiles])
        columns = {form.id_col: np.repeat(np.array(state.ids), h), form.time_col: times.ravel(), NAME: found.mean}
        columns |= {NAME + name: values for name, values in zip(names, found.quantiles[1:], strict=True)}
        return form.table({name: np.ravel(values) for name, values in columns.items()})

    def save(self, path: str | os.PathLike) -> None:
        """Write the forecaster to a file, atomically. The model is code and is not saved."""
        state, form = self._fitted("save")
        times = [self._times[one] for one in state.ids]
        text = np.frombuffer(json.dumps(asdict(form)).encode(), np.uint8)
        lengths, flat = np.array([len(one) for one in times]), np.concatenate(times)
        self.fleet.save(path, state, more={"form": text, "lengths": lengths, "times": flat.view(np.int64)})

    def load(self, path: str | os.PathLike) -> Forecaster:
        """Continue from a file, as if the run had not been interrupted.

        Call it on a forecaster with the same model and sizes: `Forecaster(model, num_nodes=64).load(path)`.
        """
        arrays = checkpoint.read(path, checkpoint.FLEET, self.fleet.filter).arrays
        if "['form']" not in arrays:
            raise CheckpointError(f"{path} holds a fleet without times. Read it with fleet.restore.")
        form = Form(**json.loads(arrays["['form']"].tobytes()))
        self.state, self._form = self.fleet.restore(path), form
        times = np.split(arrays["['times']"].view(form.time_type), np.cumsum(arrays["['lengths']"])[:-1])
        self._times = dict(zip(self.state.ids, times, strict=True))
        return self

    def _fitted(self, name: str) -> tuple[FleetState, Form]:
        if self.state is None or self._form is None:
            raise DataError(f"{name} needs a forecaster that has seen data. Call fit(df) or load(path) first.")
        return self.state, self._form

    def _read(self, df: Any, form: Form, last: Mapping[Hashable, np.ndarray], y: str | None) -> LongTable:
        """Read a table, and refuse rows that are not later than the last times."""
        columns = columns_of(df)
        example: Any = self.fleet.filter.model.example_inputs
        others = [name for name in columns if name not in (form.id_col, form.time_col, form.target_col)]
        inputs: Any = {name: name for name in example} if isinstance(example, Mapping) else others
        if inputs is others and len(others) == 1 and np.shape(jax.tree.leaves(example)[:1]) == (1,):
            inputs = others[0]
        rows = long_table(columns, y, None if example is None else inputs, form.id_col, form.time_col)
        if form.time_type and np.dtype(form.time_type).kind != rows.times.dtype.kind:
            kinds = f"{rows.times.dtype}, and {form.time_type} in fit"
            raise DataError(f'column "{form.time_col}" holds {kinds}. Convert it to the same type.')
        times = rows.times.astype(form.time_type or rows.times.dtype)
        if np.any(times != rows.times):
            raise DataError(f'column "{form.time_col}" has finer times than in fit. Give fit times of day as well.')
        rows = replace(rows, times=times)
        for one, times in zip(rows.ids, rows.times_of_series(), strict=True):
            if one in last and times[0] <= last[one][-1]:
                raise DataError(
                    f"series {one!r} has a row at {times[0]}, not later than its last row at {last[one][-1]}. Pass new "
                    "rows only, or call fit with the whole table."
                )
        return rows

    def _remember(self, rows: LongTable) -> None:
        for one, times in zip(rows.ids, rows.times_of_series(), strict=True):
            times = np.concatenate([self._times[one], times]) if one in self._times else times
            self._times[one] = times[-NUM_TIMES:]

    def _future(self, h: int, X_df: Any) -> tuple[np.ndarray, Inputs]:
        """Return the next times of every series and the inputs there, from a table."""
        state, form = self._fitted("predict")
        rows = self._read(X_df, form, self._times, None)
        if set(rows.ids) != set(state.ids) or np.any(rows.lengths != h):
            raise DataError(f"X_df must have {h} rows for each of the {len(state.ids)} series, and no others.")
        order = np.argsort(state.rows(tuple(rows.ids)))
        return jax.tree.map(lambda leaf: rows.panel(leaf)[order], (rows.times, rows.inputs))

    def _continued(self, h: int) -> np.ndarray:
        """Continue the times of every series; one with a single time has the most common step of the others."""
        calendars = {one: calendar_of(times, self.freq) for one, times in self._times.items()}
        common = Counter(one for one in calendars.values() if one is not None).most_common(1)
        if not common and next(iter(self._times.values())).dtype.kind == "M":
            raise DataError("no series has two rows, so the step between dates is not known. Pass the dates as X_df=.")
        usual = common[0][0] if common else 1
        following: Any = lambda one, times: times_after(times, h, usual if calendars[one] is None else calendars[one])
        return np.stack([following(one, times) for one, times in self._times.items()])


def library_of(df: Any) -> str | None:
    """Return the name of a table's library, None for a dict."""
    return None if isinstance(df, Mapping) else extra("narwhals", "tables").from_native(df).implementation.value

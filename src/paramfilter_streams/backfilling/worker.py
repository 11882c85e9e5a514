"""From one Parquet file of observations to one of posteriors.

A file holds whole series, some thousands of them; its rows may have any order. They are sorted, laid out as an array of
series by time, and run through a fleet in one call. The result is a function of the file, the filter and the seed
alone, so a file that was half done when a machine died is simply done again. It appears under its name in one move.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Float, Int

from paramfilter.checkpoint import write_atomically
from paramfilter.errors import DataError, extra
from paramfilter.fleet import Fleet, FleetScores, FleetState
from paramfilter.labels import components_of
from paramfilter.particles import ParticleFilter

EXTRA = "backfill"
"""The extra that brings pyarrow and ray."""

STEPS_OF_ROOM = 16
"""A fleet has room for its series rounded up to this part of a power of two: few sizes, so few compiles."""


@dataclass(frozen=True)
class Columns:
    """Where things stand in a table.

    Args:
        series: The column of ids: numbers or texts.
        time: The column that gives the order within a series; None if rows are in order.
        y: The column of the observation, or a tuple of columns if the model observes a vector; null where missing.
        inputs: The same for what the model is told; None if nothing.
    """

    series: str = "series"
    time: str | None = "time"
    y: str | tuple[str, ...] = "y"
    inputs: str | tuple[str, ...] | None = None

    @property
    def names(self) -> list[str]:
        """All columns that are read."""
        given = (self.series, self.time, self.y, self.inputs)
        names = [name for one in given if one is not None for name in ((one,) if isinstance(one, str) else one)]
        return list(dict.fromkeys(names))


@dataclass(frozen=True)
class Sheet:
    """Observations of all series of a file, laid out by series and time; what is beyond a series' length is zero."""

    ids: np.ndarray
    lengths: Int[np.ndarray, " series"]
    ys: Float[np.ndarray, "series time *obs"]
    inputs: Float[np.ndarray, "series time *input"] | None


class Worker:
    """A compiled fleet, for one file after the other."""

    def __init__(self, filter: ParticleFilter, seed: int, columns: Columns):
        self.fleet = Fleet(filter)
        self.seed, self.columns = seed, columns

    @property
    def signature(self) -> dict[str, str]:
        """What a result depends on beside its file; it is kept in the result."""
        return {"fingerprint": self.fleet.filter.fingerprint, "seed": str(self.seed)}

    def work(self, source: Path, target: Path, states: tuple[Path | None, Path | None]) -> tuple[int, int]:
        """Do one file, and return how many series and observations it had.

        Args:
            source: The observations.
            target: Where the posteriors go.
            states: Where the fleet comes from, or None to start from the prior; and where it is saved, or None.
        """
        sheet = read_sheet(source, self.columns)
        began, kept = states
        # Series of one length side by side: a block is as slow as its longest.
        state = self._fleet_for(sheet.ids[np.argsort(sheet.lengths, kind="stable")], began)
        rows, num_series = state.rows(tuple(sheet.ids.tolist())), len(state.row_of)
        spread = lambda values: _at_rows(values, rows, num_series)
        ys, lengths, inputs = jax.tree.map(spread, (sheet.ys, sheet.lengths, sheet.inputs))
        state, scores = self.fleet.run_scored(state, ys, lengths=lengths, inputs=inputs)
        if kept is not None:
            self.fleet.save(kept, state)
        columns = self._posteriors(state) | self._surprise(scores, lengths) | self._forecast(state)
        write_posteriors(target, columns, self.signature)
        return len(sheet.ids), int(np.sum(sheet.lengths))

    def _fleet_for(self, ids: np.ndarray, began: Path | None) -> FleetState:
        """Take up a saved fleet and add what is new, or start one."""
        if began is None or not began.exists():
            return self.fleet.init(jax.random.key(self.seed), ids, room=_room(len(ids)))
        state = self.fleet.restore(began)
        new = [one for one in ids.tolist() if one not in state.row_of]
        return self.fleet.add(state, new) if new else state

    def _posteriors(self, state: FleetState) -> dict[str, Any]:
        num_series = len(state.row_of)
        mean, sd = self.fleet.mean(state), self.fleet.sd(state)
        columns: dict[str, Any] = {self.columns.series: list(state.ids), "num_observations": np.asarray(state.time)}
        for name in mean:
            columns |= _by_component(f"{name}_mean", mean[name]) | _by_component(f"{name}_sd", sd[name])
        columns["log_evidence"] = np.asarray(jax.vmap(lambda one: one.log_evidence)(state.series))
        columns["outcome"] = np.asarray(state.series.outcome)
        return {name: values[:num_series] for name, values in columns.items()}

    def _surprise(self, scores: FleetScores, lengths: np.ndarray) -> dict[str, Any]:
        """Return the mean log score of each series, and where its last observation lay in its forecast."""
        last = lambda leaf: np.asarray(leaf)[np.arange(len(lengths)), np.maximum(lengths - 1, 0)]
        columns: dict[str, Any] = {"log_score": np.nansum(scores.log_score, axis=1) / np.maximum(lengths, 1)}
        if isinstance(scores.pit, np.ndarray):
            columns |= _by_component("pit", last(scores.pit))
            columns |= _by_component("tail_probability", last(scores.tail_probability))
        return columns

    def _forecast(self, state: FleetState) -> dict[str, Any]:
        """Return mean and sd of the next observation, if the model needs no inputs for it."""
        filter = self.fleet.filter
        if filter.model.example_inputs is not None or not hasattr(filter.shapes.y, "shape"):
            return {}
        forecast = self.fleet.predict(state, 1)
        return _by_component("forecast_mean", forecast.mean[:, 0]) | _by_component("forecast_sd", forecast.sd[:, 0])


def read_sheet(source: Path, columns: Columns) -> Sheet:
    """Read a file, and give each series its row."""
    parquet = extra("pyarrow.parquet", EXTRA)
    missing = set(columns.names) - set(parquet.read_schema(source).names)
    if missing:
        raise DataError(f"{source} has no column {sorted(missing)}; say where things stand by columns=Columns(...).")
    table = parquet.read_table(source, columns=columns.names)
    ids = table[columns.series].to_numpy()
    if ids.dtype.kind == "f" or table[columns.series].null_count:
        raise DataError(
            f"the ids in column {columns.series!r} of {source} must be whole numbers or texts, and no null."
        )
    ids, series = np.unique(ids, return_inverse=True)
    times = np.arange(len(series)) if columns.time is None else table[columns.time].to_numpy()
    order = np.lexsort((times, series))
    lengths = np.bincount(series, minlength=len(ids))
    starts = np.cumsum(lengths) - lengths
    rows, places = series[order], np.arange(len(order)) - np.repeat(starts, lengths)

    def laid_out(names: str | tuple[str, ...]) -> np.ndarray:
        parts = [_numbers(table, name, source) for name in ((names,) if isinstance(names, str) else names)]
        sheet = np.zeros((len(ids), int(lengths.max()), len(parts)), jax.dtypes.canonicalize_dtype(float))
        sheet[rows, places] = np.stack(parts, axis=1)[order]
        return sheet[:, :, 0] if isinstance(names, str) else sheet

    inputs = None if columns.inputs is None else laid_out(columns.inputs)
    return Sheet(ids, lengths.astype(np.int32), laid_out(columns.y), inputs)


def write_posteriors(target: Path, columns: dict[str, Any], signature: dict[str, str]) -> None:
    """Write a table, atomically."""
    arrow, parquet = extra("pyarrow", EXTRA), extra("pyarrow.parquet", EXTRA)
    content = arrow.BufferOutputStream()
    with_nulls = {name: arrow.array(values, from_pandas=True) for name, values in columns.items()}  # in place of NaN
    table = arrow.table(with_nulls)
    parquet.write_table(table.replace_schema_metadata(signature), content)
    write_atomically(target, content.getvalue().to_pybytes())


def signature_of(target: Path) -> dict[str, str]:
    """Return what a result says it was made by."""
    found = extra("pyarrow.parquet", EXTRA).read_schema(target).metadata or {}
    return {name.decode(): text.decode() for name, text in found.items()}


def _numbers(table: Any, name: str, source: Path) -> np.ndarray:
    column = table[name]
    if not extra("pyarrow.types", EXTRA).is_primitive(column.type):
        raise DataError(f"column {name!r} of {source} holds {column.type}, not numbers.")
    return column.to_numpy().astype(float)  # null is NaN


def _at_rows(values: np.ndarray, rows: np.ndarray, num_rows: int) -> np.ndarray:
    spread = np.zeros((num_rows, *values.shape[1:]), values.dtype)
    spread[rows] = values
    return spread


def _by_component(name: str, values: Any) -> dict[str, np.ndarray]:
    """Give each component of a parameter a column of its own."""
    values = np.asarray(values)
    return {str(one): values[:, *one.place] for one in components_of(name, values.shape[1:])}


def _room(num_series: int) -> int:
    step = max(1 << max(num_series - 1, 0).bit_length(), STEPS_OF_ROOM) // STEPS_OF_ROOM
    return -(-num_series // step) * step

"""A fleet as a function from tables to tables."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pyarrow as pa
from jaxtyping import UInt32

from paramfilter.arguments import whole_number
from paramfilter.errors import DataError, StoreError
from paramfilter.filters import Filter, first_difference
from paramfilter.fleet import Fleet, FleetState, Population, blocks
from paramfilter.fleet.blocks import BLOCK
from paramfilter.fleet.forecast import LEVELS
from paramfilter.fleet.rows import count_before
from paramfilter.fleet.state import keys_for, rows_of
from paramfilter.tables.arriving import FATES, Books, Steps, arrive
from paramfilter.tables.events import Events, Flat
from paramfilter.tables.migrating import Function, Series, posterior_as_prior
from paramfilter.tables.ordering import Rules
from paramfilter.tables.outputs import columns_of, labels, numbers_of, state_numbers
from paramfilter.tables.rows import Layout, column_of, gathered, group_of, pc

FORMAT = "1"
"""Of a row of states."""

SIZES = (64, 4096)
"""Rows of a compiled call: the smallest that holds the series is compiled and called."""

WINDOW = 8
"""Steps of a series in one compiled call: memory is made for all of them, also where each series takes one."""

MOST_BYTES = 2**26
"""Bytes of the states of a compiled call: large states are stepped fewer at a time."""

CURES = {
    "format": "Read them with the version of paramfilter that wrote them.",
    "fingerprint": "Use the filter that they came from, or old_table.migrate(states, new_table).",
    "layout": "Use the version of paramfilter that wrote them, or old_table.migrate(states, new_table).",
    "seed": "Give StateTable the seed of the states.",
    "groups": "Give StateTable the number of groups of the states.",
}
"""What to do if this of a table of states is another."""


class StateTable:
    """Step the filters of many series, whose states are rows of a table.

    Args:
        filter: The filter of each series, such as `auto_filter(model)`.
        seed: Of all random numbers.
        rules: What to do with events that do not come in order.
        groups: Into how many groups the names of series are hashed; an engine distributes groups.
        forecasts: Whether outputs have one-step forecasts, PIT and tail probability, at the cost of making them.
        population: Replaces the model's prior for series that start, from `fleet.population`; None keeps the prior.

    Attributes:
        event_schema: Of a table of events; `epoch`, `at` and `place` may be left out.
        state_schema: Of a table of states; its metadata say what the states belong to.
        output_schema: Of a table of outputs, one row a step.
        aside_schema: Of a table of events that made no step.

    Example:
        >>> import pyarrow as pa, paramfilter as pf
        >>> table = StateTable(pf.storvik_filter(pf.models.linear_gaussian(), 64))
        >>> events = pa.table({"series": ["oslo", "lima", "oslo"], "seq": [1, 1, 2], "y": [0.3, -0.1, None]})
        >>> changed, outputs, aside = table.advance(table.empty(), events)
        >>> outputs["series"].to_pylist(), outputs["fate"].to_pylist()
        (['lima', 'oslo', 'oslo'], ['applied', 'applied', 'missing'])
    """

    def __init__(
        self,
        filter: Filter,
        seed: int = 0,
        rules: Rules = Rules(),
        groups: int = 128,
        forecasts: bool = False,
        population: Population | None = None,
    ):
        self.groups = whole_number(groups, "groups", 1, "The call is StateTable(filter, groups=128).")
        self.filter, self.seed, self.rules = filter, seed, rules
        example, real = filter.engine.as_inputs(filter.model.example_inputs), jnp.result_type(float)
        if example is not None and rules.fill_gaps:
            raise DataError(
                "this model has inputs, and those of a step that never came are not known; "
                "use rules=Rules(fill_gaps=False, reorder=...)."
            )
        self._y = Flat.of(jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, real), filter.engine.shapes.y))
        self._inputs = Flat.of(example)
        self._fleet, self._population = Fleet(filter), population
        self._layout, self._key = Layout(filter), jax.random.key(seed)
        most = max(BLOCK, MOST_BYTES // self._layout.num_bytes // BLOCK * BLOCK)
        self._sizes = sorted({min(size, most) for size in SIZES})
        self._pack, self._unpack = jax.jit(jax.vmap(self._layout.pack)), jax.jit(jax.vmap(self._layout.unpack))
        self._run = jax.jit(functools.partial(self._steps, forecasts), donate_argnums=0)
        self._renew = jax.jit(self._renewal)
        text, whole, number = pa.string(), pa.int64(), pa.from_numpy_dtype(real)
        told = [] if example is None else [("inputs", self._inputs.type)]
        more = [("epoch", whole), ("at", pa.float64()), ("place", whole)]
        self.event_schema = pa.schema([("series", text), ("seq", whole), ("y", self._y.type), *told, *more])
        state = [("ledger", pa.binary()), ("state", pa.binary(self._layout.num_bytes))]
        parts = (FORMAT, filter.fingerprint, self._layout.text, str(seed), str(groups))
        self.state_schema = pa.schema(
            [("group", pa.int32()), ("series", text), ("seq", whole), ("epoch", whole), *state],
            dict(zip(CURES, parts, strict=True)),
        )
        own = columns_of(filter, forecasts)
        self._num_columns, self._outcome = len(own), own.index("outcome")
        ys = [(name, pa.float64()) for name in labels("y", filter.engine.shapes.y)]
        columns = [*ys, *((name, number) for name in own)]
        self.output_schema = pa.schema([("series", text), ("seq", whole), ("fate", text), *columns])
        self.aside_schema = pa.schema(
            [("series", text), ("seq", whole), ("epoch", whole), ("place", whole), ("fate", text), ("reason", text)]
        )

    def empty(self) -> pa.Table:
        """Return the states of no series."""
        return self.state_schema.empty_table()

    def advance(self, states: pa.Table, events: pa.Table) -> tuple[pa.Table, pa.Table, pa.Table]:
        """Process a batch of events.

        Args:
            states: States that hold the rows of all series in `events` that have one; a series without starts.
            events: Observations, in the order of arrival or with their `place` in the log.

        Returns:
            The rows of states that have changed, for `merged`; the outputs, one row a step; and the events that made
            no step, each with the reason.
        """
        found = Events.read(events, self.event_schema, self._y, self._inputs)
        states, rows, series = self._rows_of(states, found.names)
        books = Books.read(states.select(["seq", "epoch", "ledger"]).take(pa.array(rows)), series, len(found.names))
        row_of = np.full(len(found.names), -1)
        row_of[series] = rows
        steps, aside, is_changed = arrive(self.rules, books, row_of >= 0, found)
        # A block takes as long as its longest series, so series with as many steps stand together.
        order = np.flatnonzero(is_changed)
        order = order[np.argsort(np.bincount(steps.code, minlength=len(row_of))[order], kind="stable")]
        place = np.empty(len(row_of), int)
        place[order] = np.arange(len(order))
        by_place = np.lexsort((steps.seq, place[steps.code]))
        steps = Steps(*(one[by_place] for one in steps))
        names, row = found.names.take(pa.array(order)), row_of[order]
        new, numbers = self._take(states["state"], row, names, place[steps.code], steps)
        group = np.empty(len(order), np.int32)
        group[row >= 0] = states["group"].to_numpy()[row[row >= 0]]
        group[row < 0] = group_of(names.filter(pa.array(row < 0)), self.groups)
        changed = [group, names, books.sequence[order], books.epoch[order], books.column(order), new]
        outputs = [found.names.take(pa.array(steps.code)), steps.seq, pa.array(FATES).take(pa.array(steps.fate))]
        # A missing number is null.
        outputs += [pa.array(column, from_pandas=True) for part in (steps.y, numbers) for column in part.T]
        event, *why = zip(*aside, strict=True) if aside else ((), (), ())
        events = found.table.select(self.aside_schema.names[:4]).take(pa.array(event, pa.int64()))
        return (
            pa.table(changed, schema=self.state_schema),
            pa.table(outputs, schema=self.output_schema),
            pa.table([*events.columns, *why], schema=self.aside_schema),
        )

    def predict(
        self, states: pa.Table, horizon: int, inputs: Any = None, num_draws: int = 256, levels: Sequence[float] = LEVELS
    ) -> pa.Table:
        """Forecast the next observations of every series; the same states give the same numbers.

        Args:
            states: States of this table.
            horizon: Number of steps ahead.
            inputs: Covariates of these steps, with leading axes (series, horizon); None if the model has none.
            num_draws: Number of draws for each series, each of its own theta and state.
            levels: Levels of the quantiles, between 0 and 1.

        Returns:
            A row for each series and step: the number that the step will have, and mean, sd and quantiles (`q5`) of
            its observation.
        """
        states, inputs = self.require_own(states), self.filter.engine.as_inputs(inputs)
        names = states["series"].to_pylist()
        labels_of = lambda part: labels(part, self.filter.engine.shapes.y)
        columns = [*labels_of("mean"), *labels_of("sd")]
        columns += [label for level in levels for label in labels_of(f"q{100 * level:g}".replace(".", "_"))]
        parts = [np.empty((0, len(columns)), jnp.result_type(float))]
        for call in self._calls(len(names)):
            some = names[call]
            rows = gathered(states["state"], np.arange(call.start, call.start + len(some)), self._size(len(some)))
            state = FleetState(self._unpack(rows), rows_of(tuple(some)), self._key)
            told = jax.tree.map(lambda leaf, call=call: leaf[call], inputs)
            found = self._fleet.predict(state, horizon, inputs=told, num_draws=num_draws, levels=levels)
            stacked = jax.tree.map(lambda *each: np.stack([*each[:2], *each[2]]), found.mean, found.sd, found.quantiles)
            leaves = [leaf.reshape(2 + len(levels), len(some) * horizon, -1) for leaf in jax.tree.leaves(stacked)]
            parts.append(np.hstack([*np.concatenate(leaves, axis=2)]))
        which, ahead = np.repeat(np.arange(len(names)), horizon), np.tile(np.arange(1, horizon + 1), len(names))
        series, seq = states["series"].take(pa.array(which)), states["seq"].to_numpy()[which] + ahead
        return pa.table([series, seq, ahead, *np.concatenate(parts).T], names=["series", "seq", "ahead", *columns])

    def migrate(self, states: pa.Table, new: StateTable, how: Function = posterior_as_prior) -> pa.Table:
        """Return the states of another table, for another model or filter, at the same places in the log.

        Args:
            states: States of this table.
            new: The other table.
            how: Makes the new state of a `Series`, or returns None to start it from the new prior.
        """
        states, parts = self.require_own(states), [np.zeros((0, new._layout.num_bytes // 4), np.uint32)]
        shape_of = lambda tree: jax.eval_shape(lambda: jax.tree.map(jnp.asarray, tree))
        for place, (name, seq) in enumerate(zip(states["series"].to_pylist(), states["seq"].to_pylist(), strict=True)):
            before = jax.tree.map(lambda leaf: leaf[0], self._unpack(gathered(states["state"], np.array([place]), 1)))
            state = how(Series(name, seq, self.filter, before, new.filter, keys_for(new._key, (name,))[0]))
            if state is not None and shape_of(state) != new._layout.shapes:
                raise DataError(
                    f"the function made no state of the new filter for {name!r}. Return what series.new_filter.init "
                    "returns, or series.start with other values."
                )
            packed = None if state is None else new._pack(jax.tree.map(lambda leaf: jnp.asarray(leaf)[None], state))
            parts.append(new.started([name]) if packed is None else np.asarray(packed))
        columns = [group_of(states["series"], new.groups), *states.columns[1:-1], column_of(np.concatenate(parts))]
        return pa.table(columns, schema=new.state_schema)

    def started(self, names: Sequence[str]) -> UInt32[np.ndarray, "series word"]:
        """Return the states of new series as rows of words; they depend on the seed and the names alone."""
        example, parts = self.filter.model.example_inputs, []
        for some in self._calls(len(names)):
            ids, room = names[some], self._size(len(names[some]))
            inputs = jax.tree.map(lambda leaf, ids=ids: np.stack([leaf] * len(ids)), example)
            state = self._fleet.init(self._key, ids, inputs=inputs, room=room, prior=self._population)
            parts.append(np.asarray(self._pack(state.series))[: len(ids)])
        return np.concatenate(parts)

    def require_own(self, states: pa.Table) -> pa.Table:
        """Return a table of states with the types of this one, or refuse it."""
        said = {key.decode(): value.decode() for key, value in (states.schema.metadata or {}).items()}
        for name, cure in CURES.items():
            wanted = self.state_schema.metadata[name.encode()].decode()
            if name not in said:
                raise StoreError(
                    f"the table of states does not say its {name}: an engine has dropped the metadata of its schema. "
                    "If the states are this table's, use states.replace_schema_metadata(table.state_schema.metadata)."
                )
            if said[name] != wanted:
                what = f"{name} {said[name][:200]} there, {wanted[:200]} here"
                what = first_difference(said[name], wanted) if name == "fingerprint" else what
                if what is not None:
                    raise StoreError(f"these states belong to another table: {what}. {cure}")
        schema = self.state_schema
        return states if states.schema.equals(schema) else states.select(schema.names).cast(schema)

    def _rows_of(self, states: pa.Table, names: pa.Array) -> tuple[pa.Table, np.ndarray, np.ndarray]:
        """Return the states, in which rows some series stand, and which of the names each of the rows belongs to."""
        states = self.require_own(states)
        found = pc.index_in(states["series"], value_set=names)
        series = found.drop_null().to_numpy().astype(int)
        if len(np.unique(series)) < len(series):
            twice = names[int(np.argmax(np.bincount(series)))]
            raise StoreError(
                f"the states have two rows of series {twice}. Use merged(states, changed) to replace rows."
            )
        return states, np.flatnonzero(found.is_valid().to_numpy()), series

    def _take(
        self, known: pa.ChunkedArray, row_of: np.ndarray, names: pa.Array, place: np.ndarray, steps: Steps
    ) -> tuple[pa.ChunkedArray, np.ndarray]:
        """Take steps, a compiled call at a time; return the states of the series, and the numbers of the steps.

        Args:
            known: States.
            row_of: Which of them is that of each series; negative for a new one.
            names: The series.
            place: The place of each step's series among them, in order.
            steps: Observations and inputs.
        """
        parts, numbers = [], [np.empty((0, self._num_columns), jnp.result_type(float))]
        for call in self._calls(len(names)):
            some = row_of[call]
            rows, new = gathered(known, some, self._size(len(some))), np.flatnonzero(some < 0)
            if len(new):
                rows[new] = self.started(names[call].take(pa.array(new)).to_pylist())
            own = slice(*np.searchsorted(place, (call.start, call.stop)))
            rows, found = self._call(rows, place[own] - call.start, steps.y[own], steps.inputs[own])
            parts.append(column_of(np.asarray(rows)[: len(some)]))
            numbers.append(found)
        return pa.chunked_array(parts, pa.binary(self._layout.num_bytes)), np.concatenate(numbers)

    def _call(self, rows: Any, row: np.ndarray, ys: np.ndarray, inputs: np.ndarray) -> tuple[Any, np.ndarray]:
        """Take steps of few enough series, a window of turns at a time."""
        turn, count = count_before(row), np.bincount(row, minlength=len(rows))
        numbers = np.empty((len(row), self._num_columns), jnp.result_type(float))
        for start in range(0, int(np.max(count)), WINDOW):
            here = np.flatnonzero((turn >= start) & (turn < start + WINDOW))
            where, given = (row[here], turn[here] - start), []
            for vectors in (ys, inputs):
                given.append(np.zeros((len(rows), WINDOW, vectors.shape[1]), numbers.dtype))
                given[-1][where] = vectors[here]
            lengths, renewed = np.clip(count - start, 0, WINDOW).astype(np.int32), []
            advance = lambda rows, starts, given=given, lengths=lengths: self._run(rows, *given, starts, lengths)
            renew = functools.partial(self._renewed, renewed) if self.filter.engine.renews else None
            rows, found = blocks.through(advance, renew, rows, lengths)
            found = np.array(found)
            for own, times, state_columns, flags in renewed:
                found[own, times, : state_columns.shape[1]] = state_columns
                found[own, times, self._outcome] = found[own, times, self._outcome].astype(int) | flags
            numbers[here] = found[where]
        return rows, numbers

    def _renewed(self, renewed: list[Any], rows: Any, due: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Renew the states of some rows, and note what is then to be said of their last steps."""
        rows = np.array(rows)
        for first in range(0, len(due), BLOCK):
            own = due[first : first + BLOCK]
            some = np.pad(rows[own], [(0, BLOCK - len(own)), (0, 0)])
            found = self._renew(some, len(own))
            rows[own], *told = (np.asarray(leaf)[: len(own)] for leaf in found)
            renewed.append((own, times[first : first + BLOCK], *told))
        return rows

    def _calls(self, count: int) -> list[slice]:
        """Share out so many series among compiled calls."""
        return [slice(first, first + self._sizes[-1]) for first in range(0, count, self._sizes[-1])]

    def _size(self, count: int) -> int:
        return next(size for size in self._sizes if size >= count)

    def _steps(self, forecasts: bool, rows: Any, ys: Any, told: Any, *when: Any) -> Any:
        """Take the steps of some series, whose observations and inputs are vectors; inside a trace."""
        describe = functools.partial(numbers_of, self.filter.engine, forecasts)
        ys, told = (jax.vmap(jax.vmap(flat.tree))(one) for flat, one in ((self._y, ys), (self._inputs, told)))
        form = {"pack": self._layout.pack, "unpack": self._layout.unpack}
        return blocks.advance(self.filter.engine, describe, rows, ys, told, *when, **form)

    def _renewal(self, rows: Any, count: Any) -> Any:
        """Renew the first rows; return their new columns and the flags that this raised too; inside a trace."""
        states, flags = blocks.renew(self.filter.engine, jax.vmap(self._layout.unpack)(rows), count)
        columns = jax.vmap(functools.partial(state_numbers, self.filter.engine))(states)
        return jax.vmap(self._layout.pack)(states), columns, flags

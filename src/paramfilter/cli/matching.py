"""Which columns hold what the model observes and what it reads: as told, or by the model's own names and shapes."""

from __future__ import annotations

import decimal
import reprlib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

import jax
import numpy as np

from paramfilter.cli.rows import Row
from paramfilter.data import Observations, observations_from_table
from paramfilter.errors import DataError
from paramfilter.inspect.probe import probe
from paramfilter.model import StateSpaceModel
from paramfilter.results.tree import named

LARGEST = sys.float_info.max


class Matching:
    """Turns rows into observations of a model."""

    def __init__(
        self,
        model: StateSpaceModel,
        names: Iterable[str],
        y: Sequence[str] = (),
        inputs: Sequence[str] = (),
        time: str | None = None,
    ):
        """Match columns to a model.

        Args:
            model: The model.
            names: The columns there are.
            y: Columns of the observation, in the order of its components; empty for all that are left.
            inputs: Columns of the inputs, `column` or `name=column`; empty for columns named like the model's inputs.
            time: The column of times.
        """
        names = list(names)
        given = {name: column or name for name, _, column in (one.partition("=") for one in inputs)}
        self.inputs = _fill(model.example_inputs, "input", list(given.values()), given, names)
        used = {time, *jax.tree.leaves(self.inputs)}
        if unknown := [name for name in (*y, time) if name not in (*names, None)]:
            raise DataError(f'the data have no column "{unknown[0]}"; they have {names}.')
        left = list(y) or [name for name in names if name not in used]
        self.y = _fill(probe(model).y, "observation", left, {}, names)
        self.time = time
        self.numbers = jax.tree.leaves((self.y, self.inputs))

    def observations(self, rows: Iterable[Row], has_times: bool = True) -> Observations:
        """Return the observations of rows; a value that a row leaves out is missing."""
        rows, time = list(rows), self.time if has_times else None
        columns = {name: [row.get(name) for row in rows] for name in (*self.numbers, time) if name is not None}
        return observations_from_table(columns, self.y, self.inputs, time)

    def checked(self, row: Row) -> Row:
        """Return a row, or refuse it if it holds anything else where the model needs a number."""
        for name in self.numbers:
            value = row.get(name)
            if not isinstance(value, int | float | decimal.Decimal | None) or abs(value or 0) > LARGEST:
                raise DataError(f'column "{name}" holds {reprlib.repr(value)} instead of a finite number.')
        return row


def _fill(template: Any, what: str, listed: list[str], given: dict[str, str], names: list[str]) -> Any:
    """Return a tree like the template with the names of columns in place of numbers."""
    if template is None:
        return None
    leaves = named(template, what)
    if len(leaves) > 1 or what not in leaves:  # named parts: each has its column, or columns
        columns = {part: given.get(part, part) for part in leaves}
        missing = [column for column in columns.values() if column not in names]
        if missing:
            raise DataError(f'the model has an {what} "{missing[0]}", and the data have no such column: {names}.')
        return jax.tree.unflatten(jax.tree.structure(template), list(columns.values()))
    wanted = int(np.prod(np.shape(leaves[what])))
    if len(listed) != wanted:
        option = "--y" if what == "observation" else "--inputs"
        raise DataError(
            f"the model's {what} has {wanted} component{'s' * (wanted != 1)}, so name {wanted} column"
            f"{'s' * (wanted != 1)} with {option}; the data have {names}, and {listed or 'none'} would be taken."
        )
    return listed[0] if np.shape(leaves[what]) == () else listed

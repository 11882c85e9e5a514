"""Rows of data from a file or a pipe, one at a time: CSV, JSON lines or Parquet.

A CSV file may have a heading; if its first line is all numbers, the columns are called y, or y1, y2, ... Empty cells,
`NA`, `NaN` and `null` are missing values. A line of JSON is an object, a number or a list of numbers.

>>> list(rows_of_lines(["a,b", "1,2", ",x"]))
[{'a': 1.0, 'b': 2.0}, {'a': nan, 'b': 'x'}]
>>> list(rows_of_lines(["0.5", "NA"]))
[{'y': 0.5}, {'y': nan}]
>>> list(rows_of_lines(['{"a": 1.5, "b": null}']))
[{'a': 1.5, 'b': nan}]
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from paramfilter.errors import DataError
from paramfilter.extras import extra

Row = dict[str, Any]

STANDARD_INPUT = "-"
MISSING = frozenset({"", "na", "nan", "null", "none"})


def rows_of(source: str) -> Iterator[Row]:
    """Return the rows of a file, or of standard input as they arrive."""
    if source == STANDARD_INPUT:
        yield from rows_of_lines(sys.stdin)
        return
    path = Path(source)
    if not path.is_file():
        raise DataError(f"there is no file {source}; use - for standard input.")
    if path.suffix == ".parquet":
        yield from extra("pyarrow.parquet", "tables").read_table(path).to_pylist()
        return
    with path.open(newline="") as lines:
        yield from rows_of_lines(lines)


def columns_of_rows(rows: Iterable[Row]) -> dict[str, list[Any]]:
    """Turn rows into columns; a value that a row leaves out is missing."""
    rows = list(rows)
    if not rows:
        raise DataError("there are no data: the source holds no row.")
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name, math.nan) for row in rows] for name in names}


def rows_of_lines(lines: Iterable[str]) -> Iterator[Row]:
    """Return the rows of lines of CSV or JSON; the first line tells which."""
    lines = (line for line in lines if line.strip())
    first = next(iter(lines), None)
    if first is None:
        return
    lines = itertools.chain([first], lines)
    yield from _of_json(lines) if first.lstrip()[0] in "{[" else _of_csv(lines, first)


def _of_json(lines: Iterable[str]) -> Iterator[Row]:
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"line {number} is not JSON ({error}); one object or list a line.") from None
        found = dict(zip(_names(len(found)), found, strict=True)) if isinstance(found, list) else found
        found = found if isinstance(found, dict) else {"y": found}
        yield {name: math.nan if value is None else value for name, value in found.items()}


def _of_csv(lines: Iterable[str], first: str) -> Iterator[Row]:
    separator = next((mark for mark in "\t;," if mark in first), ",")
    cells = next(csv.reader([first], delimiter=separator))
    is_heading = any(isinstance(_value(cell), str) for cell in cells)
    rows = csv.reader(lines, delimiter=separator)
    names = [name.strip() for name in next(rows)] if is_heading else _names(len(cells))
    for number, row in enumerate(rows, 2 if is_heading else 1):
        if len(row) != len(names):
            raise DataError(f"line {number} has {len(row)} cells and should have {len(names)}: {', '.join(names)}.")
        yield {name: _value(cell) for name, cell in zip(names, row, strict=True)}


def _names(num: int) -> list[str]:
    return ["y"] if num == 1 else [f"y{index}" for index in range(1, num + 1)]


def _value(cell: str) -> float | str:
    cell = cell.strip()
    if cell.lower() in MISSING:
        return math.nan
    try:
        return float(cell)
    except ValueError:
        return cell

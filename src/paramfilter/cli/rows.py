"""Rows of data from a file or a pipe: CSV, JSON lines or Parquet.

A CSV file may have a heading; if its first line is all numbers, the columns are called y, or y1, y2, ... Empty cells,
`NA`, `NaN` and `null` are missing values. A line of JSON is an object.

One line is one row, so a quoted cell cannot hold a line break, and a torn line cannot spoil the next one. `skip` is
called with the number of each line that cannot be read, and with the reason. A blank line is

- a missing value in a CSV of one column;
- a line with too few cells in a CSV of several columns, so it is skipped;
- no row before a heading and between lines of JSON.

>>> names, rows = read_lines([b"a,b", b"1,2", b"", b",x"], skip=print)
>>> names, list(rows)
3 the number of cells is 1 instead of 2.
(['a', 'b'], [(2, {'a': 1.0, 'b': 2.0}), (4, {'a': nan, 'b': 'x'})])
>>> list(read_lines([b"0.5", b"", b"NA"], skip=print)[1])
[(1, {'y': 0.5}), (2, {'y': nan}), (3, {'y': nan})]
>>> list(read_lines([b'{"a": 1.5, "b": null}'], skip=print)[1])
[(1, {'a': 1.5, 'b': None})]
"""

from __future__ import annotations

import csv
import itertools
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from paramfilter.errors import DataError, extra

Row = dict[str, Any]
Rows = Iterator[tuple[int, Row]]
"""Rows with the numbers of their lines, counted from one."""
Skip = Callable[[int, Exception], None]

STANDARD_INPUT = "-"
ENCODING = "utf-8-sig"
"""UTF-8, after a byte-order mark or not."""
MISSING = frozenset({"", "na", "nan", "null", "none"})
UNREADABLE = (ValueError, csv.Error, RecursionError)


def read(source: str, skip: Skip) -> tuple[list[str], Rows]:
    """Return the columns of a file or of standard input, and its rows as they arrive."""
    if source == STANDARD_INPUT:
        return read_lines(sys.stdin.buffer, skip)
    path = Path(source)
    if not path.is_file():
        raise DataError(f"there is no file {source}; use - for standard input.")
    if path.suffix != ".parquet":
        return read_lines(_lines_of(path), skip)
    try:
        table = extra("pyarrow.parquet", "tables").read_table(path)
    except (OSError, ValueError) as error:  # pyarrow raises these and their subclasses
        raise DataError(f"{path} is not a Parquet file that can be read ({error}). Write it again.") from error
    return table.column_names, enumerate(table.to_pylist(), 1)


def read_lines(lines: Iterable[bytes], skip: Skip) -> tuple[list[str], Rows]:
    """Return columns and rows of lines of CSV or JSON; the first line that is not blank shows which."""
    head, numbered = [], enumerate(lines, 1)
    for number, line in numbered:
        head.append((number, line))
        if line.strip():
            break
    else:
        raise DataError("there are no data: the source holds no row.")
    try:
        first = line.decode(ENCODING)
        if first.lstrip().startswith("{"):
            return _read_json(itertools.chain(head, numbered), skip)
        separator = next((mark for mark in "\t;," if mark in first), ",")
        cells = _cells(first, separator)
        is_heading = any(isinstance(_value(cell), str) for cell in cells)
        names = [cell.strip() for cell in cells] if is_heading else _names(len(cells))
        for name, count in Counter(names).most_common(1):
            if count > 1:
                raise DataError(f'there are {count} columns "{name}"; give each column its own name.')
    except UNREADABLE as error:
        raise DataError(f"line {number}: {error}") from None
    parse = lambda line: _row(names, [_value(cell) for cell in _cells(line.decode(ENCODING), separator)])
    return names, each(numbered if is_heading else itertools.chain(head, numbered), parse, skip)


def _read_json(numbered: Iterable[tuple[int, bytes]], skip: Skip) -> tuple[list[str], Rows]:
    def parse(line: bytes) -> Row:
        found = json.loads(line.decode(ENCODING))
        if not isinstance(found, dict):
            raise DataError("it is not an object; write the name of each number beside it.")
        return found

    rows = each(((number, line) for number, line in numbered if line.strip()), parse, skip)
    first = next(rows, None)
    return ([], rows) if first is None else (list(first[1]), itertools.chain([first], rows))


def each(numbered: Iterable[tuple[int, Any]], parse: Callable[[Any], Row], skip: Skip) -> Rows:
    """Parse each item, and skip those that `parse` refuses."""
    for number, given in numbered:
        try:
            found = parse(given)
        except UNREADABLE as error:
            skip(number, error)
        else:
            yield number, found


def _row(names: Sequence[str], cells: Sequence[Any]) -> Row:
    if len(cells) != len(names):
        raise DataError(f"the number of cells is {len(cells)} instead of {len(names)}.")
    return dict(zip(names, cells, strict=True))


def _cells(line: str, separator: str) -> list[str]:
    return next(csv.reader([line], delimiter=separator, strict=True)) or [""]


def _value(cell: str) -> float | str:
    """Return the number in a cell, NaN if it is missing, or its text: Python alone reads 1_000 or Arabic digits."""
    cell = cell.strip()
    if cell.lower() in MISSING:
        return math.nan
    try:
        return float(cell) if cell.isascii() and "_" not in cell else cell
    except ValueError:
        return cell


def _names(num: int) -> list[str]:
    return ["y"] if num == 1 else [f"y{index}" for index in range(1, num + 1)]


def _lines_of(path: Path) -> Iterator[bytes]:
    with path.open("rb") as lines:
        yield from lines

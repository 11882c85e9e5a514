"""What was measured of the default filter on all cases, for pages and tests."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import numpy as np

from benchmarks.truth.__main__ import LARGE_ERROR, OF_THE_MODEL, SMALL_ERROR
from benchmarks.truth.cases import CASES
from benchmarks.truth.references import RESULTS

LABELS = ("auto_filter", "node_filter")
"""Files of runs, the first preferred; where `auto_filter` selects a node filter, the two are the same filter."""

Row = dict[str, Any]


def runs() -> dict[str, list[Row]]:
    """Return the runs of each case; none of a case that was not measured."""
    rows = {label: json.loads((RESULTS / f"{label}.json").read_text())["rows"] for label in LABELS}
    of_case = lambda label, name: [row for row in rows[label] if row["problem"] == name]
    return {name: next(filter(None, (of_case(label, name) for label in LABELS)), []) for name in CASES}


def rms(rows: Iterable[Row]) -> float:
    """Return the root mean square error over runs and parameters."""
    return float(np.sqrt(np.mean(np.square([error for row in rows for error in row["errors"]]))))


def largest(row: Row) -> float:
    """Return the error of the worst parameter of a run."""
    return float(np.max(np.abs(row["errors"])))


def is_flagged(row: Row) -> bool:
    """Tell whether `diagnose` found something about the approximation."""
    return bool(set(row["findings"] or ()) - OF_THE_MODEL)


def with_small_errors(rows: Iterable[Row]) -> list[Row]:
    """Return the runs in which no parameter is off by more than a tenth of an sd."""
    return [row for row in rows if largest(row) <= SMALL_ERROR]


def with_large_errors(rows: Iterable[Row]) -> list[Row]:
    """Return the runs in which a parameter is off by more than a quarter of an sd."""
    return [row for row in rows if largest(row) > LARGE_ERROR]

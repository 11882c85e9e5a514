"""Tables of results, kept as JSON in `results/`: written whole, or row by row."""

from __future__ import annotations

import fcntl
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"


def stored(path: Path) -> Any:
    """Return what a file of results holds, which is read once for each time that it was changed."""
    return _read(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _read(path: Path, changed: int) -> Any:
    return json.loads(path.read_text())


def rows_of(name: str) -> list[dict]:
    """Return the rows of a table; none if there is no such table."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["rows"] if path.exists() else []


def put_row(name: str, heading: dict, row: dict, identity: tuple[str, ...]) -> None:
    """Put a row into a table, in place of an older one."""
    with (RESULTS / f".{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two processes may share the models between them
        rows = [old for old in rows_of(name) if any(old[key] != row[key] for key in identity)]
        write_table(name, heading | {"rows": [*rows, row]})


def _plain(value):
    """Write what is not finite as a word: JSON has no infinity."""
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    return str(value) if isinstance(value, float) and not np.isfinite(value) else value


def write_table(name: str, content: dict) -> None:
    """Write a table anew."""
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(_plain(content), indent=1) + "\n")

"""Numbers on their way to a file: six digits, lists on one line, and what is not a number as a word."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np

Results = dict[str, Any]
"""What a figure is drawn from: names, numbers and lists of them."""

DIGITS = 6


def plain(values: Any) -> Any:
    """Turn arrays, NumPy numbers and containers of them into what JSON knows.

    >>> plain({"a": np.array([0.123456789, np.inf])})
    {'a': [0.123457, inf]}
    """
    if isinstance(values, dict):
        return {str(name): plain(value) for name, value in values.items()}
    if isinstance(values, (list, tuple)):
        return [plain(value) for value in values]
    if isinstance(values, (float, np.floating)):
        return float(f"{float(values):.{DIGITS}g}")
    if hasattr(values, "tolist"):
        return plain(np.asarray(values).tolist())
    return values


def write(path: Path, results: Results) -> None:
    """Write results; a file that is there was written to its end."""
    text = json.dumps(plain(results), indent=1)
    text = re.sub(r"\[[^\[\]{}]*\]", lambda found: re.sub(r"\s+", " ", found.group()), text)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_suffix(".part")
    draft.write_text(text + "\n")
    draft.replace(path)


def read(path: Path) -> Results:
    """Read what `write` wrote."""
    return json.loads(path.read_text())

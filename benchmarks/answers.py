"""What is written down about one data set, and the little arithmetic that all methods share."""

from __future__ import annotations

from typing import Any

import numpy as np

Answer = dict[str, Any]
"""What is written for one data set: `mean` and `sd` of each parameter, `standard_error_of_mean` and `split_rhat`, the
worst over the parameters, `method`, `seconds`, and what each method knows besides."""


def worst(values: dict[str, np.ndarray]) -> float:
    return float(max(np.max(value) for value in values.values()))


def lists(values: dict[str, np.ndarray]) -> dict[str, Any]:
    return {name: np.asarray(value).tolist() for name, value in values.items()}

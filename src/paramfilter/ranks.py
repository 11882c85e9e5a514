"""Ranks of what came true among what was expected: uniform, if the expectations were right."""

from __future__ import annotations

import jax
import numpy as np


def chance_of_ranks(ranks: np.ndarray, num_bins: int) -> float:
    """Return the chi-square probability that uniform ranks between 0 and 1 are as uneven as these; NaN is left out.

    >>> import numpy as np
    >>> round(chance_of_ranks(np.linspace(0.0, 1.0, 1000), 10), 3)
    1.0
    >>> chance_of_ranks(np.linspace(0.0, 0.5, 1000), 10) < 1e-100
    True
    """
    counts = np.histogram(ranks[~np.isnan(ranks)], num_bins, (0, 1))[0]
    expected = max(counts.sum(), 1) / num_bins
    statistic = np.sum((counts - expected) ** 2) / expected
    return float(jax.scipy.special.gammaincc((num_bins - 1) / 2, statistic / 2))

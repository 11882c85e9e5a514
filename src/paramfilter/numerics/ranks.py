"""Ranks of values among draws: uniform if value and draws come from the same distribution.

A value has one of `num_ranks` = M + 1 ranks among M draws. They are kept as numbers between 0 and 1: rank k, counted
from 0, lies between k / (M + 1) and (k + 1) / (M + 1).
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaincc


def count_ranks(ranks: np.ndarray, num_ranks: int, num_bins: int) -> tuple[np.ndarray, np.ndarray]:
    """Return how many ranks each bin holds, and how many uniform ranks it would hold on average; NaN is left out.

    Bins hold whole ranks: where `num_ranks` is no multiple of `num_bins`, some hold one more than others and expect
    more. So shares k / M of draws below a value are counted right as well, in float32 too.

    >>> counts, expected = count_ranks(np.arange(101, dtype=np.float32) * np.float32(0.01), 101, 10)
    >>> counts.tolist(), expected.tolist()
    ([11, 10, 10, 10, 10, 10, 10, 10, 10, 10], [11.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0, 10.0])
    """
    seen = np.asarray(ranks, float)[~np.isnan(ranks)]
    whole = np.clip(np.floor(seen * num_ranks), 0, num_ranks - 1).astype(int)
    bin_of_rank = np.arange(num_ranks) * num_bins // num_ranks
    counts = np.bincount(bin_of_rank[whole], minlength=num_bins)
    return counts, np.bincount(bin_of_rank, minlength=num_bins) * (len(seen) / num_ranks)


def uniformity_p_value(ranks: np.ndarray, num_ranks: int, num_bins: int) -> float:
    """Return the chi-square probability that uniform ranks are as uneven as these; NaN is left out.

    >>> uniformity_p_value(np.linspace(0.0, 1.0, 1010), 101, 10) > 0.99
    True
    >>> uniformity_p_value(np.linspace(0.0, 0.5, 1010), 101, 10) < 1e-100
    True
    """
    counts, expected = count_ranks(ranks, num_ranks, num_bins)
    statistic = np.sum((counts - expected) ** 2 / np.maximum(expected, np.finfo(float).tiny))
    return float(gammaincc((num_bins - 1) / 2, statistic / 2))

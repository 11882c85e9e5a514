"""Theorems 2 and 3 of the paper, by numbers; the full table is `python -m experiments.theorems`."""

import pytest
from experiments.theorems import DENSITY_LIMITS, MEAN_LIMITS, density_divergence, gibbs_divergences


@pytest.mark.parametrize("order", DENSITY_LIMITS)
def test_taylor_density_converges_as_in_theorem_2(order):
    assert density_divergence(order) <= DENSITY_LIMITS[order]


def test_taylor_of_mean_converges_as_in_theorem_3():
    divergences = gibbs_divergences(list(MEAN_LIMITS), num_data_sets=2)
    for order, limit in MEAN_LIMITS.items():
        assert max(divergences[order]) <= limit

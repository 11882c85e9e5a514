"""Random actions and faults leave in the store what a plain account of the log says."""

import pytest
from tests.support.streams.actions import simulate


@pytest.mark.parametrize("seed", range(2))
def test_whatever_happens_the_store_holds_what_the_log_says(seed):
    """Two seeds here; hundreds by `python -m benchmarks.streams.actions`."""
    assert simulate(seed, 200).checks > 10

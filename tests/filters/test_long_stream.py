"""A stream left alone for long: the same time and the same bytes per step, and sums that hold."""

import pytest
from tests.support.long_stream import drift_of_statistics, time_of_late_steps


@pytest.mark.slow
def test_steps_and_states_at_a_hundred_thousand_are_as_at_the_start():
    found = time_of_late_steps(100_000, num_particles=16)
    assert found["t"] == 100_000
    assert found["bytes late"] == found["bytes early"]
    assert 0.9 < found["late / early"] < 1.1


def test_a_million_float32_updates_keep_their_digits():
    errors = drift_of_statistics(1_000_000)
    plain = errors.pop("square, plain float32 sum")
    assert max(errors.values()) < 1e-5
    assert plain > 1e-5  # what would happen without compensation

"""Drivers killed between any two writes, and drivers that wake up when another has taken over."""

import pytest
from tests.engines.faults import MISTAKES, PROTOCOLS, Disk, Trial, lives, on

pytestmark = pytest.mark.slow

LONGEST = 120
"""Calls of a driver that reach the disk: some two batches."""


def kill(folder, protocol, num_kills):
    """Kill drivers until a log is at its end, log after log; return how many logs there were, and how many differ."""
    kills = logs = differ = 0
    left = iter(lives(num_kills, LONGEST))
    while kills < num_kills:
        trial = Trial(folder / str(logs), protocol, seed=logs % 3)
        while (calls := next(left, None)) is not None and trial.is_killed(calls, turn=kills):
            kills += 1
        if calls is None:
            break
        logs += 1
        differ += not trial.is_as_undisturbed()
    return logs, differ


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_kill_between_any_two_writes_changes_nothing(tmp_path, protocol):
    logs, differ = kill(tmp_path, protocol, num_kills=100)
    assert logs > 3 and differ == 0


@pytest.mark.parametrize("mistake", MISTAKES)
def test_the_harness_sees_a_position_that_is_written_apart_from_the_states(tmp_path, mistake):
    _, differ = kill(tmp_path, mistake, num_kills=100)
    assert differ > 0


def test_each_write_of_a_batch_is_a_point_of_a_kill(tmp_path):
    """The first two batches, killed at each point: half a call further each time."""
    trial = Trial(tmp_path / "all", "checkpoint")
    disk = Disk()
    with on(disk):
        trial.driver(disk, 0).run()
    assert trial.is_as_undisturbed() and disk.used > 2 * LONGEST
    for point in range(1, 2 * LONGEST, 7):
        trial = Trial(tmp_path / str(point), "checkpoint")
        assert trial.is_killed(point / 2, 0)
        assert not trial.is_killed(float("inf"), 1)
        assert trial.is_as_undisturbed(), f"killed at call {point / 2}"


def test_a_driver_that_wakes_up_when_another_has_taken_over_changes_no_states(tmp_path):
    refused = 0
    for number, calls in enumerate(lives(12, LONGEST)):
        trial = Trial(tmp_path / str(number), "checkpoint")
        refused += trial.overtake(calls, number)
        assert trial.is_as_undisturbed()
    assert refused > 0

"""Events come in any order, and each ends in one of five ways."""

import copy
from collections import Counter

import hypothesis
import hypothesis.strategies as st
import pytest

import paramfilter as pf
from paramfilter.tables.ordering import Event, Fate, Ledger, Rules


def taken(rules: Rules, sequences):
    """Return the steps taken (negative if without an event), and the fates of events that took none."""
    ledger, steps, fates = Ledger(), [], []
    for number in sequences:
        arrival = rules.arrive(ledger, Event(number, [0.0]))
        steps += [step.sequence if step.event else -step.sequence for step in arrival.steps]
        fates.append(arrival.fate)
    return steps, [fate for fate in fates if fate], ledger


def test_without_a_buffer_a_gap_is_filled_at_once_and_what_comes_then_is_late():
    steps, fates, _ = taken(Rules(), [1, 4, 2, 4, 5])
    assert steps == [1, -2, -3, 4, 5] and fates == [Fate.LATE, Fate.DUPLICATE]


def test_a_buffer_puts_events_in_order():
    steps, fates, _ = taken(Rules(reorder=2), [3, 2, 1, 5, 4, 6])
    assert steps == [1, 2, 3, 4, 5, 6] and not fates


def test_a_full_buffer_gives_up_on_the_first_gap_only():
    steps, fates, ledger = taken(Rules(reorder=2), [2, 4, 6])
    assert steps == [-1, 2] and sorted(ledger.held) == [4, 6] and not fates


def test_waiting_quarantines_what_there_is_no_room_for():
    steps, fates, ledger = taken(Rules(reorder=1, fill_gaps=False), [2, 3, 1])
    assert steps == [1, 2] and fates == [Fate.QUARANTINED] and not ledger.held


def test_an_event_far_ahead_is_quarantined():
    steps, fates, ledger = taken(Rules(longest_gap=10), [1, 13, 12])
    assert fates == [Fate.QUARANTINED] and steps[-1] == 12 and ledger.sequence == 12


def test_of_what_is_too_old_to_be_remembered_late_is_said_if_it_may_be_late():
    _, fates, _ = taken(Rules(), [*range(1, 100), 1, 99])
    assert fates == [Fate.DUPLICATE, Fate.DUPLICATE]
    _, fates, _ = taken(Rules(), [1, *range(3, 100), 1, 2, 99])
    assert fates == [Fate.LATE, Fate.LATE, Fate.DUPLICATE]


def in_epochs(rules: Rules, numbered):
    """Return the steps taken (negative if without an event), and all fates, of events (epoch, number)."""
    ledger, steps, fates = Ledger(), [], []
    for epoch, number in numbered:
        arrival = rules.arrive(ledger, Event(number, [0.0], None, epoch))
        steps += [step.sequence if step.event else -step.sequence for step in arrival.steps]
        fates.append(arrival.fate)
    return steps, fates, ledger


def test_a_producer_that_begins_a_new_epoch_goes_on_where_it_was():
    steps, fates, ledger = in_epochs(Rules(), [(7, 1), (7, 2), (9, 1), (9, 1), (9, 2), (7, 3)])
    assert steps == [1, 2, 3, 4] and (ledger.epoch, ledger.base) == (9, 2)
    assert fates == [None, None, None, Fate.DUPLICATE, None, Fate.LATE]


def test_events_that_wait_come_before_those_of_a_new_epoch():
    steps, _, ledger = in_epochs(Rules(reorder=1), [(0, 1), (0, 3), (1, 1), (1, 2)])
    assert steps == [1, -2, 3, 4, 5] and not ledger.held
    steps, fates, _ = in_epochs(Rules(reorder=1, fill_gaps=False), [(0, 1), (0, 3), (1, 1), (0, 2), (1, 1)])
    assert steps == [1, 2, 3, 4] and fates[2] == Fate.QUARANTINED, "the gap could not be filled any more"


def test_an_event_that_is_put_aside_changes_nothing():
    rules = Rules(longest_gap=10)
    for ahead in (Event(50, [0.0]), Event(50, [0.0], None, 3)):
        _, _, ledger = taken(rules, [1, 3])
        before = copy.deepcopy(ledger)
        assert rules.arrive(ledger, ahead).fate == Fate.QUARANTINED and ledger == before


@hypothesis.given(st.lists(st.integers(1, 40), max_size=120), st.integers(0, 5), st.booleans())
def test_steps_go_up_by_one_and_every_event_ends_or_waits(sequences, reorder, fill_gaps):
    steps, fates, ledger = taken(Rules(reorder, fill_gaps), sequences)
    assert [abs(step) for step in steps] == list(range(1, len(steps) + 1))
    with_event = [step for step in steps if step > 0]
    assert len(with_event) + len(fates) + len(ledger.held) == len(sequences)
    assert Counter(sequences).keys() >= set(with_event) and len(ledger.held) <= reorder
    if not fill_gaps:
        assert len(with_event) == len(steps)


def test_rules_are_numbers_of_events():
    with pytest.raises(pf.errors.DataError, match="0 or more"):
        Rules(reorder=-1)

"""Key groups: series hash to a fixed number of groups, and a group is the unit that moves between partitions.

A producer sends a series to the partition that holds its group. Groups are shared out by jump consistent hashing
(Lamping and Veach, 2014, arXiv:1406.2294): another partition takes over some groups of each, and no group moves between
two partitions that were there before. So a worker that must read its partition up to the change gets nothing new.

>>> key_group("sensor-7")
102
>>> partition_number("sensor-7", 2), partition_number("sensor-7", 3)
(1, 2)
>>> [(one.before, one.after, len(one.groups)) for one in moves_between(2, 3)]
[(0, 2, 20), (1, 2, 23)]
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from paramfilter.errors import DataError

NUM_GROUPS = 128
"""Of a store and its log. It never changes, since a series would then be looked for in another partition."""


_MULTIPLIER, _MASK = 2862933555777941757, 2**64 - 1
"""Of the generator of random numbers in the paper."""


class GroupMove(NamedTuple):
    """Groups that change their partition.

    Attributes:
        before: Number of the partition that holds them now.
        after: Number of the partition that will hold them.
        groups: The groups.
    """

    before: int
    after: int
    groups: tuple[int, ...]


def key_group(series: str) -> int:
    """Return the group of a series: the CRC-32 of its name, modulo the number of groups."""
    return zlib.crc32(series.encode()) % NUM_GROUPS


def partition_number(series: str, num_partitions: int) -> int:
    """Return the number, from 0, of the partition that a producer sends a series to."""
    return _holder(key_group(series), num_partitions)


def moves_between(before: int, after: int) -> list[GroupMove]:
    """List the groups that change their partition when the number of partitions changes.

    Args:
        before: Number of partitions now.
        after: Number of partitions then.
    """
    places: dict[tuple[int, int], list[int]] = {}
    for group in range(NUM_GROUPS):
        places.setdefault((_holder(group, before), _holder(group, after)), []).append(group)
    return [GroupMove(*place, tuple(some)) for place, some in places.items() if place[0] != place[1]]


def _holder(group: int, num_partitions: int) -> int:
    if not 1 <= num_partitions <= NUM_GROUPS:
        raise DataError(f"a log has 1 to {NUM_GROUPS} partitions with key groups, got {num_partitions}.")
    key, found, proposed = group, -1, 0
    while proposed < num_partitions:
        found = proposed
        key = (key * _MULTIPLIER + 1) & _MASK
        proposed = int((found + 1) * (2**31 / ((key >> 33) + 1)))
    return found

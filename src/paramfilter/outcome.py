"""What happened in a step, as flags that travel through `jit`; `diagnostics.codes` has their meaning.

Nothing raises inside a compiled step. A step that meets trouble sets a flag in `info.outcome`, and the flag stays
set in `state.outcome`, so that a stream left alone for a year still tells what it met. Flags combine by bitwise or.
"""

from __future__ import annotations

import enum


class Outcome(enum.IntFlag):
    """Flags of a step; `0` is a step without trouble."""

    OK = 0
    OBSERVATION_NOT_FINITE = 1
    ALL_WEIGHTS_ZERO = 2
    MODEL_RETURNED_NAN = 4
    BELIEF_IMPROPER = 8
    BELIEF_INACCURATE = 16
    BELIEF_AT_WINDOW_EDGE = 32
    STATISTIC_OVERFLOW = 64
    OUTLIER_SKIPPED = 256
    NODES_TOO_FEW = 512
    SURFACE_INACCURATE = 1024

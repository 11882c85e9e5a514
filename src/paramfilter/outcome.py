"""What happened in a step: flags that travel through `jit`, and the sentences they stand for.

Nothing raises inside a compiled step. A step that meets trouble sets a flag in `info.outcome`, and the flag stays
set in `state.outcome`, so that a stream left alone for a year still tells what it met. Flags combine by bitwise or.

>>> from paramfilter.outcome import Outcome, explain
>>> explain(Outcome.OK)
'all is well'
>>> print(explain(2))
ALL_WEIGHTS_ZERO: no particle can explain the observation; the step was rolled back. Is it an outlier? Try more \
particles, a wider prior or a heavier-tailed observation.
"""

from __future__ import annotations

import enum
from typing import SupportsInt


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
    ISLAND_WEIGHTS_ZERO = 128
    OUTLIER_SKIPPED = 256
    NODES_TOO_FEW = 512
    SURFACE_INACCURATE = 1024


MESSAGES = {
    Outcome.OBSERVATION_NOT_FINITE: (
        "the observation holds +inf or -inf; it was refused and the state is as before. Use NaN for a missing value."
    ),
    Outcome.ALL_WEIGHTS_ZERO: (
        "no particle can explain the observation; the step was rolled back. Is it an outlier? "
        "Try more particles, a wider prior or a heavier-tailed observation."
    ),
    Outcome.MODEL_RETURNED_NAN: (
        "the model returned NaN for some particles; they got weight zero and are counted in info.num_nan. Bound the "
        "prior, or guard the expression inside the model. (Inside your own jit also: an observation that can only be "
        "missing as a whole was missing in part.)"
    ),
    Outcome.BELIEF_IMPROPER: (
        "a belief about theta has no finite integral (its polynomial grows without bound); draws came from a "
        "truncated window and the posterior is not to be trusted. Use TaylorOfMean, or another order."
    ),
    Outcome.BELIEF_INACCURATE: (
        "the beliefs about theta have strayed from the exact ones by more than half a nat (a Taylor series outside its "
        "radius, or too few nodes or pivots); the posterior is not to be trusted. Use Chebyshev() or "
        "CrossInterpolation() with more nodes, or a belief that is exact for the model."
    ),
    Outcome.BELIEF_AT_WINDOW_EDGE: (
        "a belief has pushed against the edge of the window in which theta is drawn: the data contradict the prior. "
        "Widen the prior, or centre it nearer to the truth."
    ),
    Outcome.STATISTIC_OVERFLOW: (
        "a datum was too large for the statistic of some particles and was left out of their beliefs. Rescale the "
        "data, lower the order, or turn 64-bit floats on (jax.config.update('jax_enable_x64', True))."
    ),
    Outcome.ISLAND_WEIGHTS_ZERO: (
        "no particle of some island can explain the observation, though others can; that island did not take it in. "
        "Use more particles, or fewer islands."
    ),
    Outcome.OUTLIER_SKIPPED: (
        "an observation lay far outside all forecasts and was taken as missing, as SkipOutliers was told to. Seldom is "
        "well; often means that the model does not hold."
    ),
    Outcome.NODES_TOO_FEW: (
        "too few nodes of theta lie where the posterior is, after many tries to place them. Use more nodes "
        "(num_nodes=...); if that does not help, some parameters can hardly be told apart: fix one of them."
    ),
    Outcome.SURFACE_INACCURATE: (
        "nodes had to be renewed after the kept observations had ended, by a surface that misses the log likelihood "
        "by too much or was used beyond its edge; the posterior may be off. Keep more observations (num_kept=...)."
    ),
}


def explain(outcome: SupportsInt) -> str:
    """Say in words what an `info.outcome` or `state.outcome` means, one line a flag."""
    flags = Outcome(int(outcome))
    lines = [f"{flag.name}: {text}" for flag, text in MESSAGES.items() if flag in flags]
    return "\n".join(lines) if lines else "all is well"

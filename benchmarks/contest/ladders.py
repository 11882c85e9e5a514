"""All ladders of the contest: ours, and the rivals' (see `rivals.ladders` for their settings).

Ours have the settings of their presets. The nested filter has as many states a value as values, so its cost grows with
the square; SMC^2 and PMMH have the rungs of the rivals that do the same.
"""

from __future__ import annotations

from benchmarks.contest.ours_program import PAPER_BELIEFS
from benchmarks.contest.rivals.ladders import LADDERS as RIVALS
from benchmarks.contest.rivals.ladders import Ladder, chains, nested, particles

MORE_AND_MORE = particles(100, 300, 1000, 3000, 10_000, 30_000, 100_000)
IN_FOURS = particles(100, 400, 1000, 4000, 10_000, 40_000, 100_000)
"""Numbers that four islands share out evenly."""

OURS = (
    Ladder("ours", "extended_parameter", IN_FOURS, evidence=True),
    Ladder("ours", "paper", MORE_AND_MORE, problems=tuple(PAPER_BELIEFS), evidence=True),
    Ladder("ours", "liu_west", MORE_AND_MORE, evidence=True),
    Ladder("ours", "sir", MORE_AND_MORE, evidence=True),
    Ladder("ours", "assumed", MORE_AND_MORE, evidence=True),
    Ladder("ours", "storvik", MORE_AND_MORE, problems=("ar1", "multispecies"), evidence=True),
    Ladder("ours", "kalman_bank", MORE_AND_MORE, problems=("ar1", "tracking", "multispecies"), evidence=True),
    Ladder("ours", "particle_bank", particles(30, 100, 300, 1000, 3000), evidence=True),
    Ladder("ours", "nested", particles(30, 100, 200, 300, 600), evidence=True),
    Ladder("ours", "smc2", nested((30, 30), (100, 30), (100, 100), (100, 300), (300, 300), (300, 1000)), evidence=True),
    Ladder("ours", "pmmh", chains((100, 300), (300, 300), (300, 1000), (1000, 1000), (1000, 3000), (3000, 3000))),
)

LADDERS = (*OURS, *RIVALS)

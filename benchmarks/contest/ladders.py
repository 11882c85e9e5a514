"""All ladders of the contest: ours, and the rivals' (see `rivals.ladders` for their settings).

Ours have the settings of their presets. The nested filter has as many states a value as values, so its cost grows with
the square; SMC^2 and PMMH have the rungs of the rivals that do the same.
"""

from __future__ import annotations

from benchmarks.contest.ours_program import PAPER_BELIEFS
from benchmarks.contest.rivals.ladders import LADDERS as RIVALS
from benchmarks.contest.rivals.ladders import Ladder, chains, nested, particles
from benchmarks.problems import CONTEST

MORE_AND_MORE = particles(100, 300, 1000, 3000, 10_000, 30_000, 100_000)
IN_FOURS = particles(100, 400, 1000, 4000, 10_000, 40_000, 100_000)
"""Numbers that four islands share out evenly."""

HAVE_NODES = tuple(name for name in CONTEST if name not in ("cauchy_ar1", "multispecies"))
"""Problems whose states have a filter without random numbers given theta; one of ten parameters needs many nodes."""

OURS = (
    Ladder("ours", "extended_parameter", IN_FOURS, evidence=True),
    Ladder("ours", "paper", MORE_AND_MORE, problems=tuple(PAPER_BELIEFS), evidence=True),
    Ladder("ours", "liu_west", MORE_AND_MORE, evidence=True),
    Ladder("ours", "sir", MORE_AND_MORE, evidence=True),
    Ladder("ours", "assumed", MORE_AND_MORE, evidence=True),
    Ladder("ours", "storvik", MORE_AND_MORE, problems=("ar1", "multispecies"), evidence=True),
    Ladder("ours", "node", particles(32, 64, 128, 256, 512, 1024, 2048), problems=HAVE_NODES, evidence=True),
    Ladder("ours", "node", particles(512, 1024, 2048, 4096), problems=("multispecies",), evidence=True),
    Ladder("ours", "nested", particles(30, 100, 200, 300, 600), evidence=True),
    Ladder("ours", "smc2", nested((30, 30), (100, 30), (100, 100), (100, 300), (300, 300), (300, 1000)), evidence=True),
    Ladder("ours", "pmmh", chains((100, 300), (300, 300), (300, 1000), (1000, 1000), (1000, 3000), (3000, 3000))),
)

LADDERS = (*OURS, *RIVALS)

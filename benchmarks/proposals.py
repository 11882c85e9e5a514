"""What a proposal that sees the data, resampling when needed, and islands are worth: `python -m benchmarks.proposals`.

AR(1) with an unknown coefficient (prior N(0, 1), process noise 1), exact conjugate beliefs, against the Kalman filter
with quadrature: so all error is Monte Carlo. N = 1000, 12 runs on each of 3 data sets, errors in posterior sds. Time is
CPU time of a step, over that of the bootstrap in the same run. Results are kept in `results/proposals.json`.
"""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import paramfilter as pf
from benchmarks.stages import DATA_SETS, autoregression, judge
from paramfilter.proposals import Bootstrap, Guided, LookAhead, Proposal
from paramfilter.resampling import Resampling, Systematic, WhenEssBelow

RESULTS = Path(__file__).parent / "results" / "proposals.json"
NUM_PARTICLES = 1000
NUM_RUNS = 12
WHEN_NEEDED = WhenEssBelow(0.5, Systematic())


@dataclass(frozen=True)
class Variant:
    """Parts of a filter."""

    proposal: Proposal
    resampling: Resampling
    num_islands: int


VARIANTS = tuple(
    Variant(proposal, resampling, num_islands)
    for proposal in (Bootstrap(), Guided(), LookAhead())
    for resampling in (Systematic(), WHEN_NEEDED)
    for num_islands in ((1, 4, 20) if resampling == Systematic() else (1,))
)


def compare(noise: float, marks: tuple[int, ...]) -> list[dict]:
    """Judge all variants at some times, for one standard deviation of the observation noise."""
    on, rows = autoregression(noise, marks), []
    for variant in VARIANTS:
        parts = (variant.proposal, variant.resampling, variant.num_islands)
        filter = pf.ParticleFilter(on.model, NUM_PARTICLES, pf.beliefs.Conjugate(), *parts)
        names = {"proposal": repr(variant.proposal), "resampling": repr(variant.resampling), "observation_sd": noise}
        rows.append(names | judge(on, filter, NUM_RUNS))
        rows[-1]["time_over_bootstrap"] = round(rows[-1]["microseconds"] / rows[0]["microseconds"], 2)
        print(json.dumps(rows[-1]), flush=True)
    return rows


def main() -> None:
    noises = [float(word) for word in sys.argv[1:]] or [1.0]
    rows = [row for noise in noises for row in compare(noise, (100, 300, 1000, 3000, 10_000))]
    heading = {"particles": NUM_PARTICLES, "runs": NUM_RUNS * len(DATA_SETS), "precision": "float32"}
    RESULTS.write_text(json.dumps(heading | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

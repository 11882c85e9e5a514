"""A town that begins to report: what do the others tell about it?

The compared towns begin at one of two weeks. Their parameters have the model's own prior, the population of 160 other
towns at that week, or the population's center (pooled: one theta for all). The state begins alike, from the wide
`initial`. Beside them stand the same towns with their whole past.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from benchmarks.measles import ours
from benchmarks.measles.data import compared_towns, load
from benchmarks.tables import write_table
from paramfilter.gaussian import Gaussian

WEEKS = (260, 364)
SEEN = (5, 10, 20, 50)
NUM_JUDGED = 10
"""Weeks over which the log score is averaged, after so many were seen."""
NUM_OTHERS = 160
POOLED_SD = 0.01
"""Of each coordinate, in place of none."""


def main() -> None:
    measles = load()
    towns = compared_towns(measles)
    rest = np.setdiff1d(np.arange(len(measles.towns)), towns)
    others = rest[:: len(rest) // NUM_OTHERS][:NUM_OTHERS]
    scores: dict[str, list[np.ndarray]] = {}
    for week in WEEKS:
        state = run(ours.start(NUM_OTHERS), measles.counts[others], 0, week)[0]
        population = ours.fleet().population(state)
        size = len(population.normal.mean)
        center = Gaussian(population.normal.mean, np.float32(POOLED_SD) * np.eye(size, dtype=np.float32))
        begun = {"own prior": None, "population": population, "pooled": replace(population, normal=center)}
        new = measles.counts[towns]
        for name, prior in begun.items():
            found = run(ours.start(len(towns), prior), new, week, week + SEEN[-1] + NUM_JUDGED)[1]
            scores.setdefault(name, []).append(found)
        old = run(ours.start(len(towns)), new, 0, week + SEEN[-1] + NUM_JUDGED)[1][:, week:]
        scores.setdefault("whole past", []).append(old)
    rows = []
    base = np.stack(scores["own prior"])
    for name, found in scores.items():
        found = np.stack(found)  # week of the start, town, week
        windows = [slice(seen, seen + NUM_JUDGED) for seen in SEEN]
        gains = [(found - base)[:, :, window].mean(axis=(0, 2)) for window in windows]
        rows.append(
            {
                "prior": name,
                "log_score": [round(float(found[:, :, window].mean()), 4) for window in windows],
                "gain": [round(float(gain.mean()), 4) for gain in gains],
                "gain_se": [round(float(gain.std() / np.sqrt(len(gain))), 4) for gain in gains],
            }
        )
    write_table("measles/cold_start", {"seen": SEEN, "weeks": WEEKS, "num_towns": len(towns), "rows": rows})


def run(state, counts: np.ndarray, first: int, last: int):
    """Take in some weeks; return the state and the log scores (town, week)."""
    told = ours.seasons(last)[first:last]
    inputs = np.broadcast_to(told, (len(counts), *told.shape))
    state, scores = ours.fleet().run_scored(state, counts[:, first:last], inputs=inputs)
    return state, scores.log_score

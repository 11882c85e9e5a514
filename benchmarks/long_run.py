"""Beliefs along a path or given the present state, in the long run: `python -m benchmarks.long_run [NOISE ...]`.

AR(1) with an unknown coefficient (prior N(0, 1), process noise 1) and three levels of observation noise, exact
conjugate beliefs, the default proposal, N = 1000 in one or four islands, against the Kalman filter with quadrature:
6 runs on each of 3 data sets, errors in posterior sds. Results are kept in `results/long_run.json`.
"""

from __future__ import annotations

import itertools
import json
import sys
from pathlib import Path

import jax

import paramfilter as pf
from benchmarks.autoregression import DATA_SETS, judge, stage

RESULTS = Path(__file__).parent / "results" / "long_run.json"
NUM_PARTICLES = 1000
NUM_RUNS = 6
MARKS = (100, 300, 1000, 3000, 10_000)
NOISES = (0.3, 1.0, 3.0)


def main() -> None:
    """Judge all kinds, and write the table."""
    rows = []
    for noise in [float(word) for word in sys.argv[1:]] or NOISES:
        on = stage(noise, MARKS)
        for num_islands, num_ancestors in itertools.product((1, 4), (1, 2)):
            jax.clear_caches()
            filter = pf.ParticleFilter(
                on.model,
                NUM_PARTICLES,
                pf.beliefs.Conjugate(),
                pf.proposals.LookAhead(),
                num_islands=num_islands,
                num_ancestors=num_ancestors,
            )
            rows.append({"observation_sd": noise} | judge(on, filter, NUM_RUNS))
            print(json.dumps(rows[-1]), flush=True)
    heading = {"particles": NUM_PARTICLES, "runs": NUM_RUNS * len(DATA_SETS), "precision": "float32"}
    RESULTS.write_text(json.dumps(heading | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

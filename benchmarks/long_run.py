"""Beliefs along a path or given the present state, in the long run.

    python -m benchmarks.long_run [phi|phi_q ...] [--noise 1] [--until 10000] [--runs 6]

AR(1) with an unknown coefficient (prior N(0, 1)) and exact conjugate beliefs, or with its process variance unknown too
and `CrossInterpolation`, at several levels of observation noise; the default proposal, N = 1000 in one or four islands,
one ancestor or two, against the Kalman filter with quadrature: some runs on each of 3 data sets, errors in posterior
sds. Each row is kept in `results/long_run.json`, in the place of an earlier one of its kind.
"""

from __future__ import annotations

import argparse
import itertools
import json

import jax

import paramfilter as pf
from benchmarks.autoregression import DATA_SETS, judge, stage
from benchmarks.beliefs import put_row

NUM_PARTICLES = 1000
MARKS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
UNKNOWN = {"phi": pf.beliefs.Conjugate(), "phi_q": pf.beliefs.CrossInterpolation()}
KIND = ("unknown", "observation_sd", "islands", "ancestors", "until")


def main() -> None:
    """Judge all kinds, and write each row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("unknown", nargs="*", choices=[[], *UNKNOWN], metavar="phi|phi_q")
    parser.add_argument("--noise", type=float, nargs="*", default=(0.3, 1.0, 3.0))
    parser.add_argument("--islands", type=int, nargs="*", default=(1, 4))
    parser.add_argument("--ancestors", type=int, nargs="*", default=(1, 2))
    parser.add_argument("--until", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=6, help="on each data set")
    options = parser.parse_args()
    for unknown, noise in itertools.product(options.unknown or UNKNOWN, options.noise):
        on = stage(noise, tuple(mark for mark in MARKS if mark <= options.until), unknown == "phi_q")
        for num_islands, num_ancestors in itertools.product(options.islands, options.ancestors):
            jax.clear_caches()
            filter = pf.ParticleFilter(
                on.model,
                NUM_PARTICLES,
                UNKNOWN[unknown],
                pf.proposals.LookAhead(),
                num_islands=num_islands,
                num_ancestors=num_ancestors,
            )
            named = {"unknown": unknown, "observation_sd": noise, "until": options.until}
            row = named | {"runs": options.runs * len(DATA_SETS)} | judge(on, filter, options.runs)
            print(json.dumps(row), flush=True)
            put_row("long_run", {"particles": NUM_PARTICLES, "precision": "float32"}, row, KIND)


if __name__ == "__main__":
    main()

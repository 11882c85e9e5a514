"""From how many ancestors should a belief be mixed? `python -m benchmarks.ancestors`.

Filters with `Grid` beliefs on the contest's data sets of SIN and of the Cauchy autoregression, judged by the same
references: error of the posterior mean and ratio of sds in units of the reference's, log evidence, and CPU seconds for
the whole stream, compiling apart. One ancestor is the particle's own: a belief that follows its path.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

import numpy as np

import paramfilter as pf
from benchmarks.mixing import mixing_of
from benchmarks.on_contest_data import judged
from benchmarks.problems import CONTEST
from benchmarks.tables import put_row

KIND = ("problem", "num_particles", "num_ancestors")
"""What tells one row from another."""
NUM_KEYS = 3
"""Runs on each data set."""
VALUES = {"sin": 33, "cauchy_ar1": 129}
TRIALS = {
    "sin": ((100, 1), (100, 4), (100, 8)),
    "cauchy_ar1": ((100, 1), (100, 2), (100, 4), (100, 8), (400, 2), (400, 8), (100, 32)),
}
"""Numbers of particles and of ancestors."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Mix beliefs from several ancestors.")
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(TRIALS)}; all unless given")
    chosen = parser.parse_args(arguments)
    for name in chosen.problems or TRIALS:
        for num_particles, num_ancestors in TRIALS[name]:
            row = measure(name, num_particles, num_ancestors)
            print(json.dumps(row), flush=True)
            put_row("ancestors", {"units": "errors in posterior sds, CPU seconds a run"}, row, KIND)


def measure(name: str, num_particles: int, num_ancestors: int) -> dict:
    """Run one filter on all data sets."""
    belief = pf.beliefs.Grid(VALUES[name])
    filter = pf.extended_parameter_filter(
        CONTEST[name].model(), num_particles, belief=belief, num_islands=1, mixing=mixing_of(num_ancestors)
    )
    found = judged(name, filter, NUM_KEYS)
    return {
        "problem": name,
        "num_particles": num_particles,
        "num_ancestors": num_ancestors,
        "errors": np.round(np.ravel(found.errors), 3).tolist(),
        "rms_error": round(found.rms_error, 3),
        "sd_ratios": np.round(np.ravel(found.ratios), 3).tolist(),
        "log_evidences": np.round(found.log_evidences, 1).tolist(),
        "cpu_seconds": round(found.cpu_seconds, 2),
    }


if __name__ == "__main__":
    main()

"""When should a bank's values of theta move, and how far? `python -m benchmarks.banks [problem ...]`.

Banks of 1000 Kalman filters on the contest's data sets, with Liu and West's kernel at every step and with the same one
only after resampling, judged by the same references. Beside them, our default with 1000 particles. What they cost is
the contest's matter.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

import numpy as np

import paramfilter as pf
from benchmarks.on_contest_data import judged
from benchmarks.problems import CONTEST
from benchmarks.tables import put_row
from paramfilter.proposals import KalmanMove, with_kalman_filter
from paramfilter.resampling import Systematic, WhenEssBelow

NUM_PARTICLES, NUM_KEYS = 1000, 4
PROBLEMS = ("ar1", "tracking")
BELIEFS = (
    *(pf.beliefs.ShrinkingKernel(discount) for discount in (0.98, 0.998, 0.9998)),
    *(pf.beliefs.RenewingKernel(discount) for discount in (0.99, 0.95, 0.9, 0.85, 0.8, 0.6)),
)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare kernels for banks of Kalman filters.")
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(PROBLEMS)}; all unless given")
    chosen = parser.parse_args(arguments)
    for name in chosen.problems or PROBLEMS:
        bank = with_kalman_filter(CONTEST[name].model())
        for belief in BELIEFS:
            resampling = WhenEssBelow(0.5, Systematic())
            show(name, repr(belief), pf.ParticleFilter(bank, NUM_PARTICLES, belief, KalmanMove(), resampling))
        show(name, "the default", pf.extended_parameter_filter(CONTEST[name].model(), NUM_PARTICLES))


def show(name: str, what: str, filter: pf.ParticleFilter) -> None:
    """Measure one filter and keep the row."""
    found = judged(name, filter, NUM_KEYS)
    row = {
        "problem": name,
        "filter": what,
        "rms_error": round(found.rms_error, 3),
        "sd_ratios": np.round(np.median(found.ratios, axis=0), 2).tolist(),
        "runs": len(found.errors),
    }
    print(json.dumps(row), flush=True)
    put_row("banks", {"particles": NUM_PARTICLES, "units": "posterior sds"}, row, ("problem", "filter"))


if __name__ == "__main__":
    main()

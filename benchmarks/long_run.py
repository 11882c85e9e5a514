"""Beliefs along a path or given the present state, in the long run.

    python -m benchmarks.long_run [phi|phi_q|sin|star|cauchy_ar1|stochastic_volatility ...] [--until 10000] [--runs 6]

AR(1) with an unknown coefficient (prior N(0, 1)) and exact conjugate beliefs, or with its process variance unknown too
and `CrossInterpolation`, at several levels of observation noise; the other models with their default beliefs. The
default proposal, N = 1000 in one or four islands, one ancestor or two, against trusted answers (see `stages`): some
runs on each of 3 data sets, errors in posterior sds.
Each row is kept in `results/long_run.json`, in the place of an earlier one of its kind.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator

import jax

import paramfilter as pf
from benchmarks.mixing import mixing_of
from benchmarks.stages import DATA_SETS, Stage, autoregression, judge, long_problem
from benchmarks.tables import put_row
from paramfilter.auto import choose_belief

NUM_PARTICLES = 1000
MARKS = (100, 300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
AUTOREGRESSIONS = {"phi": pf.beliefs.Conjugate(), "phi_q": pf.beliefs.CrossInterpolation()}
OBSERVATION_SD = {"sin": 0.1, "star": 0.1, "cauchy_ar1": 10.0, "stochastic_volatility": None}
UNKNOWN = (*AUTOREGRESSIONS, *OBSERVATION_SD)
KIND = ("filter", "unknown", "observation_sd", "islands", "ancestors", "until")


def stages(
    unknown: str, noises: list[float], marks: tuple[int, ...]
) -> Iterator[tuple[float | None, Stage, pf.beliefs.Belief]]:
    """Go through the levels of noise, each with its stage and belief; most models have one level of their own."""
    if unknown in AUTOREGRESSIONS:
        for noise in noises:
            yield noise, autoregression(noise, marks, unknown == "phi_q"), AUTOREGRESSIONS[unknown]
    else:
        on = long_problem(unknown, marks)
        yield OBSERVATION_SD[unknown], on, choose_belief(on.model)[0]


def filters(
    on: Stage, unknown: str, belief: pf.beliefs.Belief, options: argparse.Namespace
) -> Iterator[tuple[str, pf.ParticleFilter]]:
    """Go through the filters that were asked for, each with the name of its kind."""
    for num_islands in options.islands:
        for num_ancestors in options.ancestors:
            loop = {"num_islands": num_islands, "mixing": mixing_of(num_ancestors)}
            yield "beliefs", pf.ParticleFilter(on.model, NUM_PARTICLES, belief, pf.proposals.LookAhead(), **loop)


def main() -> None:
    """Judge all kinds, and write each row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("unknown", nargs="*", choices=[[], *UNKNOWN], metavar="|".join(UNKNOWN))
    parser.add_argument("--noise", type=float, nargs="*", default=(0.3, 1.0, 3.0))
    parser.add_argument("--islands", type=int, nargs="*", default=(1, 4))
    parser.add_argument("--ancestors", type=int, nargs="*", default=(1, 2))
    parser.add_argument("--until", type=int, default=10_000)
    parser.add_argument("--runs", type=int, default=6, help="on each data set")
    options = parser.parse_args()
    marks = tuple(mark for mark in MARKS if mark <= options.until)
    for unknown in options.unknown or UNKNOWN:
        for noise, on, belief in stages(unknown, options.noise, marks):
            for kind, filter in filters(on, unknown, belief, options):
                jax.clear_caches()
                named = {"filter": kind, "unknown": unknown, "observation_sd": noise, "until": options.until}
                row = named | {"runs": options.runs * len(DATA_SETS)} | judge(on, filter, options.runs)
                print(json.dumps(row), flush=True)
                put_row("long_run", {"particles": NUM_PARTICLES, "precision": "float32"}, row, KIND)


if __name__ == "__main__":
    main()

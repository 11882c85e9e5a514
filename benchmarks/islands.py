"""How many islands? One, four or sixteen groups of N particles in all: `python -m benchmarks.islands [PROBLEM ...]`.

The default belief and proposal, N = 1000 (4 x 250, 16 x 62 of 992) at the end of each problem's series, t = N or N/2,
10 data sets, against trusted posteriors. For AR(1) at t = N/10, N and 10 N see `benchmarks.proposals`. Results are kept
in `results/islands.json`.
"""

from __future__ import annotations

import sys

import jax

import paramfilter as pf
from benchmarks.beliefs import filter_row
from benchmarks.problems import PROBLEMS
from benchmarks.tables import put_row

SHARES = {1: 1000, 4: 1000, 16: 992}
"""Particles in all, by the number of islands."""

DEFAULT = ("sin", "star", "stochastic_volatility", "multispecies")


def main() -> None:
    """Judge each number of islands on each problem."""
    for name in sys.argv[1:] or DEFAULT:
        problem = PROBLEMS[name]
        for num_islands, num_particles in SHARES.items():
            jax.clear_caches()
            filter = pf.extended_parameter_filter(problem.model(), num_particles, num_islands=num_islands)
            row = filter_row(problem, filter) | {"particles": num_particles}
            put_row("islands", {}, row, ("problem", "islands"))


if __name__ == "__main__":
    main()

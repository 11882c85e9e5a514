"""The contest of PROTOCOL.md.

    python -m benchmarks.contest run [problem ...] [--entries ours numpyro ...] [--algorithms nuts ...]
    python -m benchmarks.contest enter NAME       all problems by contest/entries/NAME.py
    python -m benchmarks.contest small            two problems, four entries, a tenth of the budget: is all in order?
    python -m benchmarks.contest table            what was measured

What was run is not run again; delete a row of `results/contest` to have it anew.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks.contest import rows, table
from benchmarks.contest.entry import entries
from benchmarks.contest.one_more import keep_up_all
from benchmarks.contest.run import BUDGET, contest_all
from benchmarks.problems import CONTEST

SMALL_BUDGET = 1.0
CORES = 2
"""On which problems are run side by side."""
SMALL_PROBLEMS, SMALL_ENTRIES = ("ar1", "seat_belts"), ("ours", "numpyro", "statsmodels", "dynamax")
SMALL_ALGORITHMS = ["node", "sir", "nuts", "nuts_noncentered", "maximum_likelihood", "unscented"]


def main(arguments: Sequence[str] | None = None) -> None:
    known = entries()
    parser = argparse.ArgumentParser(prog="python -m benchmarks.contest", description="The contest of PROTOCOL.md.")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run what has not been run")
    run.add_argument("problems", nargs="*", choices=[*CONTEST, []], metavar="problem", help="all unless given")
    run.add_argument("--entries", nargs="*", choices=known, default=list(known))
    run.add_argument("--algorithms", nargs="*", help="all unless given")
    run.add_argument("--budget", type=float, default=BUDGET, help="CPU seconds a run")
    run.add_argument("--workers", type=int, default=CORES, help="problems that are run side by side, one on a core")
    enter = commands.add_parser("enter", help="run one entry on all problems")
    enter.add_argument("name", choices=known)
    commands.add_parser("small", help="a short version, kept apart")
    commands.add_parser("table", help="print what was measured")
    chosen = parser.parse_args(arguments)
    if chosen.command == "table":
        print(table.report())
    elif chosen.command == "small":
        with rows.kept_apart():
            small = [CONTEST[name] for name in SMALL_PROBLEMS]
            contest_all(small, [known[name] for name in SMALL_ENTRIES], SMALL_ALGORITHMS, SMALL_BUDGET, CORES)
            print(table.report())
    elif chosen.command == "enter":
        contest_all([*CONTEST.values()], [known[chosen.name]], None, BUDGET, CORES)
        keep_up_all([*CONTEST.values()], [known[chosen.name]], None, CORES)
        print(table.standing(chosen.name))
    else:
        asked = [CONTEST[name] for name in chosen.problems or CONTEST]
        taking_part = [known[name] for name in chosen.entries]
        contest_all(asked, taking_part, chosen.algorithms, chosen.budget, chosen.workers)
        keep_up_all(asked, taking_part, chosen.algorithms, chosen.workers)


if __name__ == "__main__":
    sys.exit(main())

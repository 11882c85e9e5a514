"""What one more observation costs at t = 1000 and t = 10,000: `python -m benchmarks.contest.one_more [problem ...]`.

`sin` and `ar1`, one data set, one thread. Filters and SMC^2 go on from t: the CPU seconds from t to t + 100, over 100.
An SMC^2 moves its values now and then, by a look at all the past; so beside it stands the mean from t / 2 to t, a
stretch that is long enough for some such moves. PMMH and PMCMC begin anew: their whole run. All have the size of the
rung that the contest found good enough for them, or their first one: then the figure is what it costs at least. A run
that takes more than `MOST_SECONDS` of wall time is given up.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from benchmarks.contest import rows
from benchmarks.contest.ladders import LADDERS
from benchmarks.contest.rivals.ladders import Ladder
from benchmarks.contest.rivals.running import answer, task_of
from benchmarks.problems import CONTEST, data
from benchmarks.tables import put_row

TIMES = (1000, 10_000)
MORE = 100
MOST_SECONDS = 1800.0
IDENTITY = ("problem", "t", "library", "algorithm")
ASKED = {
    ("ours", "extended_parameter"): False,
    ("ours", "node"): False,
    ("ours", "liu_west"): False,
    ("ours", "smc2"): False,
    ("ours", "pmmh"): True,
    ("particles", "smc2"): False,
    ("particles", "pmmh"): True,
    ("smcx", "smc2"): True,  # its function takes the whole series
    ("pypomp", "pmcmc"): True,
}
"""Whether each algorithm begins anew."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure what one more observation costs.")
    parser.add_argument("problems", nargs="*", default=["sin", "ar1"])
    parser.add_argument("--algorithms", nargs="*", default=sorted({algorithm for _, algorithm in ASKED}))
    parser.add_argument("--libraries", nargs="*", default=sorted({library for library, _ in ASKED}))
    chosen = parser.parse_args(arguments)
    for problem in chosen.problems:
        long = replace(CONTEST[problem], num_steps=max(TIMES) + MORE)
        ys = np.asarray(data(long, 0)[1])
        for time in TIMES:
            for ladder in LADDERS:
                anew = ASKED.get((ladder.library, ladder.algorithm))
                is_chosen = ladder.library in chosen.libraries and ladder.algorithm in chosen.algorithms
                if anew is None or not is_chosen or not ladder.takes(problem):
                    continue
                row = {"problem": problem, "t": time, "library": ladder.library, "algorithm": ladder.algorithm}
                row |= {"size": size_of(problem, ladder), "anew": anew}
                row |= seconds_of(problem, ladder, row["size"], ys[: time + MORE], time, anew)
                put_row("one_more", {"units": "CPU seconds", "more": MORE}, row, IDENTITY)
                print(row, flush=True)


def size_of(problem: str, ladder: Ladder) -> dict[str, int]:
    """Return the cheapest size that was good enough in the contest, or the smallest one."""
    own = [
        row
        for row, verdict in rows.judged(problem)
        if verdict.reaches and (row["library"], row["algorithm"]) == (ladder.library, ladder.algorithm)
    ]
    return own[0]["size"] if own else ladder.rungs[0]


def seconds_of(problem: str, ladder: Ladder, size: dict[str, int], ys: np.ndarray, time: int, anew: bool) -> dict:
    """Return the CPU seconds of one more observation after a time, or what went wrong."""
    repeats = 1 if ladder.library == "particles" else 2  # which compiles next to nothing
    times = [time] if anew else [time // 2, time, time + MORE]
    task = task_of(problem, ys[: times[-1]], times, ladder.algorithm, size, seed=0, repeats=repeats)
    try:
        found = answer(ladder.library, task, seconds=MOST_SECONDS)
    except subprocess.TimeoutExpired:
        return {"failed": f"not done after {MOST_SECONDS:.0f} seconds of wall time"}
    except RuntimeError as failure:
        return {"failed": str(failure)[-300:]}
    *_, on_the_way, at_the_end = [0.0, *found["cpu_seconds_of_times"]]
    if anew:
        return {"cpu_seconds": at_the_end, "error": found["error"]}
    return {
        "cpu_seconds": at_the_end / MORE,
        "cpu_seconds_on_average": on_the_way / (time - time // 2),
        "error": found["error"],
    }


if __name__ == "__main__":
    main()

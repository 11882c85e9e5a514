"""How well the error of an inner filter is told: `python -m benchmarks.inner_error [problem ...]`.

The default filter runs on problems of the contest whose state it cannot integrate out exactly. For each data set: the
largest error of a posterior mean, from the reference; the estimate `posterior.shift_by_inner`; and CPU seconds
of the check, compiling included. In posterior sds.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import jax
import numpy as np

import paramfilter as pf
from benchmarks.contest import references
from benchmarks.problems import CONTEST, data, inputs_of

PROBLEMS = ("sin", "stochastic_volatility", "pound_dollar", "nutria", "fitzhugh_nagumo", "inflation")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare what is told of inner filters with their errors.")
    parser.add_argument("problems", nargs="*", default=list(PROBLEMS), metavar="problem")
    for name in parser.parse_args(arguments).problems:
        problem, known = CONTEST[name], references.load()[name]
        filter = pf.auto_filter(problem.model())
        for data_set in problem.contest_seeds:
            right = known[str(data_set)][str(problem.times[-1])]
            stream = np.asarray(data(problem, data_set)[1]), inputs_of(problem)
            posterior = filter.posterior(pf.catch_up(filter, filter.init(jax.random.key(data_set)), *stream))
            mean = posterior.mean()
            off = max(np.max(np.abs((mean[key] - right["mean"][key]) / np.asarray(right["sd"][key]))) for key in mean)
            start = time.process_time()
            shift = posterior.shift_by_inner
            seconds = time.process_time() - start
            estimate = shift.not_measured or round(float(np.max(shift.sds)), 3)
            print(f"{name} {data_set}: error {off:.3f}, estimated {estimate}, {seconds:.1f} CPU s", flush=True)


if __name__ == "__main__":
    main()

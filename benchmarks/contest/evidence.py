"""Is the log evidence right? `python -m benchmarks.contest.evidence [--libraries ours particles ...]`.

The first 100 observations of `sin` and of `ar1`, ten seeds, every algorithm that says what the evidence is, against
quadrature and against a Kalman filter for each of a million draws of the prior. An algorithm that is right says a
number whose mean, before the logarithm, is the evidence; so the logarithm of the seeds' mean is compared, with its
standard error. `SUSPICIOUS` standard errors off is wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from scipy.special import logsumexp

from benchmarks.contest.check import SUSPICIOUS, answers, exact_ar1, exact_sin
from benchmarks.problems import CONTEST, data
from benchmarks.tables import put_row

NUM_STEPS = 100
SEEDS = list(range(10))
MANY, OUTER = {"num_particles": 10_000}, {"num_theta": 300, "num_x": 300}
EXACT = {"sin": exact_sin, "ar1": exact_ar1}
SIZES: dict[tuple[str, str], dict[str, int]] = {
    ("ours", "extended_parameter"): {"num_particles": 1000},
    ("ours", "liu_west"): MANY,
    ("ours", "sir"): MANY,
    ("ours", "storvik"): MANY,
    ("ours", "node"): {"num_nodes": 512},
    ("particles", "smc2"): {"num_theta": 200, "num_x": 300},
    ("smcx", "smc2"): OUTER,
    ("smcs", "storvik"): MANY,
}
IDENTITY = ("problem", "library", "algorithm")
ONLY_FOR = {"storvik": "ar1"}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compare log evidence with quadrature.")
    parser.add_argument("--libraries", nargs="*", default=sorted({library for library, _ in SIZES}))
    chosen = parser.parse_args(arguments)
    for problem, exact in EXACT.items():
        ys = np.asarray(data(CONTEST[problem], 0)[1])[:NUM_STEPS]
        right = exact(ys)["log_evidence"]
        for (library, algorithm), size in SIZES.items():
            if library in chosen.libraries and ONLY_FOR.get(algorithm, problem) == problem:
                found = answers(library, problem, ys, algorithm, size, SEEDS)
                said = np.array([one["log_evidence"][-1] for one in found], float)
                row = {
                    "problem": problem,
                    "library": library,
                    "algorithm": algorithm,
                    "size": size,
                    **verdict(said - right),
                }
                put_row("evidence", {"observations": NUM_STEPS, "seeds": len(SEEDS)}, row, IDENTITY)
                print(row, flush=True)


def verdict(differences: np.ndarray) -> dict[str, float]:
    """Return the error of the mean evidence in nats, with its standard error, from log evidences less the exact one.

    >>> found = verdict(np.log([0.9, 1.1, 1.0, 1.0]))
    >>> round(found["standard_error"], 3), round(found["one_run"], 3), found["suspicious"]
    (0.041, 0.082, False)
    """
    ratios = np.exp(differences - np.max(differences))
    standard_error = np.std(ratios, ddof=1) / np.sqrt(len(ratios)) / np.mean(ratios)
    error = float(logsumexp(differences) - np.log(len(differences)))
    return {
        "error": error,
        "standard_error": float(standard_error),
        "one_run": float(np.std(differences, ddof=1)),
        "suspicious": bool(abs(error) > SUSPICIOUS * standard_error),
    }


if __name__ == "__main__":
    main()

"""Storvik's filter against the exact posterior of linear-Gaussian models: `python -m benchmarks.exact_answers`.

24 data sets of length 50 drawn from the prior, 2 runs each, 4000 particles, the bootstrap loop; see
`tests.support.exact_answers`.
"""

from __future__ import annotations

from dataclasses import asdict

from tests.support.exact_answers import MODELS, exact_answers

from benchmarks.tables import write_table

MANY_RUNS = 8


def main() -> None:
    results = {}
    for name, model in MODELS.items():
        results[name] = exact_answers(model)
        print(name, results[name], flush=True)
    # Variances have heavy-tailed errors: more runs tell the law from the luck of one.
    for name in ("process variance", "observation variance"):
        results[f"{name}, {MANY_RUNS} runs"] = exact_answers(MODELS[name], num_runs=MANY_RUNS)
        print(name, results[f"{name}, {MANY_RUNS} runs"], flush=True)
    write_table("exact_answers", {name: asdict(found) for name, found in results.items()})


if __name__ == "__main__":
    main()

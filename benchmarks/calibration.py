"""Are the default filters as sure as they may be, and does the alarm ring when not? `python -m benchmarks.calibration`.

    python -m benchmarks.calibration [CASE ...] [--runs 1000] [--long-runs 1000]

Theta from the prior, data from the model, the default filter with N = 400 (4 islands), and the rank of the truth at
t = 1, 10, 50, N/10, N and 5 N (see `paramfilter.calibrate`). The first `--long-runs` runs go to 5 N, the others end at
N. Runs are kept in batches under `results/calibration/` (not committed), so that an interrupted command goes on where
it was; the summary is `results/calibration.json`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import jax
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from paramfilter.calibration import LOG_LIKELIHOOD, Calibration
from paramfilter.diagnostics.diagnosis import RHAT_LIMIT
from paramfilter.models import cauchy_ar1, linear_gaussian, sin, star, stochastic_volatility

RESULTS = Path(__file__).parent / "results"
NUM_PARTICLES = 400
SHORT = (1, 10, NUM_PARTICLES // 10, 50, NUM_PARTICLES)
LONG = (*SHORT, 5 * NUM_PARTICLES)
BATCH = 50

# A coefficient of the autoregressions beyond 1 would make data overflow; these priors never draw one.
COEFFICIENT = dist.Normal(0.4, 0.15)

CASES: dict[str, Callable[[], pf.StateSpaceModel]] = {
    "AR(1): phi": lambda: linear_gaussian(phi=COEFFICIENT, r=1.0),
    "AR(1): phi, q": lambda: linear_gaussian(phi=COEFFICIENT, q=dist.InverseGamma(5.0, 4.0), r=1.0),
    "SIN": sin,
    "STAR": star,
    "stochastic volatility": stochastic_volatility,
    "Cauchy": cauchy_ar1,
}


def run_case(name: str, num_runs: int, num_long: int) -> None:
    """Make the batches that are missing."""
    filter = None
    for first in range(0, num_runs, BATCH):
        times = LONG if first < num_long else SHORT
        path = _batch_path(name, first, times)
        if path.exists():
            continue
        filter = filter or pf.extended_parameter_filter(CASES[name](), NUM_PARTICLES)
        began = time.process_time()
        key = jax.random.fold_in(jax.random.key(list(CASES).index(name)), first)
        found = pf.calibrate(key, filter, times, BATCH, progress=False)
        path.parent.mkdir(exist_ok=True)
        np.savez(path, **{field: value for field, value in vars(found).items() if isinstance(value, np.ndarray)})
        seconds = time.process_time() - began
        print(f"{name}: runs {first} to {first + BATCH}, to t = {times[-1]}, {seconds:.0f} s of CPU", flush=True)


def gather(name: str, num_runs: int, num_long: int) -> Calibration:
    """Put the batches of a case together; where runs ended earlier there is NaN."""
    parts: dict[str, list[np.ndarray]] = {}
    for first in range(0, num_runs, BATCH):
        times = LONG if first < num_long else SHORT
        with np.load(_batch_path(name, first, times)) as batch:  # noqa: TID251 (our own, a moment ago)
            for field in batch.files:
                value = batch[field].astype(float)
                missing = [(0, 0), (0, len(LONG) - len(times)), *[(0, 0)] * (value.ndim - 2)]
                parts.setdefault(field, []).append(np.pad(value, missing, constant_values=np.nan))
    together = {field: np.concatenate(pieces) for field, pieces in parts.items()}
    model = CASES[name]()
    return Calibration(LONG, (*model.parameters.coordinate_names, "x", LOG_LIKELIHOOD), **together)


def summarise(name: str, found: Calibration) -> dict:
    """Return the row of a case: cover at each time, and how often the alarm rings."""
    counts = np.sum(~np.isnan(found.rhat), axis=0)
    reached = [place for place, count in enumerate(counts) if count]
    row = {
        "times": list(LONG),
        "runs": counts.tolist(),
        "alarm_share": np.round(np.sum(found.rhat > RHAT_LIMIT, axis=0) / np.maximum(counts, 1), 4).tolist(),
        "rhat_quantiles": np.round(np.nanquantile(found.rhat[:, reached], [0.05, 0.5, 0.95], axis=0), 3).T.tolist(),
        "median_ancestors": np.nanmedian(found.num_unique_ancestors[:, reached], axis=0).tolist(),
        "flagged_share": np.round(np.sum(found.outcome > 0, axis=0) / np.maximum(counts, 1), 4).tolist(),
    }
    by_quantity = {
        "cover": {key: np.round(value[reached], 4).tolist() for key, value in found.cover(0.9).items()},
        "chance": {key: [float(f"{value[place]:.2g}") for place in reached] for key, value in found.chance().items()},
    }
    return {"case": name} | {key: value[: len(reached)] for key, value in row.items()} | by_quantity


def _batch_path(name: str, first: int, times: tuple[int, ...]) -> Path:
    slug = "".join(letter if letter.isalnum() else "_" for letter in name)
    return RESULTS / "calibration" / f"{slug}-{first}-{times[-1]}.npz"


def main() -> None:
    """Run the chosen cases, and write the rows of all that are complete."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE")
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--long-runs", type=int, default=1000)
    options = parser.parse_args()
    path = RESULTS / "calibration.json"
    for name in options.cases or CASES:
        jax.clear_caches()
        run_case(name, options.runs, options.long_runs)
        row = summarise(name, gather(name, options.runs, options.long_runs))
        print(json.dumps(row, indent=1), flush=True)
        rows = json.loads(path.read_text())["rows"] if path.exists() else []
        rows = [old for old in rows if old["case"] != name] + [row]
        heading = {"particles": NUM_PARTICLES, "rhat_limit": RHAT_LIMIT}
        path.write_text(json.dumps(heading | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

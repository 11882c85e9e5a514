"""Are node filters as sure as they may be? `python -m benchmarks.nodes_calibration [model ...] [--runs 600]`.

Theta from the prior, data from the model, and how often the 90 % interval of the weighted nodes holds the truth after
10, 100 and 1000 observations (see `paramfilter.calibrate`). Of a right posterior 87 to 93 % do in 600 runs, in 99 of
100 such figures. Rows are kept in `results/nodes_calibration.json`.
"""

from __future__ import annotations

import argparse
import time

import jax
import numpy as np

import paramfilter as pf
from benchmarks.tables import put_row
from benchmarks.truth.problems import PROBLEMS

TIMES = (10, 100, 1000)
NUM_KEPT = 1024
MODELS = {name: PROBLEMS[name].model for name in ("ar1_300", "structural", "sv", "counts", "sin")}
HEADING = {"units": "shares of runs whose 90 % interval holds the truth, by time; CPU seconds"}


def main() -> None:
    parser = argparse.ArgumentParser(description="Are node filters as sure as they may be?")
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--runs", type=int, default=600)
    chosen = parser.parse_args()
    for name in chosen.models:
        filter, began = pf.node_filter(MODELS[name](), num_kept=NUM_KEPT), time.process_time()
        found = pf.calibrate(jax.random.key(7), filter, TIMES, chosen.runs, progress=False)
        row = {
            "model": name,
            "filter": repr(filter),
            "runs": chosen.runs,
            "ranked": np.sum(~np.isnan(found.ranks[:, :, 0]), axis=0).tolist(),
            "times": list(TIMES),
            "cover": {quantity: np.round(shares, 4).tolist() for quantity, shares in found.cover().items()},
            "chance": {quantity: [float(f"{p:.2g}") for p in chances] for quantity, chances in found.chance().items()},
            "seconds": round(time.process_time() - began),
        }
        put_row("nodes_calibration", HEADING, row, ("model",))
        print(name, found, sep="\n", flush=True)


if __name__ == "__main__":
    main()

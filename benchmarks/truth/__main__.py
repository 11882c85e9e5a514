"""Hold a filter against exact posteriors: `python -m benchmarks.truth --filter NAME [--problems a b] [--quick]`.

NAME is a preset of the library. It is called with the model alone, or with `--num-particles N` as well. Each data set
runs with several keys. One line is printed for each problem:

- rms and worst: errors of posterior means in exact posterior sds, over all parameters and runs;
- sd: the range of posterior sds, as ratios to the exact ones;
- us: CPU microseconds an observation; the first data set runs once before, so that compiling does not count;
- warned: runs with a finding of `pf.diagnose` about the approximation among those with an error above 0.25, and among
  those below 0.1, where the error of a run is that of its worst parameter;
- misfit: runs of which `pf.diagnose` says that the model does not fit the data (W05), which is no error of the filter;
- told: the share of runs whose `posterior.error()`, if the filter has it, is within a factor of 3 of the true error,
  both at the worst parameter. Errors below the reference's own standard error count as that.

All runs but quick ones are written to `results/truth/NAME.json`, which keeps what it has of other problems.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import time
from collections.abc import Callable, Sequence
from datetime import date
from functools import partial
from typing import Any

import jax
import numpy as np

import paramfilter as pf
from benchmarks.answers import Answer
from benchmarks.contest.rows import LOST
from benchmarks.contest.run import machine
from benchmarks.tables import write_table
from benchmarks.truth.cases import CASES, Case
from benchmarks.truth.references import RESULTS

LARGE_ERROR, SMALL_ERROR = 0.25, 0.1
HONEST_FACTOR = 3.0
OF_THE_MODEL = {"W05"}
"""Findings that speak of the model, and not of the approximation."""
QUICK_DATA_SETS, QUICK_KEYS = 2, 1

Row = dict[str, Any]
MakeFilter = Callable[[pf.StateSpaceModel], Any]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Hold a filter against exact posteriors.")
    parser.add_argument("--filter", required=True, help="a preset of paramfilter, such as auto_filter")
    parser.add_argument("--num-particles", type=int, help="for presets that need a size")
    parser.add_argument("--nodes", type=int, help="for node_filter: another number of nodes than the usual one")
    parser.add_argument("--kept", type=int, help="for node_filter: another number of observations kept")
    parser.add_argument("--all", action="store_true", help="print a line for what was run so far, over all problems")
    parser.add_argument("--problems", nargs="*", help=f"of {', '.join(CASES)}; all unless given")
    parser.add_argument("--keys", type=int, default=3, help="runs of each data set")
    parser.add_argument("--datasets", type=int, default=8, help="data sets of each problem, at most")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_DATA_SETS} data sets, {QUICK_KEYS} key")
    chosen = parser.parse_args(arguments)
    make, label = getattr(pf, chosen.filter), chosen.filter
    if chosen.num_particles is not None:
        make, label = partial(make, num_particles=chosen.num_particles), f"{label}_{chosen.num_particles}"
    sizes = {"num_nodes": chosen.nodes, "num_kept": chosen.kept}
    if any(sizes.values()):
        make = partial(make, **{name: size for name, size in sizes.items() if size is not None})
        label += "".join(f"_{size}_{name[4:]}" for name, size in sizes.items() if size is not None)
    if chosen.all:
        rows = json.loads((RESULTS / f"{label}.json").read_text())["rows"]
        print(f"{len(rows)} runs of {len({row['problem'] for row in rows})} problems: {honesty(rows)}")
        return
    num_keys, num_sets = (QUICK_KEYS, QUICK_DATA_SETS) if chosen.quick else (chosen.keys, chosen.datasets)
    for name in chosen.problems or CASES:
        case = CASES[name]
        try:
            rows = runs(case, make, num_sets, num_keys)
        except (FileNotFoundError, subprocess.CalledProcessError, StopIteration) as missing:
            print(f"{name:<30} skipped: its data are not installed ({missing})", flush=True)
            continue
        if rows and not chosen.quick:
            put(label, name, rows)
        print(f"{name:<30} {line(rows) if rows else 'skipped: no reference'}", flush=True)


def runs(case: Case, make: MakeFilter, num_sets: int, num_keys: int) -> list[Row]:
    """Run a filter on all data sets of a problem that have a reference."""
    known = {seed: case.reference(seed) for seed in case.seeds[:num_sets]}
    known = {seed: answer for seed, answer in known.items() if answer is not None}
    tables = {seed: case.data(seed) for seed in known}
    if not known:
        return []
    filter = make(case.model())
    first = next(iter(known))
    made = {"date": date.today().isoformat(), "machine": machine()}
    run_once(filter, jax.random.key(0), *tables[first])  # compiles
    return [
        {"problem": case.name, "seed": seed, "key": key}
        | made
        | judged(*run_once(filter, jax.random.key(100 * seed + key), *tables[seed]), answer)
        for seed, answer in known.items()
        for key in range(num_keys)
    ]


def run_once(filter, key, ys: np.ndarray, inputs) -> tuple[Any, list[str] | None, float]:
    """Return the posterior, the codes of what `diagnose` found, and CPU microseconds an observation."""
    state = filter.init(key)
    start = time.process_time()
    state, history = pf.run(filter, state, ys, inputs, progress=False)
    jax.block_until_ready(state)
    micros = 1e6 * (time.process_time() - start) / len(ys)
    return filter.posterior(state), findings(state, history), micros


def findings(state, history) -> list[str] | None:
    """Return codes of what `diagnose` found; None if it does not know this kind of filter."""
    try:
        return [finding.code.code for finding in pf.diagnose(state, history).findings]
    except pf.ParamfilterError:
        return None


def judged(posterior, codes: list[str] | None, micros: float, answer: Answer) -> Row:
    """Compare one run with the exact posterior."""
    names = list(answer["mean"])
    flat = lambda values: np.concatenate([np.ravel(np.asarray(values[name], float)) for name in names])
    unit = flat(answer["sd"])
    errors = np.nan_to_num((flat(posterior.mean()) - flat(answer["mean"])) / unit, nan=LOST)
    reported = float(np.max(flat(posterior.error()))) if hasattr(posterior, "error") else np.nan
    return {
        "errors": errors.tolist(),
        "sd_ratios": (flat(posterior.sd()) / unit).tolist(),
        "reported": reported if np.isfinite(reported) else None,
        "findings": codes,
        "micros": micros,
        "standard_error": answer["standard_error_of_mean"],
    }


def line(rows: list[Row]) -> str:
    """Summarize the runs of one problem."""
    errors = np.array([row["errors"] for row in rows])
    ratios = np.array([row["sd_ratios"] for row in rows])
    return (
        f"rms {np.sqrt(np.mean(errors**2)):7.3f}  worst {np.max(np.abs(errors)):7.2f}  "
        f"sd {np.min(ratios):.2f} to {np.max(ratios):.2f}  {np.mean([row['micros'] for row in rows]):8.1f} us  "
        f"{honesty(rows)}"
    )


def honesty(rows: list[Row]) -> str:
    """Say how often runs were flagged, and their errors told; each may have any number of parameters."""
    largest = np.array([np.max(np.abs(row["errors"])) for row in rows])
    return (
        f"warned {warned(rows, largest > LARGE_ERROR)} above {LARGE_ERROR}, "
        f"{warned(rows, largest < SMALL_ERROR)} below {SMALL_ERROR}  "
        f"misfit {sum(bool(OF_THE_MODEL & set(row['findings'] or ())) for row in rows)}  told {told(rows, largest)}"
    )


def warned(rows: list[Row], among: np.ndarray) -> str:
    """Count runs with findings."""
    chosen = [
        row["findings"] for row, is_one in zip(rows, among, strict=True) if is_one and row["findings"] is not None
    ]
    return f"{sum(bool(set(codes) - OF_THE_MODEL) for codes in chosen)}/{len(chosen)}"


def told(rows: list[Row], largest: np.ndarray) -> str:
    """Return the share of runs that report their error within a factor."""
    if any(row["reported"] is None for row in rows):
        return "-"
    floor = np.array([row["standard_error"] for row in rows])
    ratio = np.maximum([row["reported"] for row in rows], floor) / np.maximum(largest, floor)
    return f"{np.mean((ratio <= HONEST_FACTOR) & (ratio >= 1 / HONEST_FACTOR)):.0%}"


def put(label: str, name: str, rows: list[Row]) -> None:
    """Replace the rows of one problem."""
    path = RESULTS / f"{label}.json"
    kept = [row for row in json.loads(path.read_text())["rows"] if row["problem"] != name] if path.exists() else []
    units = "errors and standard errors in exact posterior sds; CPU microseconds an observation"
    write_table(f"truth/{label}", {"filter": label, "units": units, "rows": [*kept, *rows]})


if __name__ == "__main__":
    main()

"""A worker for the test of upgrades: `python -m tests.support.streams.upgrades FOLDER FILTER`.

It takes in what the log of a folder holds and the store does not, and prints what there is then, and by which JAX.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import jax
import numpyro.distributions as dist

import paramfilter as pf
from paramfilter_streams import FileLog, FleetResidents, Store, Worker


def model():
    return pf.models.linear_gaussian(phi=dist.Normal(0.0, 0.5), r=0.5)


FILTERS = {
    "sir_filter": lambda: pf.sir_filter(model(), 16),
    "storvik_filter": lambda: pf.storvik_filter(model(), 32),
    "node_filter": lambda: pf.node_filter(model(), 16, num_kept=64),
    "extended_parameter_filter": lambda: pf.extended_parameter_filter(model(), 16),
}


def main(folder: Path, name: str) -> None:
    residents = FleetResidents(FILTERS[name](), room=16, seed=3, largest_batch=16)
    store = Store(folder / "store", residents.identity)
    worker = Worker(residents, FileLog(folder / "log"), store)
    worker.run(lambda: False, until_idle=True)
    figures = {one: worker.latest(one)[-1].figures for one in sorted(residents.names)}
    counts = worker.committed["."].counts
    states = {one: state.hex() for one, _, state in store.rows()}
    worker.close()
    print(json.dumps({"jax": jax.__version__, "counts": counts, "figures": figures, "states": states}))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])

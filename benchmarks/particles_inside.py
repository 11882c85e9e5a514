"""Node filters with particles inside, where no other inner filter fits: `python -m benchmarks.particles_inside PART`.

Three models of three parameters: a number with Cauchy moves, a number beside a regime, and Cauchy moves in two
dimensions. PART is `references` (`pf.references.pmmh`), `nodes` (what `auto_filter` selects; `--particles N` for other
than the usual number inside), or `cross`: `extended_parameter_filter` at commit bcd9cba, whose belief was a cross
interpolation. For the last, check that commit out elsewhere and put its `src` on PYTHONPATH.

Rows are kept in `results/particles_inside.json`.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from benchmarks.answers import lists
from benchmarks.tables import put_row, rows_of

NAME, NUM_STEPS, SEEDS, KEYS = "particles_inside", 100, (0, 1), (0, 1)
NUM_BEFORE = 20
"""Steps of a run before, which compiles."""
MOST_RHAT = 1.05
"""Of a reference that counts: the chains of `cauchy_2` did not mix (2.5), so no error is known for it."""
PMMH = {"num_particles": 400, "num_draws": 2000, "num_warmup": 800}
HEADING = {"units": "errors in posterior sds of the reference; CPU seconds of all steps and of reading the posterior"}
PRIOR = {"a": dist.Uniform(-1.0, 1.0), "scale": dist.LogNormal(-1.0, 1.0), "noise": dist.LogNormal(-1.0, 1.0)}


def heavy_tails(size: int) -> pf.StateSpaceModel:
    """Return a model of `size` numbers that move by Cauchy steps."""
    return pf.StateSpaceModel(
        prior=PRIOR,
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(size), 1.0).to_event(1),
        transition=lambda theta, x, inputs: dist.Cauchy(theta["a"] * x, theta["scale"]).to_event(1),
        observation=lambda theta, x, inputs: dist.Normal(x, theta["noise"]).to_event(1),
        name=f"cauchy_{size}",
    )


def regimes() -> pf.StateSpaceModel:
    """Return a model of a level whose moves are wide while a regime holds."""

    def transition(theta, x, inputs):
        sd = theta["scale"] * jnp.where(x["wide"] == 1, 5.0, 1.0)
        stay = jnp.where(x["wide"] == 1, theta["stay"], 1.0 - theta["stay"])
        return {"wide": dist.Bernoulli(stay), "level": dist.Normal(theta["a"] * x["level"], sd)}

    return pf.StateSpaceModel(
        prior={"a": PRIOR["a"], "scale": PRIOR["scale"], "stay": dist.Beta(9.0, 1.0)},
        initial=lambda theta, inputs: {"wide": dist.Bernoulli(0.5), "level": dist.Normal(0.0, 1.0)},
        transition=transition,
        observation=lambda theta, x, inputs: dist.StudentT(4.0, x["level"], 0.3),
        name="regimes",
    )


MODELS = {
    "cauchy_1": (heavy_tails(1), {"a": 0.8, "scale": 0.2, "noise": 0.3}),
    "regimes": (regimes(), {"a": 0.8, "scale": 0.2, "stay": 0.9}),
    "cauchy_2": (heavy_tails(2), {"a": 0.8, "scale": 0.2, "noise": 0.3}),
}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Node filters with particles inside.")
    parser.add_argument("part", choices=["references", "nodes", "cross"])
    parser.add_argument("models", nargs="*", default=list(MODELS), help=f"of {', '.join(MODELS)}")
    parser.add_argument("--particles", type=int, help="inside each node")
    chosen = parser.parse_args(arguments)
    for name in chosen.models:
        model, truth = MODELS[name]
        for seed in SEEDS:
            ys = np.asarray(pf.simulate(jax.random.key(seed), model, truth, NUM_STEPS)[1])
            if chosen.part == "references":
                put(refer(model, ys, seed) | {"model": name, "data_set": seed, "key": 0, "method": "reference"})
                continue
            filter = filter_of(model, chosen.part, chosen.particles)
            pf.run(filter, filter.init(jax.random.key(9)), ys[:NUM_BEFORE], progress=False)
            method = chosen.part + (f" {chosen.particles}" if chosen.particles else "")
            for key in KEYS:
                put(run(filter, ys, key) | {"model": name, "data_set": seed, "key": key, "method": method})


def filter_of(model: pf.StateSpaceModel, part: str, num_inside: int | None) -> pf.Filter:
    if part == "cross":
        return pf.extended_parameter_filter(model, 500)
    return pf.node_filter(model, inner=pf.nodes.Particles.bind(model, num_inside) if num_inside else None)


def refer(model: pf.StateSpaceModel, ys: np.ndarray, seed: int) -> dict:
    start = time.process_time()
    answer = pf.references.pmmh(jax.random.key(100 + seed), model, ys, **PMMH)
    known = {"mean": lists(answer.mean()), "sd": lists(answer.sd()), "rhat": answer.rhat}
    return known | {
        "standard_error": answer.standard_error,
        "seconds": time.process_time() - start,
        "data": checksum(ys),
    }


def run(filter: pf.Filter, ys: np.ndarray, key: int) -> dict:
    start = time.process_time()
    state, _ = pf.run(filter, filter.init(jax.random.key(key)), ys, progress=False)
    posterior = filter.posterior(state)
    mean, sd = lists(posterior.mean()), lists(posterior.sd())
    seconds = time.process_time() - start
    told = posterior.error() if hasattr(posterior, "error") else None
    return {
        "mean": mean,
        "sd": sd,
        "told": None if told is None else float(np.max([np.max(value) for value in told.values()])),
        "not_measured": getattr(told, "not_measured", ""),
        "choice": filter.choice,
        "seconds": seconds,
        "data": checksum(ys),
    }


def checksum(ys: np.ndarray) -> float:
    return float(np.sum(ys))


def put(row: dict) -> None:
    put_row(NAME, HEADING, row, ("model", "data_set", "key", "method"))
    print(row, flush=True)


def rms(method: str) -> float:
    """Return the rms error of the posterior means, over all runs whose data have a reference."""
    return float(np.sqrt(np.mean([error**2 for row in judged(method) for error in row["errors"]])))


def judged(method: str) -> list[dict]:
    """Return the rows of a method whose data have a reference, each with the errors of its means in posterior sds."""
    rows = rows_of(NAME)
    exact = {(row["model"], row["data_set"]): row for row in rows if row.get("rhat", np.inf) < MOST_RHAT}
    found = []
    for row in rows:
        right = exact.get((row["model"], row["data_set"]))
        if row["method"] == method and right is not None:
            assert row["data"] == right["data"], "other data than those of the reference"
            mean, true, sd = row["mean"], right["mean"], right["sd"]
            found.append(row | {"errors": [abs(mean[name] - true[name]) / sd[name] for name in mean]})
    return found


if __name__ == "__main__":
    main()

"""Beliefs along a path or given the present state, in the long run: `python -m benchmarks.long_run [NOISE ...]`.

AR(1) with an unknown coefficient (prior N(0, 1), process noise 1) and three levels of observation noise, exact
conjugate beliefs, the default proposal, N = 1000 in one or four islands, against the Kalman filter with quadrature:
6 runs on each of 3 data sets, errors in posterior sds. Results are kept in `results/long_run.json`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import jax
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf

RESULTS = Path(__file__).parent / "results" / "long_run.json"
NUM_PARTICLES = 1000
NUM_RUNS = 6
DATA_SETS = (0, 1, 2)
MARKS = (100, 300, 1000, 3000, 10_000)
NOISES = (0.3, 1.0, 3.0)


def judge(noise: float, num_islands: int, num_ancestors: int) -> dict:
    """Run one kind of filter at one level of noise."""
    model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0), q=1.0, r=noise**2)
    filter = pf.ParticleFilter(
        model,
        NUM_PARTICLES,
        pf.beliefs.Conjugate(),
        pf.proposals.LookAhead(),
        num_islands=num_islands,
        num_ancestors=num_ancestors,
    )

    @jax.jit
    def go_on(states, ys):
        # One after the other, so that a step without mixing does not pay for it.
        def one(state):
            return jax.lax.fori_loop(0, len(ys), lambda index, state: filter.step(state, ys[index])[0], state)

        return jax.lax.map(one, states)

    summarise = jax.jit(jax.vmap(lambda s: (filter.posterior(s).mean()["phi"], filter.posterior(s).sd()["phi"])))
    errors, ratios = ({mark: [] for mark in MARKS} for _ in range(2))
    seconds = []
    for seed in DATA_SETS:
        ys = pf.simulate(jax.random.key(seed), model, {"phi": 0.8}, MARKS[-1])[1]
        states = jax.vmap(filter.init)(jax.random.split(jax.random.key(50 + seed), NUM_RUNS))
        start = 0
        for mark in MARKS:
            began = time.process_time()
            states = jax.block_until_ready(go_on(states, ys[start:mark]))
            if seed > 0:  # the first data set pays for the compile
                seconds.append((time.process_time() - began) / (mark - start) / NUM_RUNS)
            exact = pf.references.kalman_grid(model, ys[:mark])
            right, width = float(exact.mean()["phi"]), float(exact.sd()["phi"])
            mean, sd = summarise(states)
            errors[mark] += ((np.asarray(mean) - right) / width).tolist()
            ratios[mark] += (np.asarray(sd) / width).tolist()
            start = mark
    table = lambda figure: [round(float(figure(mark)), 3) for mark in MARKS]
    return {
        "observation_sd": noise,
        "islands": num_islands,
        "ancestors": num_ancestors,
        "times": list(MARKS),
        "rms_error": table(lambda mark: np.sqrt(np.mean(np.square(errors[mark])))),
        "mean_error": table(lambda mark: np.mean(errors[mark])),
        "median_sd_ratio": table(lambda mark: np.median(ratios[mark])),
        "microseconds": round(1e6 * float(np.median(seconds)), 1),
    }


def main() -> None:
    """Judge all kinds, and write the table."""
    rows = []
    for noise in [float(word) for word in sys.argv[1:]] or NOISES:
        for num_islands in (1, 4):
            for num_ancestors in (1, 2):
                jax.clear_caches()
                rows.append(judge(noise, num_islands, num_ancestors))
                print(json.dumps(rows[-1]), flush=True)
    heading = {"particles": NUM_PARTICLES, "runs": NUM_RUNS * len(DATA_SETS), "precision": "float32"}
    RESULTS.write_text(json.dumps(heading | {"rows": rows}, indent=1) + "\n")


if __name__ == "__main__":
    main()

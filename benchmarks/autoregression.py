"""AR(1) with an unknown coefficient, on which conjugate filters are judged: all their error is Monte Carlo.

The prior is N(0, 1) and the process noise 1; the answer is that of the Kalman filter with quadrature, on three data
sets. Errors are in posterior sds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import jax
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf

DATA_SETS = (0, 1, 2)
TRUTH = {"phi": 0.8}


@dataclass(frozen=True, eq=False)
class Stage:
    """A model at one level of observation noise, its data, and the right mean and sd at some times."""

    model: pf.StateSpaceModel
    marks: tuple[int, ...]
    data: dict
    exact: dict


def stage(noise: float, marks: tuple[int, ...]) -> Stage:
    """Simulate the data and find the right answers, for one standard deviation of the observation noise."""
    model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0), q=1.0, r=noise**2)
    data, exact = {}, {}
    for seed in DATA_SETS:
        data[seed] = pf.simulate(jax.random.key(seed), model, TRUTH, marks[-1])[1]
        for mark in marks:
            found = pf.references.kalman_grid(model, data[seed][:mark])
            exact[seed, mark] = float(found.mean()["phi"]), float(found.sd()["phi"])
    return Stage(model, marks, data, exact)


def judge(on: Stage, filter: pf.ParticleFilter, num_runs: int) -> dict:
    """Run a filter several times on each data set, and say how far off it was."""

    @jax.jit
    def go_on(states, ys):
        # One after the other, so that a step does not pay for what only some times ask for, such as mixing.
        def one(state):
            def turn(index, carry):
                state, ess = carry
                state, info = filter.step(state, ys[index])
                return state, ess + info.ess / len(ys)

            return jax.lax.fori_loop(0, len(ys), turn, (state, 0.0))

        return jax.lax.map(one, states)

    summarise = jax.jit(jax.vmap(lambda s: (filter.posterior(s).mean()["phi"], filter.posterior(s).sd()["phi"])))
    rhat = jax.jit(jax.vmap(lambda s: filter.step(s, np.nan)[1].rhat[0]))
    errors, ratios, rhats = ({mark: [] for mark in on.marks} for _ in range(3))
    effective, seconds = [], []
    for seed in DATA_SETS:
        states = jax.vmap(filter.init)(jax.random.split(jax.random.key(50 + seed), num_runs))
        start = 0
        for mark in on.marks:
            began = time.process_time()
            states, ess = jax.block_until_ready(go_on(states, on.data[seed][start:mark]))
            if seed > 0:  # the first data set pays for the compile
                seconds.append((time.process_time() - began) / (mark - start) / num_runs)
            effective += np.asarray(ess).tolist()
            mean, sd = summarise(states)
            right, width = on.exact[seed, mark]
            errors[mark] += ((np.asarray(mean) - right) / width).tolist()
            ratios[mark] += (np.asarray(sd) / width).tolist()
            rhats[mark] += np.asarray(rhat(states)).tolist()
            start = mark
    table = lambda figure: [round(float(figure(mark)), 3) for mark in on.marks]
    return {
        "islands": filter.num_islands,
        "ancestors": filter.num_ancestors,
        "times": list(on.marks),
        "rms_error": table(lambda mark: np.sqrt(np.mean(np.square(errors[mark])))),
        "mean_error": table(lambda mark: np.mean(errors[mark])),
        "median_sd_ratio": table(lambda mark: np.median(ratios[mark])),
        "median_rhat": table(lambda mark: np.median(rhats[mark])),
        "ess_share": round(float(np.mean(effective)) / filter.num_particles, 3),
        "microseconds": round(1e6 * float(np.median(seconds)), 1),
    }

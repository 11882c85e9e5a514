"""Models with long data and the right answers at some times, on which whole filters are judged.

AR(1) with an unknown coefficient (prior N(0, 1)), its process variance known or to be learnt too, by a Kalman filter
with quadrature; SIN and STAR by a forward filter on a grid of the state. Three data sets each. Errors are in posterior
sds.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from benchmarks.problems import PROBLEMS

DATA_SETS = (0, 1, 2)
TRUTH = {"phi": 0.8, "q": 1.0}
KNOWN = Path(__file__).parent / "results" / "references" / "long_streams.json"
"""Answers that took minutes: by problem, then by data set and time."""


@dataclass(frozen=True, eq=False)
class Stage:
    """A model, its data, and the right means and sds at some times."""

    model: pf.StateSpaceModel
    marks: tuple[int, ...]
    data: dict
    exact: dict


def autoregression(noise: float, marks: tuple[int, ...], learn_variance: bool = False) -> Stage:
    """Simulate the data and find the right answers, for one standard deviation of the observation noise."""
    variance = dist.InverseGamma(5.0, 4.0) if learn_variance else TRUTH["q"]
    model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0), q=variance, r=noise**2)
    truth = {name: TRUTH[name] for name in model.parameters.names}
    data, exact = {}, {}
    for seed in DATA_SETS:
        data[seed] = pf.simulate(jax.random.key(seed), model, truth, marks[-1])[1]
        for mark in marks:
            exact[seed, mark] = _vectors(model, pf.references.kalman_grid(model, data[seed][:mark]))
    return Stage(model, marks, data, exact)


def long_problem(name: str, marks: tuple[int, ...]) -> Stage:
    """Take a problem with a scalar state and one or two parameters beyond its usual length."""
    model = PROBLEMS[name].model()
    data = {
        seed: pf.simulate(jax.random.key(1000 + seed), model, PROBLEMS[name].truth, marks[-1])[1] for seed in DATA_SETS
    }
    exact = {(seed, mark): _answer(name, model, seed, mark, data[seed][:mark]) for seed in DATA_SETS for mark in marks}
    return Stage(model, marks, data, exact)


def _answer(name: str, model: pf.StateSpaceModel, seed: int, mark: int, ys) -> tuple[np.ndarray, np.ndarray]:
    """Return means and sds by quadrature, from the file of known answers if they are there."""
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    label = f"data set {seed}, t = {mark}"
    if label not in known.get(name, {}):
        mean, sd = _vectors(model, pf.references.grid_posterior(model, np.asarray(ys, np.float64)))
        answer = {"mean": np.asarray(mean).tolist(), "sd": np.asarray(sd).tolist()}
        known[name] = known.get(name, {}) | {label: answer}
        KNOWN.write_text(json.dumps(known, indent=1) + "\n")
        print(name, label, answer, flush=True)
    answer = known[name][label]
    return np.asarray(answer["mean"]), np.asarray(answer["sd"])


def judge(on: Stage, filter: pf.ParticleFilter, num_runs: int) -> dict:
    """Run a filter several times on each data set, and say how far off it was, for each parameter at each time."""

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

    summarise = jax.jit(jax.vmap(lambda state: _vectors(on.model, filter.posterior(state))))
    rhat = jax.jit(jax.vmap(lambda s: filter.step(s, np.nan)[1].rhat))
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
    names = on.model.parameters.names

    def table(figure):
        """Return a figure by parameter and time; of a single parameter, by time alone."""
        by_time = np.round([figure(mark) for mark in on.marks], 3)
        return by_time[:, 0].tolist() if len(names) == 1 else dict(zip(names, by_time.T.tolist(), strict=True))

    return {
        "islands": filter.num_islands,
        "ancestors": filter.num_ancestors,
        "times": list(on.marks),
        "rms_error": table(lambda mark: np.sqrt(np.mean(np.square(errors[mark]), axis=0))),
        "mean_error": table(lambda mark: np.mean(errors[mark], axis=0)),
        "median_sd_ratio": table(lambda mark: np.median(ratios[mark], axis=0)),
        "median_rhat": table(lambda mark: np.median(rhats[mark], axis=0)),
        "ess_share": round(float(np.mean(effective)) / filter.num_particles, 3),
        "microseconds": round(1e6 * float(np.median(seconds)), 1),
    }


def _vectors(model: pf.StateSpaceModel, posterior):
    """Return means and sds as vectors over the model's parameters."""
    mean, sd = posterior.mean(), posterior.sd()
    return tuple(jnp.stack([jnp.asarray(part[name]) for name in model.parameters.names]) for part in (mean, sd))

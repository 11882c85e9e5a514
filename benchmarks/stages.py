"""Models with long data and the right answers at some times, on which whole filters are judged.

AR(1) with an unknown coefficient (prior N(0, 1)), its process variance known or to be learned too, by a Kalman filter
with quadrature; SIN, STAR and the Cauchy autoregression by a forward filter on a grid of the state; stochastic
volatility by importance sampling with such a filter, each answer the proposal of the next. Three data sets each. Errors
are in posterior sds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from benchmarks.answers import Answer
from benchmarks.importance import weighted_draws, weighted_summary
from benchmarks.mixing import num_ancestors
from benchmarks.problems import PROBLEMS
from benchmarks.references import METHODS, VOLATILITY_RANGE, width_of_level

DATA_SETS = (0, 1, 2)
TRUTH = {"phi": 0.8, "q": 1.0}
KNOWN = Path(__file__).parent / "results" / "references" / "long_streams.json"
"""Answers that took minutes: by problem, then by data set and time."""
CHAINED = "stochastic_volatility"
"""The problem whose answers need the one before."""
UNCHECKED = -1
"""A number of no data set whose quadrature would be repeated with all spacings halved."""


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
    """Take a problem beyond its usual length."""
    model = PROBLEMS[name].model()
    data = {
        seed: pf.simulate(jax.random.key(1000 + seed), model, PROBLEMS[name].truth, marks[-1])[1] for seed in DATA_SETS
    }
    known = json.loads(KNOWN.read_text()) if KNOWN.exists() else {}
    answers = known.setdefault(name, {})
    for seed in DATA_SETS:
        missing = [mark for mark in marks if _label(seed, mark) not in answers]
        if missing and name == CHAINED:
            missing = list(marks)
        for mark, answer in _answers(name, model, seed, missing, np.asarray(data[seed], np.float64)):
            answers[_label(seed, mark)] = {part: list(answer[part].values()) for part in ("mean", "sd")}
            print(name, _label(seed, mark), json.dumps(answer), flush=True)
            KNOWN.write_text(json.dumps(known, indent=1) + "\n")
    exact = {
        (seed, mark): tuple(np.asarray(answers[_label(seed, mark)][part]) for part in ("mean", "sd"))
        for seed in DATA_SETS
        for mark in marks
    }
    return Stage(model, marks, data, exact)


def _label(seed: int, mark: int) -> str:
    return f"data set {seed}, t = {mark}"


def _answers(
    name: str, model: pf.StateSpaceModel, seed: int, marks: list[int], ys: np.ndarray
) -> Iterator[tuple[int, Answer]]:
    """Go through the times, each with the moments of its posterior, the parameters in the model's order."""
    with jax.enable_x64(True):
        centers = jax.vmap(model.parameters.sample)(jax.random.split(jax.random.key(3_000 + seed), 1000))
        for mark in marks:
            key = jax.random.key(4_000 + seed)
            if name == CHAINED:
                draws = weighted_draws(key, model, ys[:mark], centers, *VOLATILITY_RANGE, width_of_level)
                centers = jax.random.choice(key, draws.z, (1000,), p=draws.weights)
                answer = weighted_summary(model, draws)
            else:
                answer = METHODS[name](model, ys[:mark], UNCHECKED)
            ordered = {part: {name: answer[part][name] for name in model.parameters.names} for part in ("mean", "sd")}
            yield mark, answer | ordered


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
        "ancestors": num_ancestors(filter),
        "times": list(on.marks),
        "rms_error": table(lambda mark: np.sqrt(np.mean(np.square(errors[mark]), axis=0))),
        "median_error": table(lambda mark: np.median(np.abs(errors[mark]), axis=0)),
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

"""AR(1) with an unknown coefficient, on which filters with exact beliefs are judged: all their error is Monte Carlo.

The prior is N(0, 1) and the process variance is 1, known or to be learnt too; the answer is that of the Kalman filter
with quadrature, on three data sets. Errors are in posterior sds.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf

DATA_SETS = (0, 1, 2)
TRUTH = {"phi": 0.8, "q": 1.0}


@dataclass(frozen=True, eq=False)
class Stage:
    """A model at one level of observation noise, its data, and the right means and sds at some times."""

    model: pf.StateSpaceModel
    marks: tuple[int, ...]
    data: dict
    exact: dict


def stage(noise: float, marks: tuple[int, ...], learn_variance: bool = False) -> Stage:
    """Simulate the data and find the right answers, for one standard deviation of the observation noise."""
    variance = dist.InverseGamma(5.0, 4.0) if learn_variance else TRUTH["q"]
    model = pf.models.linear_gaussian(phi=dist.Normal(0.0, 1.0), q=variance, r=noise**2)
    truth = {name: TRUTH[name] for name in model.parameters.names}
    data, exact = {}, {}
    for seed in DATA_SETS:
        data[seed] = pf.simulate(jax.random.key(seed), model, truth, marks[-1])[1]
        for mark in marks:
            found = pf.references.kalman_grid(model, data[seed][:mark])
            exact[seed, mark] = _vectors(model, found)
    return Stage(model, marks, data, exact)


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

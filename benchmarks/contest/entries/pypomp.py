# /// script
# dependencies = ["pypomp==1.2.0", "paramfilter"]
#
# [tool.contest.pmcmc]
# num_iterations = [100, 300, 1000]
# num_x = [300, 300, 1000]
# refits = true
#
# [tool.contest.if2]
# num_iterations = [30, 100, 100]
# num_x = [300, 1000, 3000]
# refits = true
# ///
"""PMCMC and IF2 by `pypomp` 1.2: `python -m benchmarks.contest enter pypomp`.

Both work on the unconstrained coordinates z, from one draw of the prior, anew for each time. PMCMC has the library's
adaptive random walk with its defaults, from steps of one prior sd; the first tenth of the chain is discarded. IF2
perturbs by 0.02 a step with geometric cooling of one half, as the library's examples do on a logarithmic scale. It
finds the likelihood's maximum, which no prior pulls: a point with no sd, and not the posterior mean even where exact.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pypomp

from benchmarks.contest.models.flat import FlatModel, flat_model
from benchmarks.contest.task import Algorithm, Posterior, Task, serve

SHARE_DISCARDED = 0.1
IF2_STEP = 0.02


def pmcmc(task: Task):
    """Yield the posterior of a chain of its own for each time."""
    for time in task.times:
        model, pomp = made(task, time)
        sds = model.parameters.prior_sd
        key_start, key_run = jax.random.split(jax.random.key(task.seed))
        pomp.pmcmc(
            J=task.size["num_x"],
            M=task.size["num_iterations"],
            proposal=pypomp.MVNRWAdaptive(
                rw_sd=dict(zip(model.parameters.coordinate_names, sds.tolist(), strict=True))
            ),
            key=key_run,
            theta=start(model, key_start),
        )
        chain = trace(pomp, model)
        yield model.posterior(chain[int(SHARE_DISCARDED * len(chain)) :])


def if2(task: Task):
    """Yield the likelihood's maximum for each time."""
    for time in task.times:
        model, pomp = made(task, time)
        key_start, key_run = jax.random.split(jax.random.key(task.seed))
        steps = dict.fromkeys(model.parameters.coordinate_names, IF2_STEP)
        pomp.mif(
            J=task.size["num_x"],
            M=task.size["num_iterations"],
            rw_sd=pypomp.RWSigma(steps).geometric_cooling(0.5),
            key=key_run,
            theta=start(model, key_start),
        )
        yield Posterior(model.posterior(trace(pomp, model)[-1:]).mean, sd=None)


def start(model: FlatModel, key) -> pypomp.PompParameters:
    """Draw where to begin from the prior."""
    z = np.asarray(model.parameters.sample(key), float)
    return pypomp.PompParameters(dict(zip(model.parameters.coordinate_names, z.tolist(), strict=True)))


def trace(pomp: pypomp.Pomp, model: FlatModel) -> np.ndarray:
    """Return the coordinates at each iteration of the last run."""
    traces = pomp.results_history.last().payload["traces"]
    return np.asarray(traces.sel(variable=model.parameters.coordinate_names))[0]


MADE: dict[int, tuple[FlatModel, pypomp.Pomp]] = {}


def made(task: Task, time: int) -> tuple[FlatModel, pypomp.Pomp]:
    """Return the same objects in all runs, so that what is compiled is found again, with the data of a task."""
    if time not in MADE:
        model = flat_model(task)
        MADE[time] = model, pomp_of(model, task.ys[:time])
    model, pomp = MADE[time]
    pomp.ys = table_of(task.ys[:time])
    return model, pomp


def table_of(ys: np.ndarray) -> pd.DataFrame:
    """Return observations as pypomp wants them."""
    table = pd.DataFrame(ys.reshape(len(ys), -1), index=np.arange(1.0, len(ys) + 1))
    return table.set_axis([f"y{place}" for place in range(table.shape[1])], axis=1)


def pomp_of(model: FlatModel, ys: np.ndarray) -> pypomp.Pomp:
    """Write the model as pypomp wants it; the names of the arguments are the library's."""
    shape = ys.shape[1:]
    states = [f"x{place}" for place in range(model.num_states)]
    seen = table_of(ys)
    z_of = lambda theta_: jnp.stack([theta_[name] for name in model.parameters.coordinate_names])
    x_of = lambda X_: jnp.stack([X_[name] for name in states])

    def rinit(theta_, key, covars, t0):
        return dict(zip(states, model.start(key, z_of(theta_)), strict=True))

    def rproc(X_, theta_, key, covars, t, dt):
        return dict(zip(states, model.move(key, x_of(X_), z_of(theta_)), strict=True))

    def dmeas(Y_, X_, theta_, covars, t):
        y = jnp.stack([Y_[name] for name in seen.columns]).reshape(shape)
        return model.score(y, x_of(X_), z_of(theta_))

    def dprior(theta_):
        return model.parameters.log_prior(z_of(theta_))

    return pypomp.Pomp(
        ys=seen,
        theta=start(model, jax.random.key(0)),
        statenames=states,
        t0=0.0,
        rinit=rinit,
        rproc=rproc,
        dmeas=dmeas,
        dprior=dprior,
        nstep=1,
    )


if __name__ == "__main__":
    serve({"pmcmc": Algorithm(pmcmc, refits=True), "if2": Algorithm(if2, refits=True)})

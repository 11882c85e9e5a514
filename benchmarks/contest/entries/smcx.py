# /// script
# # smcx allows no JAX but 0.10, and 0.10.2 is wrong on CPU. The project wants a later one: its sources are on the path.
# dependencies = ["smcx==2.1.0", "jax==0.10.1", "jaxlib==0.10.1", "numpyro", "safetensors", "tqdm", "lazy-loader"]
#
# [tool.contest.liu_west]
# num_particles = [1000, 10000, 100000]
# refits = true
#
# [tool.contest.liu_west_blind]
# num_particles = [1000, 10000, 100000]
# refits = true
#
# [tool.contest.smc2]
# num_theta = [100, 100, 300]
# num_x = [30, 100, 300]
# ///
"""Liu-West and SMC2 by `smcx` 2.1: `python -m benchmarks.contest enter smcx`.

Liu-West selects at every observation and moves the parameters only then: what the library's own warning recommends, and
the default from its version 3 on. The look-ahead is the user's: `liu_west` looks at the center of the next state, as
the paper does, and `liu_west_blind` does not look, which is better where a state moves more than it is measured. The
shrinkage, 0.95, and all of SMC2 are defaults. `smc2` compiles its inner filters anew in each call; compiled code is
kept in a folder, so that the second of two runs pays for tracing only.
"""

from __future__ import annotations

import tempfile
from functools import cache, partial

import jax
import jax.numpy as jnp
import numpy as np
import smcx
from smcx.exceptions import DegenerateWeightsError

from benchmarks.contest.models.flat import FlatModel, flat_model, remember_compiled
from benchmarks.contest.task import Algorithm, Task, serve


def liu_west(task: Task, looks_ahead: bool = True):
    """Yield the posterior of a run of its own for each time: with all times in one run, all states are kept."""
    model = model_once(task)
    for time in task.times:
        ys = jnp.asarray(task.ys[:time], jnp.float32)
        found = liu_west_run(model, task.size["num_particles"], looks_ahead)(jax.random.key(task.seed), ys)
        weights = np.exp(np.asarray(found.filtered_log_weights[-1], np.float64))
        yield model.posterior(found.filtered_params[-1], weights, found.marginal_loglik)


@cache
def liu_west_run(model: FlatModel, num_particles: int, looks_ahead: bool):
    """Return the compiled filter."""

    def run(key, ys):
        shape = ys.shape[1:]
        return smcx.liu_west_filter(
            key,
            None,
            model.move,
            lambda y, x, z: model.score(y.reshape(shape), x, z),
            lambda y, x, z: model.look_ahead(y.reshape(shape), x, z) if looks_ahead else jnp.zeros(()),
            model.prior_draws,
            ys,
            num_particles,
            resampling_threshold=2.0,
            parameter_moves="on_selection",
            param_initial_state_sampler=lambda key, num, zs: jax.vmap(model.first)(jax.random.split(key, num), zs),
            store_history=False,
        )

    return jax.jit(run)


def smc2(task: Task):
    """Yield the posteriors of one run."""
    model = model_once(task)
    shape = task.ys.shape[1:]
    found = smcx.smc2(
        jax.random.key(task.seed),
        model.prior_draws,
        model.parameters.log_prior,
        lambda key, num, z: jax.vmap(model.first, (0, None))(jax.random.split(key, num), z),
        model.move,
        lambda y, x, z: model.score(y.reshape(shape), x, z),
        jnp.asarray(task.ys, jnp.float32),
        task.size["num_theta"],
        task.size["num_x"],
    )
    log_evidence = np.cumsum(np.asarray(found.log_evidence_increments, np.float64))
    for time in task.times:
        weights = np.exp(np.asarray(found.filtered_log_weights[time - 1], np.float64))
        yield model.posterior(found.filtered_params[time - 1], weights, log_evidence[time - 1])


MADE: dict[str, FlatModel] = {}


def model_once(task: Task) -> FlatModel:
    """Return one and the same model in both runs, so that what is compiled for it is found again."""
    return MADE.setdefault(task.problem, flat_model(task))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        remember_compiled(folder)
        algorithms = {
            "liu_west": Algorithm(liu_west, refits=True),
            "liu_west_blind": Algorithm(partial(liu_west, looks_ahead=False), refits=True),
            "smc2": Algorithm(smc2),
        }
        serve(algorithms, (DegenerateWeightsError,))

"""One filter on all data sets of a problem of the contest, judged by its references: for comparisons among our own."""

from __future__ import annotations

import time
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np

import paramfilter as pf
from benchmarks.contest import references
from benchmarks.problems import CONTEST, data, inputs_of


@dataclass(frozen=True)
class Judged:
    """Errors of means in sds, ratios of sds and log evidence, a row for each run; CPU seconds a run."""

    errors: np.ndarray
    ratios: np.ndarray
    log_evidences: np.ndarray
    cpu_seconds: float

    @property
    def rms_error(self) -> float:
        """Over runs and parameters."""
        return float(np.sqrt(np.mean(self.errors**2)))


def judged(name: str, filter: pf.ParticleFilter, num_keys: int) -> Judged:
    """Run a filter on each data set with several keys, compiling apart."""
    problem = CONTEST[name]
    known = references.load()[name]
    tables = jax.tree.map(lambda table: jnp.asarray(table, float), inputs_of(problem))

    @jax.jit
    def run(key, ys):
        def turn(t, state):
            return filter.step(state, ys[t], jax.tree.map(lambda table: table[t], tables))[0]

        state = jax.lax.fori_loop(0, len(ys), turn, filter.init(key))
        posterior = filter.posterior(state)
        return posterior.mean(), posterior.sd(), state.log_evidence

    def found(seed, key):
        mean, sd, log_evidence = run(jax.random.key(100 * seed + key), jnp.asarray(data(problem, seed)[1], float))
        right = known[str(seed)][str(problem.num_steps)]
        flat = lambda values: np.concatenate([np.ravel(values[name]) for name in right["mean"]])
        unit = flat(right["sd"])
        return (flat(mean) - flat(right["mean"])) / unit, flat(sd) / unit, float(log_evidence)

    found(problem.contest_seeds[0], 0)  # compiles
    start = time.process_time()
    runs = [found(seed, key) for seed in problem.contest_seeds for key in range(num_keys)]
    seconds = (time.process_time() - start) / len(runs)
    errors, ratios, log_evidences = zip(*runs, strict=True)
    return Judged(np.array(errors), np.array(ratios), np.array(log_evidences), seconds)

"""Check the references themselves: `python -m benchmarks.truth.checks [problem ...]`.

1. Priors: the density for SciPy and the one for the library agree.
2. Model and likelihood: a bootstrap particle filter on the library's model, of the first observations and at the true
   parameters, agrees with the NumPy likelihood. Its error is the standard error over independent repeats.
3. Grids: with twice the points, the log likelihood of draws around the posterior changes by little.

Results are written to `results/truth/checks.json`.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
from scipy import special
from scipy.stats import qmc

from benchmarks.truth.problem import Problem
from benchmarks.truth.problems import PROBLEMS
from benchmarks.truth.references import RESULTS, load
from paramfilter import StateSpaceModel

NUM_SEEN = 30
NUM_PARTICLES = 20_000
NUM_REPEATS = 8
NUM_DRAWS = 8


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Check likelihoods, priors and grids of the benchmark.")
    parser.add_argument("problems", nargs="*", help="all unless given")
    chosen = parser.parse_args(arguments)
    path = RESULTS / "checks.json"
    for name in chosen.problems or PROBLEMS:
        with jax.enable_x64(True):
            row = checked(PROBLEMS[name])
        print(name, json.dumps(row), flush=True)
        known = json.loads(path.read_text()) if path.exists() else {}
        path.write_text(json.dumps({**known, name: row}, indent=1) + "\n")


def checked(problem: Problem) -> dict[str, float]:
    """Make all checks of one problem."""
    ys = problem.data(0)
    theta = np.array([list(problem.truth.values())])
    exact = float(problem.log_likelihood(theta, ys[:NUM_SEEN], 1.0)[0])
    estimates = bootstrap(problem.model(), dict(problem.truth), ys[:NUM_SEEN])
    draws = around_posterior(problem)
    change = problem.log_likelihood(draws, ys, 2.0) - problem.log_likelihood(draws, ys, 1.0)
    return {
        "difference_of_log_priors": difference_of_log_priors(problem),
        "log_likelihood": exact,
        "particle_filter_minus_this": float(np.mean(estimates) - exact),
        "standard_error": float(np.std(estimates, ddof=1) / np.sqrt(NUM_REPEATS)),
        "change_on_twice_the_points": float(np.max(np.abs(change - np.mean(change)))),
    }


def difference_of_log_priors(problem: Problem) -> float:
    """Return the largest difference between the densities of SciPy and numpyro."""
    levels = np.linspace(0.02, 0.98, 25)
    gaps = [
        np.max(np.abs(prior.log_density(prior.quantile(levels)) - prior.numpyro.log_prob(prior.quantile(levels))))
        for prior in problem.prior.parts.values()
    ]
    return float(max(gaps))


def around_posterior(problem: Problem) -> np.ndarray:
    """Return values of theta within two posterior sds of the mean, coordinate by coordinate."""
    answer = load()[problem.name]["0"]
    mean, sd = (np.array([list(answer[part].values())]) for part in ("mean", "sd"))
    z, beside = problem.prior.coordinate(mean), problem.prior.coordinate(mean - 0.2 * sd)
    cube = qmc.Sobol(mean.shape[1], rng=0).random(NUM_DRAWS)
    steps = np.clip(special.ndtri(np.clip(cube, 1e-6, 1 - 1e-6)), -2, 2)
    return problem.prior.natural(z + steps * (z - beside) / 0.2)


def bootstrap(model: StateSpaceModel, theta: dict[str, float], ys: np.ndarray) -> np.ndarray:
    """Return independent estimates of the log likelihood, from the model's own functions."""

    def step(x, at):
        y, key = at
        key_resample, key_move = jax.random.split(key)
        keys = jax.random.split(key_move, NUM_PARTICLES)
        x = jax.vmap(lambda key, x: model.transition(theta, x, None).sample(key))(keys, x)
        safe_y = jnp.where(jnp.isnan(y), 0.0, y)
        log_weights = jax.vmap(lambda x: model.observation(theta, x, None).log_prob(safe_y))(x)
        log_weights = jnp.where(jnp.any(jnp.isnan(y)), 0.0, log_weights)
        places = (jnp.arange(NUM_PARTICLES) + jax.random.uniform(key_resample)) / NUM_PARTICLES
        ancestors = jnp.searchsorted(jnp.cumsum(jax.nn.softmax(log_weights)), places)
        return x[jnp.minimum(ancestors, NUM_PARTICLES - 1)], jax.nn.logsumexp(log_weights) - jnp.log(NUM_PARTICLES)

    @jax.jit
    def estimate(key):
        key_initial, key_steps = jax.random.split(key)
        x = jax.vmap(model.initial(theta, None).sample)(jax.random.split(key_initial, NUM_PARTICLES))
        return jnp.sum(jax.lax.scan(step, x, (jnp.asarray(ys), jax.random.split(key_steps, len(ys))))[1])

    return np.array([estimate(key) for key in jax.random.split(jax.random.key(0), NUM_REPEATS)])


if __name__ == "__main__":
    main()

"""Every entry against exact answers, before anything is timed.

    python -m benchmarks.contest.check [densities|particles|numpyro|blackjax|...|all:particles|all:smcx ...]

- `densities`: the models written again for `particles`: log prior, transition and observation at its own draws, against
  paramfilter's. The worst difference of each problem.
- An entry: 40 observations of `sin` by all its algorithms, eight seeds; `ar1` for Storvik's filter and for Liu-West
  with a look-ahead, which collapses on `sin`. The mean over the seeds less the exact one, in posterior sds and in
  standard errors over the seeds; the same for log evidence. IF2 is compared with the likelihood's maximum. More than
  five standard errors is marked.
- `all:` and an entry: the smallest size of each of its algorithms on the beginning of every problem, gaps and inputs
  included, and on the same backwards. Are the answers finite, and is the second another one?
"""

from __future__ import annotations

import sys

import jax
import jax.numpy as jnp
import numpy as np

import paramfilter as pf
from benchmarks.contest.entry import entry
from benchmarks.contest.models.flat import model_of
from benchmarks.contest.program import Program, task_of
from benchmarks.problems import CONTEST, data, inputs_of

NUM_STEPS = 40
SEEDS = list(range(8))
NUM_FIRST = 30
SUSPICIOUS = 5.0
MOST_SECONDS = 600.0
TRUTH = {"sin": {"theta": 0.7}, "ar1": {"phi": 0.8, "q": 1.0, "r": 1.0}}
CHECKS = {
    "particles": {
        "smc2": {"num_theta": 200, "num_x": 300},
        "pmmh": {"num_iterations": 1000, "num_x": 300},
    },
    "smcx": {
        "liu_west": {"num_particles": 10_000},
        "liu_west_blind": {"num_particles": 10_000},
        "smc2": {"num_theta": 300, "num_x": 300},
    },
    "numpyro": {
        "nuts_centered": {"num_draws": 1000, "num_warmup": 1000},
        "nuts_noncentered": {"num_draws": 1000, "num_warmup": 1000},
        "nuts": {"num_draws": 1000, "num_warmup": 1000},
    },
    "blackjax": {
        "nuts_centered": {"num_draws": 1000, "num_warmup": 1000},
        "nuts_noncentered": {"num_draws": 1000, "num_warmup": 1000},
        "nuts": {"num_draws": 1000, "num_warmup": 1000},
    },
    "dynamax": {"unscented": {}},
    "statsmodels": {"maximum_likelihood": {}},
    "smcs": {"storvik": {"num_particles": 10_000}},
    "pypomp": {
        "pmcmc": {"num_iterations": 3000, "num_x": 300},
        "if2": {"num_iterations": 100, "num_x": 3000},
    },
}


def check_densities() -> None:
    """Print the worst difference between the two ways to write each model."""
    for problem in CONTEST.values():
        inputs = inputs_of(problem)
        found = answers("particles", problem.name, [0.0], "densities", {"num_draws": 200}, [0], inputs)[0]["mean"][0]
        with jax.enable_x64(True):
            theirs = np.array([found["prior"], found["transition"], found["observation"]])
            ours = our_densities(problem.model(), found, jax.tree.map(lambda table: table[0], inputs))
            print(f"{problem.name:24s} {np.max(np.abs(theirs - ours)):.1e}", flush=True)


def our_densities(model: pf.StateSpaceModel, found: dict, inputs) -> np.ndarray:
    """Return paramfilter's log densities at the draws of `particles`."""

    def densities(theta, x_prev, x, y):
        prior = sum(jnp.sum(law.log_prob(theta[name])) for name, law in model.prior.items())
        transition = model.transition_log_prob(theta, x_prev, x, inputs)
        return jnp.stack([prior, transition, model.observation_log_prob(theta, x, y, inputs)])

    theta = {name: jnp.asarray(found["theta:" + name]) for name in model.prior}
    return np.asarray(jax.vmap(densities)(theta, *(jnp.asarray(found[name]) for name in ("x_prev", "x", "y")))).T


def answers(
    library: str, problem: str, ys, algorithm: str, size: dict[str, int], seeds: list[int], inputs=None
) -> list:
    """Ask an entry about all of the data, once for each seed."""
    with Program(entry(library)) as program:
        asked = [task_of(problem, ys, [len(ys)], algorithm, size, inputs, seed) for seed in seeds]
        return [program.ask(task, MOST_SECONDS) for task in asked]


def check_entry(name: str) -> None:
    """Print a row for each parameter of each algorithm, and one for its evidence."""
    for algorithm, size in CHECKS[name].items():
        problem = "ar1" if algorithm in ("storvik", "liu_west", "nuts", "maximum_likelihood") else "sin"
        with jax.enable_x64(False):
            _, ys = pf.simulate(jax.random.key(0), model_of(problem), TRUTH[problem], NUM_STEPS)
        exact = exact_ar1(ys) if problem == "ar1" else exact_sin(ys)
        found = answers(name, problem, ys, algorithm, size, SEEDS)
        label = f"{name} {algorithm} {' '.join(map(str, size.values()))}"
        for parameter, sd in exact["sd"].items():
            aim = exact["maximum" if algorithm == "if2" else "mean"][parameter]
            show(label, parameter, np.array([one["mean"][0][parameter] for one in found]) - aim, sd)
            if algorithm != "if2":
                sds = np.array([one["sd"][0][parameter] for one in found])
                print(f"{'':44s} sd of {parameter} over the exact one: {np.mean(sds) / sd:.3f}", flush=True)
        if found[0]["log_evidence"][0] is not None:
            log_evidence = np.array([one["log_evidence"][0] for one in found])
            show(label, "log evidence", log_evidence - exact["log_evidence"], 1.0)


def try_all(name: str) -> None:
    """Print whether each algorithm answers on each problem."""
    for ladder in entry(name).ladders:
        for problem in CONTEST.values():
            if not ladder.takes(problem.name):
                continue
            ys = data(problem, 0)[1][:NUM_FIRST]
            inputs = jax.tree.map(lambda table: table[:NUM_FIRST], inputs_of(problem))
            task = task_of(problem.name, ys, [NUM_FIRST], ladder.algorithm, ladder.rungs[0], inputs)
            with Program(entry(name)) as program:
                found, other = (program.ask(one, MOST_SECONDS) for one in (task, task | {"ys": task["ys"][::-1]}))
            finite = all(np.all(np.isfinite(value)) for value in found["mean"][0].values())
            same = "the same for other data" if found["mean"] == other["mean"] else "finite"
            said = found["error"] or (same if finite else "NaN")
            print(f"{name} {ladder.algorithm:16s} {problem.name:24s} {said}", flush=True)


def show(label: str, name: str, errors: np.ndarray, unit: float) -> None:
    """Print the mean error, its standard error, and a mark if they don't agree."""
    error, standard_error = np.mean(errors), np.std(errors, ddof=1) / np.sqrt(len(errors))
    mark = "  SUSPICIOUS" if abs(error) > SUSPICIOUS * standard_error else ""
    print(
        f"{label:44s} {name:14s} {error / unit:+8.3f} +- {standard_error / unit:.3f}"
        f"  one run {np.std(errors, ddof=1) / unit:.3f}{mark}",
        flush=True,
    )


def exact_sin(ys) -> dict:
    """Return what quadrature says of `sin`, the likelihood's maximum included."""
    model = model_of("sin")
    posterior = pf.references.grid_posterior(model, ys)
    with jax.enable_x64(True):
        log_likelihood = posterior.log_weights - np.asarray(
            jax.vmap(model.parameters.log_prior)(jnp.asarray(posterior.z))
        )
    maximum = {"theta": posterior.theta["theta"][np.argmax(log_likelihood)]}
    return dict(mean=posterior.mean(), sd=posterior.sd(), log_evidence=posterior.log_evidence, maximum=maximum)


def exact_ar1(ys, num_draws: int = 1_000_000) -> dict:
    """Return what a Kalman filter for each of many draws of the prior says of `ar1`."""
    with jax.enable_x64(True):
        keys = jax.random.split(jax.random.key(1), 3)
        draws = {
            name: np.asarray(law.sample(key, (num_draws,)))
            for key, (name, law) in zip(keys, model_of("ar1").prior.items(), strict=True)
        }
    mean, variance, log_likelihood = 0.0, 1.0, 0.0
    for y in np.asarray(ys, float):
        mean, variance = draws["phi"] * mean, draws["phi"] ** 2 * variance + draws["q"]
        spread = variance + draws["r"]
        log_likelihood -= 0.5 * (np.log(2 * np.pi * spread) + (y - mean) ** 2 / spread)
        mean, variance = mean + variance / spread * (y - mean), variance * draws["r"] / spread
    top = np.max(log_likelihood)
    weights = np.exp(log_likelihood - top)
    expect = lambda values: np.average(values, weights=weights)
    means = {name: expect(values) for name, values in draws.items()}
    sds = {name: np.sqrt(expect((values - means[name]) ** 2)) for name, values in draws.items()}
    return dict(mean=means, sd=sds, log_evidence=top + np.log(np.mean(weights)))


if __name__ == "__main__":
    for what in sys.argv[1:] or ["densities", *CHECKS]:
        if what == "densities":
            check_densities()
        elif what.startswith("all:"):
            try_all(what.removeprefix("all:"))
        else:
            check_entry(what)

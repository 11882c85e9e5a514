"""The posteriors that filters are judged by: `python -m benchmarks.references [problem ...] [--seeds 0 1 ...]`.

For each problem and data set: posterior mean and sd of each parameter on its natural scale, from methods that share
nothing with a particle filter and compute in float64.

| problem | likelihood of theta | posterior | check |
|---|---|---|---|
| sin, star | forward filter on a grid of the state | quadrature | all spacings halved |
| cauchy_ar1 | the same on a grid that follows the data | quadrature | all spacings halved |
| multispecies | Kalman filter | NUTS, 4 chains | split R-hat |
| stochastic_volatility, smooth_transition | forward filter on a grid | importance sampling | NUTS, 4 chains |

In the last row NUTS draws theta and all states together, with its own split R-hat, and a smoothed version of its draws
of theta is the proposal of the importance sampler. The two share no approximation: one has the states by quadrature and
draws of theta that are independent, the other a Markov chain. A mode that all chains missed would escape both; the
chains therefore start at draws from the prior.

Results are written after each data set, and a data set that is there is not computed again.

M. Hoffman and A. Gelman, The No-U-Turn sampler, JMLR 15 (2014); M. West, Approximating posterior distributions by
mixtures, JRSS B 55 (1993).
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from numpyro.diagnostics import effective_sample_size, split_gelman_rubin
from numpyro.infer import MCMC, NUTS
from papers.epf2013.cauchy_posterior import cauchy_posterior_of

import paramfilter as pf
from benchmarks.answers import Answer, lists, worst
from benchmarks.contest.likelihoods import LogLikelihood, kalman_log_likelihood
from benchmarks.importance import Stretch, weighted_draws, weighted_summary
from benchmarks.problems import PROBLEMS, SEEDS, Problem, data
from paramfilter.types import KeyArray

RESULTS = Path(__file__).parent / "results" / "references"
NUM_CHAINS = 4
CHECKED_SEEDS = (0,)
"""Data sets whose quadrature is repeated with all spacings halved: five minutes for `star`."""
NO_MONTE_CARLO = {"standard_error_of_mean": 0.0, "split_rhat": None}


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compute the trusted posteriors of the benchmark problems.")
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(METHODS)}; all unless given")
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    parser.add_argument("--again", action="store_true", help="compute what is there already")
    chosen = parser.parse_args(arguments)
    for name in chosen.problems or METHODS:
        for seed in chosen.seeds:
            if chosen.again or str(seed) not in load(name):
                write(name, seed, reference(PROBLEMS[name], seed))


def reference(problem: Problem, seed: int) -> Answer:
    """Compute the posterior of one data set."""
    ys = np.asarray(data(problem, seed)[1], np.float64)
    start = time.perf_counter()
    with jax.enable_x64(True):
        answer = METHODS[problem.name](problem.model(), ys, seed)
    answer["seconds"] = round(time.perf_counter() - start, 1)
    print(problem.name, seed, json.dumps(answer), flush=True)
    return answer


def load(name: str) -> dict[str, Answer]:
    """Return what is known of a problem, by seed."""
    path = RESULTS / f"{name}.json"
    return json.loads(path.read_text())["data_sets"] if path.exists() else {}


def write(name: str, seed: int, answer: Answer) -> None:
    problem = PROBLEMS[name]
    known = {**load(name), str(seed): answer}
    content = {
        "problem": name,
        "truth": problem.truth,
        "num_steps": problem.num_steps,
        "units": "mean and sd on the natural scale; errors in posterior sds, the worst over the parameters",
        "data_sets": {key: known[key] for key in sorted(known, key=int)},
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n")


def by_grid(model: pf.StateSpaceModel, ys: np.ndarray, seed: int) -> Answer:
    """Integrate over states and theta on grids."""
    found = pf.references.grid_posterior(model, ys, check=seed in CHECKED_SEEDS)
    answer = {"method": "grid_posterior", "mean": lists(found.mean()), "sd": lists(found.sd()), **NO_MONTE_CARLO}
    if found.accuracy is not None:
        answer["change_when_all_spacings_are_halved"] = {
            "mean": float(found.accuracy.mean),
            "log_sd": float(found.accuracy.log_sd),
        }
    return answer


def by_moving_grid(model: pf.StateSpaceModel, ys: np.ndarray, seed: int) -> Answer:
    """Integrate over the states of the Cauchy autoregression on grids around each observation, and over a."""
    found = cauchy_posterior_of(model, ys, check=True)
    return {
        "method": "forward filter on a grid around each observation",
        "mean": {"a": found.mean},
        "sd": {"a": found.sd},
        **NO_MONTE_CARLO,
        "change_when_all_spacings_are_halved": {"mean": found.change_of_mean, "log_sd": found.change_of_log_sd},
    }


@dataclass(frozen=True)
class Draws:
    """Parameters by name, on their natural scale and as coordinates; leading axes chain and draw."""

    theta: dict[str, np.ndarray]
    z: np.ndarray
    num_divergent: int


def nuts(
    model: pf.StateSpaceModel,
    log_density: Callable[[dict[str, Array]], Array],
    start: dict[str, Array],
    key: KeyArray,
    *,
    num_warmup: int,
    num_draws: int,
    acceptance: float = 0.8,
) -> Draws:
    """Draw from a log density of {"z": theta's coordinates, ...} with a dense metric for z and a diagonal one else."""
    kernel = NUTS(
        potential_fn=lambda at: -log_density(at),
        dense_mass=[("z",)],  # pyright: ignore[reportArgumentType]
        target_accept_prob=acceptance,
        max_tree_depth=9,
    )
    sampler = MCMC(
        kernel,
        num_warmup=num_warmup,
        num_samples=num_draws,
        num_chains=NUM_CHAINS,
        chain_method="vectorized",
        progress_bar=False,
    )
    sampler.run(key, init_params=start, extra_fields=("diverging",))
    z = sampler.get_samples(group_by_chain=True)["z"]
    theta = jax.jit(jax.vmap(jax.vmap(model.parameters.constrain)))(z)
    divergent = int(np.sum(sampler.get_extra_fields()["diverging"]))
    return Draws({name: np.asarray(values) for name, values in theta.items()}, np.asarray(z), divergent)


def summary(draws: Draws) -> Answer:
    """Return moments, Monte Carlo errors and R-hat of a run."""
    flat = {name: values.reshape(-1, *values.shape[2:]) for name, values in draws.theta.items()}
    errors = {name: 1.0 / np.sqrt(effective_sample_size(values)) for name, values in draws.theta.items()}
    rhats = {name: split_gelman_rubin(values) for name, values in draws.theta.items()}
    return {
        "mean": lists({name: np.mean(values, axis=0) for name, values in flat.items()}),
        "sd": lists({name: np.std(values, axis=0) for name, values in flat.items()}),
        "standard_error_of_mean": worst(errors),
        "split_rhat": worst(rhats),
        "num_draws": int(draws.z.shape[0] * draws.z.shape[1]),
        "num_divergent": draws.num_divergent,
    }


def by_kalman_and_nuts(model: pf.StateSpaceModel, ys: np.ndarray, seed: int) -> Answer:
    """Sample theta under the exact likelihood of a linear-Gaussian model."""
    draws = marginal_draws(model, kalman_log_likelihood(model, ys), seed, num_draws=2000)
    return {"method": "Kalman filter, NUTS", **summary(draws)}


def marginal_draws(model: pf.StateSpaceModel, log_likelihood: LogLikelihood, seed: int, num_draws: int) -> Draws:
    """Sample theta alone, in chains that start at draws from the prior."""
    key_start, key_run = jax.random.split(jax.random.key(1_000 + seed))
    start = {"z": jax.vmap(model.parameters.sample)(jax.random.split(key_start, NUM_CHAINS))}

    def log_density(at):
        return model.parameters.log_prior(at["z"]) + log_likelihood(at["z"])

    return nuts(model, log_density, start, key_run, num_warmup=500, num_draws=num_draws)


Layout = Callable[[dict[str, Array], Float[Array, " time"]], tuple[Float[Array, " time"], Float[Array, ""]]]
"""From theta and well-scaled coordinates e to the states x_0..x_T, with log |dx/de|."""


def around_data(ys: np.ndarray, observation_sd: float) -> Layout:
    """x_t = y_t + sd e_t: where the observations are sharp, all that is left is of order one."""
    center, scale = np.concatenate([[0.0], ys]), np.concatenate([[1.0], np.full(len(ys), observation_sd)])
    return lambda theta, e: (jnp.asarray(center) + scale * e, jnp.zeros(()))


def around_level(ys: np.ndarray) -> Layout:
    """x_t = level + sigma e_t: the spread of the log variances moves with sigma, so that no funnel is left."""
    level = np.log(np.var(ys))
    return lambda theta, e: (level + theta["sigma"] * e, len(e) * jnp.log(theta["sigma"]))


VOLATILITY_RANGE = (-12.0, 12.0)
"""Of the grid of log variances."""


def width_of_level(theta: dict[str, Array], num_steps: int) -> Float[Array, ""]:
    """Return the sd of mu given phi, sigma and states known exactly: as phi nears 1 it grows to that of the prior.

    On data set 6 the 4 % of the posterior with phi > 0.98 carry a quarter of the variance of mu; without this width the
    standard error of log sd(mu) was 0.3, with it 0.016.
    """
    phi, sigma, prior_sd = theta["phi"], theta["sigma"], 2.0
    precision = ((1 - phi) ** 2 * num_steps + (1 - phi**2)) / sigma**2 + 1 / prior_sd**2
    return 1 / jnp.sqrt(precision)


def by_importance(
    layout_of: Callable[[np.ndarray], Layout],
    state_range: Callable[[np.ndarray], tuple[float, float]],
    stretch: Stretch = lambda theta, num_steps: jnp.ones(()),
) -> Callable[[pf.StateSpaceModel, np.ndarray, int], Answer]:
    """Sample theta and the states together by NUTS; from there, theta alone by importance sampling."""

    def method(model, ys, seed):
        key_z, key_e, key_run, key_weigh = jax.random.split(jax.random.key(2_000 + seed), 4)
        start = {
            "z": jax.vmap(model.parameters.sample)(jax.random.split(key_z, NUM_CHAINS)),
            "e": 0.1 * jax.random.normal(key_e, (NUM_CHAINS, len(ys) + 1)),
        }
        log_density = joint_log_density(model, ys, layout_of(ys))
        draws = nuts(model, log_density, start, key_run, num_warmup=600, num_draws=750, acceptance=0.9)
        check = {"method": "NUTS on theta and states", **summary(draws)}
        centers = draws.z.reshape(-1, draws.z.shape[-1])
        weighted = weighted_draws(key_weigh, model, ys, centers, *state_range(ys), stretch)
        answer = weighted_summary(model, weighted)
        return {**answer, "split_rhat": check["split_rhat"], "check": {**check, **difference(answer, check)}}

    return method


def joint_log_density(
    model: pf.StateSpaceModel, ys: np.ndarray, layout: Layout
) -> Callable[[dict[str, Array]], Float[Array, ""]]:
    """Return log p(theta, x_{0:T}, y_{1:T}) in coordinates z and e."""

    def log_density(at):
        theta = model.parameters.constrain(at["z"])
        xs, log_volume = layout(theta, at["e"])
        moves = jax.vmap(lambda x_prev, x: model.transition_log_prob(theta, x_prev, x, None))(xs[:-1], xs[1:])
        looks = jax.vmap(lambda x, y: model.observation_log_prob(theta, x, y, None))(xs[1:], jnp.asarray(ys))
        first = model.initial_log_prob(theta, xs[0], None)
        return model.parameters.log_prior(at["z"]) + log_volume + first + jnp.sum(moves) + jnp.sum(looks)

    return log_density


def difference(answer: Answer, other: Answer) -> Answer:
    """Return the largest difference of means, in sds, and of log sds."""
    means = [abs(other["mean"][name] - answer["mean"][name]) / answer["sd"][name] for name in answer["mean"]]
    sds = [abs(np.log(other["sd"][name] / answer["sd"][name])) for name in answer["mean"]]
    return {"difference_of_mean": float(max(means)), "difference_of_log_sd": float(max(sds))}


METHODS: dict[str, Callable[[pf.StateSpaceModel, np.ndarray, int], Answer]] = {
    "multispecies": by_kalman_and_nuts,
    "stochastic_volatility": by_importance(around_level, lambda ys: VOLATILITY_RANGE, width_of_level),
    "sin": by_grid,
    "star": by_grid,
    "cauchy_ar1": by_moving_grid,
    "smooth_transition": by_importance(
        partial(around_data, observation_sd=0.1), lambda ys: (float(np.min(ys)) - 1.0, float(np.max(ys)) + 1.0)
    ),
}


if __name__ == "__main__":
    main()

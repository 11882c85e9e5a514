"""The posteriors that the contest is judged by: `python -m benchmarks.contest.references [problem ...]`.

For each problem of PROTOCOL.md, data set and time t, posterior mean and sd of each parameter on its natural scale, in
float64, with what says whether the reference is admitted.

| problem | likelihood of theta | posterior |
|---|---|---|
| sin, star | forward filter on a grid of the state | quadrature |
| cauchy_ar1 | the same on a grid that follows the data | quadrature |
| ar1, tracking, multispecies, common_factor | Kalman filter | NUTS |
| regime_switching | sum over both regimes | NUTS |
| stochastic_volatility, pound_dollar, nutria | | NUTS on theta and states, checked by importance sampling |
| epidemic, rainfall_runoff, seat_belts | | NUTS on theta and states |
| inflation, fitzhugh_nagumo | bootstrap filter, unbiased | importance sampling, checked by NUTS on theta and states |

Results are written after each answer, and what is there is not computed again. Short streams come first.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float
from papers.epf2013.cauchy_posterior import cauchy_posterior_of

import paramfilter as pf
from benchmarks.answers import Answer, lists
from benchmarks.contest.chains import difference, marginal_draws, summary
from benchmarks.contest.joint import PLAIN, Units, joint_draws
from benchmarks.contest.likelihoods import LogLikelihood, kalman_log_likelihood, regime_log_likelihood
from benchmarks.importance import Stretch, moments_of, weighted_by_particles, weighted_draws, weighted_summary
from benchmarks.problems import CONTEST, CONTEST_SEEDS, Problem, data, inputs_of
from benchmarks.tables import stored
from paramfilter.references.problem import in_float64
from paramfilter.types import Inputs, Theta

RESULTS = Path(__file__).parent.parent / "results" / "references" / "contest.json"
NUM_DRAWS = 2500
"""Of each of the four chains."""
SLOW_CHAINS = 4 * NUM_DRAWS
"""The same where chains of that length were not admitted."""
PILOT_DRAWS = 400
"""Of each chain that only says where the posterior is."""
MOST_CHANGE = 0.01
MOST_RHAT = 1.01
MOST_ERROR = 0.05
FEWEST_DRAWS = 10_000
LARGEST_WEIGHT = 0.01
NO_MONTE_CARLO = {"standard_error_of_mean": 0.0, "split_rhat": None}

Method = Callable[[pf.StateSpaceModel, np.ndarray, Inputs, int], Answer]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compute the trusted posteriors of the contest.")
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(METHODS)}; all unless given")
    parser.add_argument("--times", nargs="*", type=int, default=[0, 1, 2], help="0 for T/10, 1 for 3T/10, 2 for T")
    parser.add_argument("--seeds", nargs="*", type=int, default=list(CONTEST_SEEDS))
    parser.add_argument("--again", action="store_true", help="compute what is there already")
    chosen = parser.parse_args(arguments)
    for which in chosen.times:
        for name in chosen.problems or METHODS:
            for seed in sorted({*chosen.seeds} & {*CONTEST[name].contest_seeds}):
                num_seen = CONTEST[name].times[which]
                if chosen.again or str(num_seen) not in load().get(name, {}).get(str(seed), {}):
                    write(name, seed, num_seen, reference(CONTEST[name], seed, num_seen))


def reference(problem: Problem, seed: int, num_seen: int) -> Answer:
    """Compute the posterior of one data set after some observations."""
    ys = np.asarray(data(problem, seed)[1], np.float64)[:num_seen]
    start = time.process_time()
    with jax.enable_x64(True):
        inputs = jax.tree.map(lambda leaf: leaf[:num_seen], in_float64(inputs_of(problem)))
        answer = METHODS[problem.name](problem.model(), ys, inputs, seed)
    answer |= {"admitted": is_admitted(answer), "seconds": round(time.process_time() - start, 1)}
    print(problem.name, seed, num_seen, json.dumps(answer), flush=True)
    return answer


def is_admitted(answer: Answer) -> bool:
    """Apply the protocol's rule."""
    if "change_when_all_spacings_are_halved" in answer:
        return bool(answer["change_when_all_spacings_are_halved"]["mean"] < MOST_CHANGE)
    is_sure = answer["standard_error_of_mean"] < MOST_ERROR
    if "largest_weight" in answer:
        return bool(is_sure and answer["largest_weight"] < LARGEST_WEIGHT)
    return bool(is_sure and answer["num_draws"] >= FEWEST_DRAWS and answer["split_rhat"] < MOST_RHAT)


def load() -> dict[str, dict[str, dict[str, Answer]]]:
    """Return what is known, by problem, seed and t."""
    return stored(RESULTS)["answers"] if RESULTS.exists() else {}


def write(name: str, seed: int, num_seen: int, answer: Answer) -> None:
    known = load()
    known.setdefault(name, {}).setdefault(str(seed), {})[str(num_seen)] = answer
    content = {
        "units": "mean and sd on the natural scale; errors in posterior sds, the worst of all parameters; CPU seconds",
        "keys": "problem, seed of the data set, number of observations",
        "answers": {
            name: {
                seed: {t: known[name][seed][t] for t in sorted(known[name][seed], key=int)}
                for seed in sorted(known[name], key=int)
            }
            for name in METHODS
            if name in known
        },
    }
    RESULTS.write_text(json.dumps(content, indent=1) + "\n")


def by_grid(model: pf.StateSpaceModel, ys: np.ndarray, inputs: Inputs, seed: int) -> Answer:
    found = pf.references.grid_posterior(model, ys, check=True)
    assert found.accuracy is not None
    change = {"mean": float(found.accuracy.mean), "log_sd": float(found.accuracy.log_sd)}
    return {
        "method": "grid_posterior",
        "mean": lists(found.mean()),
        "sd": lists(found.sd()),
        **NO_MONTE_CARLO,
        "change_when_all_spacings_are_halved": change,
    }


def by_moving_grid(model: pf.StateSpaceModel, ys: np.ndarray, inputs: Inputs, seed: int) -> Answer:
    """Integrate over the states of the Cauchy autoregression on grids around each observation, and over a."""
    found = cauchy_posterior_of(model, ys, check=True)
    return {
        "method": "forward filter on a grid around each observation",
        "mean": {"a": found.mean},
        "sd": {"a": found.sd},
        **NO_MONTE_CARLO,
        "change_when_all_spacings_are_halved": {"mean": found.change_of_mean, "log_sd": found.change_of_log_sd},
    }


def by_likelihood(name: str, of: Callable[[pf.StateSpaceModel, np.ndarray], LogLikelihood]) -> Method:
    """Sample theta alone."""

    def method(model, ys, inputs, seed):
        return {"method": f"{name}, NUTS", **summary(marginal_draws(model, of(model, ys), seed, NUM_DRAWS))}

    return method


def by_joint_nuts(num_draws: int = NUM_DRAWS) -> Method:
    """Sample theta and states."""

    def method(model, ys, inputs, seed):
        return {"method": "NUTS on theta and states", **summary(joint_draws(model, ys, inputs, seed, num_draws))}

    return method


def by_joint_nuts_and_weights(
    state_range: tuple[float, float],
    stretch: Stretch = lambda theta, num_steps: jnp.ones(()),
    units: Units = PLAIN,
    num_draws: int = NUM_DRAWS,
) -> Method:
    """Sample theta and states, and hold the answer against draws of theta weighted by a forward filter on a grid."""

    def method(model, ys, inputs, seed):
        draws = joint_draws(model, ys, inputs, seed, num_draws, units)
        answer = {"method": "NUTS on theta and states", **summary(draws)}
        centers = draws.z.reshape(-1, draws.z.shape[-1])
        weighted = weighted_draws(jax.random.key(4_000 + seed), model, ys, centers, *state_range, stretch)
        check = weighted_summary(model, weighted)
        return {**answer, "check": {**check, **difference(answer, check)}}

    return method


def by_particle_weights(num_particles: int, num_pilot_draws: int = PILOT_DRAWS) -> Method:
    """Weigh draws of theta by bootstrap filters, around draws of theta and states by short chains, the check.

    Args:
        num_particles: Of each filter; as many as leave its log likelihood a standard deviation of about half a nat.
        num_pilot_draws: Of each chain.
    """

    def method(model, ys, inputs, seed):
        draws = joint_draws(model, ys, inputs, seed, num_pilot_draws)
        centers = draws.z.reshape(-1, draws.z.shape[-1])
        weighted = weighted_by_particles(jax.random.key(4_000 + seed), model, ys, inputs, centers, num_particles)
        answer = {"method": "importance sampling, bootstrap filters", **moments_of(model, *weighted)}
        check = {"method": "NUTS on theta and states", **summary(draws)}
        return {**answer, "check": {**check, **difference(answer, check)}}

    return method


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


def around_mu(theta: Theta) -> tuple[Array, Array]:
    """Return level and scale of the log variances."""
    return theta["mu"], theta["sigma"]


NUTRIA_RANGE = (-2.5, 3.5)
"""Of the grid of log abundance, in thousands; the census has -0.7 to 1.7."""

METHODS: dict[str, Method] = {
    "ar1": by_likelihood("Kalman filter", kalman_log_likelihood),
    "tracking": by_likelihood("Kalman filter", kalman_log_likelihood),
    "regime_switching": by_likelihood("sum over regimes", regime_log_likelihood),
    "multispecies": by_likelihood("Kalman filter", kalman_log_likelihood),
    "sin": by_grid,
    "nutria": by_joint_nuts_and_weights(NUTRIA_RANGE),
    "epidemic": by_joint_nuts(),
    "rainfall_runoff": by_joint_nuts(),
    "stochastic_volatility": by_joint_nuts_and_weights(VOLATILITY_RANGE, width_of_level, around_mu),
    "pound_dollar": by_joint_nuts_and_weights(VOLATILITY_RANGE, width_of_level, around_mu, SLOW_CHAINS),
    "cauchy_ar1": by_moving_grid,
    "star": by_grid,
    "common_factor": by_likelihood("Kalman filter", kalman_log_likelihood),
    "seat_belts": by_joint_nuts(SLOW_CHAINS),
    "fitzhugh_nagumo": by_particle_weights(num_particles=400),
    "inflation": by_particle_weights(num_particles=3000),
}


if __name__ == "__main__":
    main()

"""The exact posteriors: `python -m benchmarks.truth.references [problem ...] [--seeds 0 1 ...]`.

Posterior mean and sd of each parameter on the natural scale, by importance sampling in unconstrained coordinates:

1. Draw scrambled Sobol points from the prior.
2. Raise the likelihood to the largest power for which the effective sample size is a quarter of the points (a tenth
   for the prior), and fit a mixture of t distributions to the weighted points.
3. Draw from the mixture, and repeat step 2 until the power is 1; then twice more.
4. Draw the final points from the last mixture, and weigh them by the posterior itself.

| problem | log likelihood | its error, from `checks` |
|---|---|---|
| sv, counts, counts_overdispersed, student_t, sin, bimodal_sin | grid of the state | below 1e-4 |
| lotka_volterra | grid of both populations | about 0.01 |
| all others | Kalman filter | exact |

The adaptive stages of lotka_volterra use Gaussian moments in place of the grid; its final stage does not.

The powers rise slowly from the prior, so that a second lobe of the posterior is in the mixture before it is narrow.
Where the likelihood is cheap, all steps run twice with different points; `difference_of_repeats` would show a lobe that
one of the two had missed. Both may miss a lobe of a hundredth of the mass: `bimodal_sin` has such lobes, and draws half
of its final points from the prior.

The standard error of a mean is that of independent draws, which is an upper bound: Sobol points are more even.

Results are written after each problem, and what is there is not computed again without `--again`.

R. M. Neal, Annealed importance sampling, Statistics and Computing 11 (2001); O. Cappé et al., Adaptive importance
sampling in general mixture classes, Statistics and Computing 18 (2008); T. Hesterberg, Weighted average importance
sampling and defensive mixture distributions, Technometrics 37 (1995).
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from scipy import optimize, special
from scipy.stats import qmc

from benchmarks.answers import Answer
from benchmarks.truth.mixture import StudentMixture, fit
from benchmarks.truth.problem import SEEDS, Problem
from benchmarks.truth.problems import PROBLEMS

RESULTS = Path(__file__).parent.parent / "results" / "truth"
SHARE_OF_PRIOR = 0.1
SHARE_OF_STAGE = 0.25
"""Effective sample size, as a share of the points, that the next power of the likelihood may leave."""
MOST_STAGES = 50
LEAST_POWER = 1e-13
"""Of the likelihood: the prior in all but name."""
NUM_POLISH = 2
"""Stages with the full likelihood before the final one."""
FLATTENING = 0.6
"""The final proposal is fitted to this power of the likelihood, so that a small lobe or a long tail gets its points."""
MOST_ATTEMPTS = 3
"""At the final stage, until errors are small; each draws from a mixture fitted to the points of the one before."""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Compute the exact posteriors of the benchmark's problems.")
    parser.add_argument("problems", nargs="*", help=f"of {', '.join(PROBLEMS)}; all unless given")
    parser.add_argument("--seeds", nargs="*", type=int, default=list(SEEDS))
    parser.add_argument("--again", action="store_true", help="compute what is there already")
    chosen = parser.parse_args(arguments)
    for name in chosen.problems or PROBLEMS:
        known = {} if chosen.again else load().get(name, {})
        for seed in chosen.seeds:
            if str(seed) not in known:
                write(name, seed, reference(PROBLEMS[name], seed))


def load() -> dict[str, dict[str, Answer]]:
    """Return what is known, by problem and seed."""
    path = RESULTS / "references.json"
    return json.loads(path.read_text())["answers"] if path.exists() else {}


def write(name: str, seed: int, answer: Answer) -> None:
    """Put one answer beside those that are known."""
    known = load()
    known.setdefault(name, {})[str(seed)] = answer
    content = {
        "units": "mean and sd on the natural scale; errors in posterior sds, the worst of all parameters; CPU seconds",
        "keys": "problem, seed of the data set",
        "answers": {
            name: {seed: known[name][seed] for seed in sorted(known[name], key=int)}
            for name in PROBLEMS
            if name in known
        },
    }
    RESULTS.mkdir(parents=True, exist_ok=True)
    (RESULTS / "references.json").write_text(json.dumps(content, indent=1) + "\n")


def reference(problem: Problem, seed: int) -> Answer:
    """Compute the posterior of one data set."""
    start = time.process_time()
    ys = problem.data(seed)
    runs = [weighted_draws(problem, ys, repeat) for repeat in range(problem.effort.num_repeats)]
    answer = summary(problem, *(np.concatenate(parts) for parts in zip(*runs, strict=True)))
    answer["difference_of_repeats"] = None
    if len(runs) == 2:
        first, second = (summary(problem, *run) for run in runs)
        gaps = [abs(first["mean"][name] - second["mean"][name]) / answer["sd"][name] for name in answer["mean"]]
        answer["difference_of_repeats"] = max(gaps)
    effort = problem.effort
    answer["admitted"] = answer["ess"] >= effort.least_ess and answer["standard_error_of_mean"] <= effort.most_error
    answer["seconds"] = round(time.process_time() - start, 1)
    print(problem.name, seed, json.dumps(answer), flush=True)
    return answer


def weighted_draws(problem: Problem, ys: np.ndarray, repeat: int) -> tuple[np.ndarray, np.ndarray]:
    """Return coordinates of the final stage and their log weights; all attempts are pooled."""
    effort, prior = problem.effort, problem.prior
    proposal = adapt(problem, ys, repeat)
    pool_z, pool_log_weights = np.empty((0, len(prior.names))), np.empty(0)
    for attempt in range(MOST_ATTEMPTS):
        seed = 1000 * repeat + 500 + attempt
        z, log_proposal = final_draws(problem, proposal, seed)
        log_lik = log_likelihood(problem, z, ys, fineness=1.0)
        without_data = prior.log_density_of_coordinate(z) - log_proposal
        pool_z = np.concatenate([pool_z, z])
        pool_log_weights = np.concatenate([pool_log_weights, without_data + log_lik])
        found = summary(problem, pool_z, pool_log_weights)
        # repeats are pooled, so each may have a share of what is wanted
        enough = found["ess"] * effort.num_repeats >= effort.least_ess
        if enough and found["standard_error_of_mean"] <= effort.most_error * np.sqrt(effort.num_repeats):
            break
        proposal = fit(z, special.softmax(without_data + FLATTENING * log_lik), seed)
    return pool_z, pool_log_weights


def final_draws(problem: Problem, proposal: StudentMixture, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return points and their log density; a share of them may come from the prior (T. Hesterberg, 1995)."""
    effort, prior = problem.effort, problem.prior
    num_of_prior = round(effort.share_of_prior * effort.num_final)
    z = proposal.sample(effort.num_final - num_of_prior, seed)
    if num_of_prior == 0:
        return z, proposal.log_density(z)
    cube = qmc.Sobol(len(prior.names), rng=seed + 100).random(num_of_prior)
    z = np.concatenate([z, prior.coordinate(prior.quantile(cube))])
    share = num_of_prior / effort.num_final
    of_both = (np.log1p(-share) + proposal.log_density(z), np.log(share) + prior.log_density_of_coordinate(z))
    return z, np.logaddexp(*of_both)


def adapt(problem: Problem, ys: np.ndarray, repeat: int) -> StudentMixture:
    """Return a mixture close to the posterior, reached from the prior through powers of the likelihood."""
    effort, prior = problem.effort, problem.prior
    cube = qmc.Sobol(len(prior.names), rng=1000 * repeat).random(effort.num_adapt)
    z = prior.coordinate(prior.quantile(cube))
    log_prior = prior.log_density_of_coordinate(z)
    log_proposal, share, num_full, power = log_prior, SHARE_OF_PRIOR, 0, LEAST_POWER
    for stage in range(MOST_STAGES):
        log_lik = log_likelihood(problem, z, ys, effort.fineness)
        power = largest_power(log_prior - log_proposal, log_lik, share * len(z), power)
        num_full += power == 1.0
        is_last = num_full > NUM_POLISH
        log_weights = log_prior - log_proposal + (FLATTENING if is_last else power) * log_lik
        proposal = fit(z, special.softmax(log_weights), seed=1000 * repeat + stage)
        if is_last:
            return proposal
        z = proposal.sample(effort.num_adapt, 1000 * repeat + 1 + stage)
        log_prior, log_proposal, share = prior.log_density_of_coordinate(z), proposal.log_density(z), SHARE_OF_STAGE
    raise RuntimeError(f"{problem.name}: power {power:.3g} of the likelihood after {MOST_STAGES} stages")


def log_likelihood(problem: Problem, z: np.ndarray, ys: np.ndarray, fineness: float) -> np.ndarray:
    """Evaluate the likelihood at coordinates; what overflows has none."""
    with np.errstate(all="ignore"):
        found = problem.log_likelihood(problem.prior.natural(z), ys, fineness)
    return np.where(np.isfinite(found), found, -1e300)


def effective_sample_size(log_weights: np.ndarray) -> float:
    return float(1.0 / np.sum(special.softmax(log_weights) ** 2))


def largest_power(log_weights: np.ndarray, log_lik: np.ndarray, least: float, power: float) -> float:
    """Return the largest power of the likelihood, at most 1, that leaves an effective sample size.

    Args:
        log_weights: Prior over proposal.
        log_lik: The log likelihood of each point.
        least: The effective sample size that must be left.
        power: The power that the proposal was fitted to. If it leaves less, it is returned: the next fit is better.
    """

    def excess(log_power):
        return effective_sample_size(log_weights + np.exp(log_power) * log_lik) - least

    if excess(0.0) >= 0:
        return 1.0
    if excess(np.log(power)) <= 0:
        return power
    return math.exp(optimize.brentq(excess, math.log(power), 0.0, xtol=1e-3))  # pyright: ignore[reportArgumentType]


def summary(problem: Problem, z: np.ndarray, log_weights: np.ndarray) -> Answer:
    """Return moments of weighted draws and their Monte Carlo errors, by the delta method for ratios of sums."""
    weights = special.softmax(log_weights)
    thetas = problem.prior.natural(z)
    mean = weights @ thetas
    sd = np.sqrt(weights @ (thetas - mean) ** 2)
    scaled = (thetas - mean) / sd
    return {
        "mean": dict(zip(problem.prior.names, mean.tolist(), strict=True)),
        "sd": dict(zip(problem.prior.names, sd.tolist(), strict=True)),
        "standard_error_of_mean": float(np.sqrt(np.max(weights**2 @ scaled**2))),
        "standard_error_of_log_sd": float(0.5 * np.sqrt(np.max(weights**2 @ (scaled**2 - 1) ** 2))),
        "ess": effective_sample_size(log_weights),
        "largest_weight": float(np.max(weights)),
        "num_draws": len(z),
    }


if __name__ == "__main__":
    main()

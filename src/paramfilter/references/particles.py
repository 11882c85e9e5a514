"""The likelihood at each node by a large bootstrap particle filter: for states of any dimension.

All nodes share their random numbers, so that most of the noise is common to them and cancels in the posterior. The
likelihood, not its logarithm, is averaged over independent repeats, since that is what the filter estimates without
bias. The spread of the repeats gives a standard error by the jackknife.

The noise of a log-likelihood grows like sqrt(T / num_particles). Once it passes a nat or two, a mean of a few
likelihoods is carried by its luckiest repeat, and the standard error says too little: take more particles. The cost is
about 80 ns a particle and step, for each repeat at each node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float
from scipy.special import logsumexp

from paramfilter.errors import ModelError
from paramfilter.references.bootstrap import bootstrap_filter
from paramfilter.references.posterior import Accuracy, GridPosterior
from paramfilter.references.problem import NodeAnswers, Problem
from paramfilter.references.theta_grid import Frame
from paramfilter.types import KeyArray

WINDOW_NATS = 18.0
"""Depth of the window of theta: e^-18 is far below the Monte Carlo error, and nodes are dear."""
SMOOTHED_NATS = 12.0
SMOOTHING_TEMPERATURE = 4.0
"""The fit is weighted by the posterior to the power of 1/4: it sees two posterior sds for each one."""


@dataclass(frozen=True)
class Particles:
    """Estimate the likelihood with particles.

    Args:
        num_particles: Particles of one filter.
        num_repeats: Independent filters at each node; two or more give a standard error.
        smooth_degree: Degree of a polynomial fitted to the log-likelihood over the window, or None for no smoothing.
        seed: Of the random numbers; the same seed gives the same answer.
    """

    num_particles: int = 10_000
    num_repeats: int = 8
    smooth_degree: int | None = None
    seed: int = 0

    def __post_init__(self):
        if self.num_particles < 2 or self.num_repeats < 1:
            raise ModelError(
                f"Particles needs at least 2 particles and 1 repeat; got {self.num_particles} and {self.num_repeats}."
            )

    def doubled(self) -> Particles:
        """Return the same method with twice the particles and other random numbers."""
        return replace(self, num_particles=2 * self.num_particles, seed=self.seed + 1)

    def pilot(self) -> Particles:
        """Return a cheap version that is good enough to find the window of theta."""
        return replace(self, num_particles=max(2, self.num_particles // 4), num_repeats=1)


def particle_answers(problem: Problem, config: Particles) -> Callable[[Float[np.ndarray, "node param"]], NodeAnswers]:
    """Return the function that estimates the likelihood at nodes of theta."""

    def at_node(key: KeyArray, z):
        rows = jnp.broadcast_to(z, (config.num_particles, z.shape[0]))
        population = bootstrap_filter(problem, key, rows)
        return population.log_likelihood, population.means[-1], population.variances[-1]

    # one filter at a time: its particles stay in the cache
    at_nodes = jax.jit(lambda keys, zs: jax.lax.map(lambda key: jax.lax.map(lambda z: at_node(key, z), zs), keys))
    keys = jax.random.split(jax.random.key(config.seed), config.num_repeats)

    def answers(z):
        repeats, means, variances = (np.asarray(part) for part in at_nodes(keys, jnp.asarray(z)))
        repeats = np.where(np.isnan(repeats), -np.inf, repeats)
        log_likelihood = _log_mean(repeats)
        with np.errstate(invalid="ignore"):
            shares = np.nan_to_num(np.exp(repeats - logsumexp(repeats, axis=0)))[..., None]
        mean = np.sum(shares * means, axis=0)
        variance = np.sum(shares * (variances + (means - mean) ** 2), axis=0)
        return NodeAnswers(log_likelihood, mean, variance, repeats)

    return answers


def smoothed(
    answers: NodeAnswers, frame: Frame, log_prior: Float[np.ndarray, " node"], degree: int | None
) -> NodeAnswers:
    """Replace the log-likelihood by a polynomial of the given total degree, fitted where the posterior lives."""
    if degree is None:
        return answers
    fitted = _smooth(answers.log_likelihood, frame, log_prior, degree)
    return replace(answers, log_likelihood=fitted)


def jackknife(
    answers: NodeAnswers,
    frame: Frame,
    log_prior: Float[np.ndarray, " node"],
    degree: int | None,
    posterior: Callable[[NodeAnswers], GridPosterior],
) -> Accuracy | None:
    """Return standard errors of the posterior mean (in sds), log sd and log evidence, or None for one repeat."""
    if answers.repeats is None or len(answers.repeats) < 2:
        return None
    num_repeats = len(answers.repeats)
    rows = []
    for left_out in range(num_repeats):
        others = np.delete(answers.repeats, left_out, axis=0)
        part = replace(answers, log_likelihood=_log_mean(others))
        rows.append(posterior(smoothed(part, frame, log_prior, degree)))
    scale = posterior(smoothed(answers, frame, log_prior, degree)).sd()

    def worst(values: Callable[[GridPosterior, str], np.ndarray], units: Callable[[str], np.ndarray | float]) -> float:
        errors = [np.sqrt((num_repeats - 1) * np.var([values(row, name) for row in rows], axis=0)) for name in scale]
        return float(max(np.max(error / units(name)) for name, error in zip(scale, errors, strict=True)))

    return Accuracy(
        mean=worst(lambda row, name: row.mean()[name], lambda name: scale[name]),
        log_sd=worst(lambda row, name: np.log(row.sd()[name]), lambda name: 1.0),
        log_evidence=worst(lambda row, name: np.asarray(row.log_evidence), lambda name: 1.0),
    )


def _log_mean(repeats: Float[np.ndarray, "draw node"]) -> Float[np.ndarray, " node"]:
    return logsumexp(repeats, axis=0) - np.log(len(repeats))


def _smooth(
    log_likelihood: Float[np.ndarray, " node"], frame: Frame, log_prior: Float[np.ndarray, " node"], degree: int
) -> Float[np.ndarray, " node"]:
    scores = log_likelihood + log_prior
    depth = np.where(np.isfinite(scores), np.max(scores) - scores, np.inf)
    weights = np.exp(-0.5 * depth / SMOOTHING_TEMPERATURE)
    unit = 2.0 * (frame.from_v(frame.nodes) - frame.low) / (frame.high - frame.low) - 1.0
    powers = [np.polynomial.chebyshev.chebvander(unit[:, axis], degree) for axis in range(unit.shape[1])]
    if len(powers) == 1:
        design = powers[0]
    else:
        pairs = [(i, j) for i in range(degree + 1) for j in range(degree + 1 - i)]
        design = np.stack([powers[0][:, i] * powers[1][:, j] for i, j in pairs], axis=1)
    target = np.where(np.isfinite(log_likelihood), log_likelihood, 0.0)
    coefficients = np.linalg.lstsq(design * weights[:, None], target * weights, rcond=None)[0]
    # far out the polynomial is on its own, and there the noise does not matter
    return np.where(depth < SMOOTHED_NATS, design @ coefficients, log_likelihood)

"""What the experiments and the tests share: run filters on simulated data, hold them against a reference."""

from __future__ import annotations

from dataclasses import dataclass

import jax
import numpy as np

import paramfilter as pf

SMALLEST_RATIO = 1e-6
"""A collapsed filter reports an sd of zero; its ratio is counted as this."""


@dataclass(frozen=True)
class Verdict:
    """Errors of one run against the reference; sds are posterior sds of the reference.

    Attributes:
        mean_error: Error of each posterior mean, in sds.
        log_sd_ratio: Log of reported sd / right sd, for each parameter.
        state_error: Error of the filtered mean of the last state, in sds.
        evidence_error: Error of the log evidence, in nats.
    """

    mean_error: dict[str, float]
    log_sd_ratio: dict[str, float]
    state_error: float
    evidence_error: float


def data_from_prior(model: pf.StateSpaceModel, seed: int, num_steps: int):
    """Draw theta from the prior and a series from the model."""
    key_theta, key_data = jax.random.split(jax.random.key(seed))
    theta = model.parameters.constrain(model.parameters.sample(key_theta))
    return pf.simulate(key_data, model, theta, num_steps)[1]


def judge(
    filter: pf.ParticleFilter, state: pf.particles.ParticleState, reference: pf.references.GridPosterior
) -> Verdict:
    """Compare a filter's posterior with the reference's."""
    posterior = filter.posterior(state)
    mean, sd = posterior.mean(), posterior.sd()
    right_mean, right_sd = reference.mean(), reference.sd()
    weights = np.exp(np.asarray(state.log_weights, np.float64))
    state_mean = np.sum(weights * np.asarray(state.x, np.float64)) / np.sum(weights)
    return Verdict(
        mean_error={name: float((mean[name] - right_mean[name]) / right_sd[name]) for name in mean},
        log_sd_ratio={name: float(np.log(max(sd[name] / right_sd[name], SMALLEST_RATIO))) for name in mean},
        state_error=float((state_mean - reference.state_mean) / reference.state_sd),
        evidence_error=float(state.log_evidence - reference.log_evidence),
    )


@dataclass(frozen=True)
class Score:
    """Verdicts of many runs, summed up."""

    num_runs: int
    rms_mean_error: dict[str, float]
    max_mean_error: float
    mean_log_sd_ratio: dict[str, float]
    log_sd_ratio_in_standard_errors: dict[str, float]
    median_sd_ratio: dict[str, float]
    rms_state_error: float
    rms_evidence_error: float


def score(verdicts: list[Verdict], runs_per_data_set: int = 1) -> Score:
    """Sum up; standard errors are taken over data sets, whose runs share a reference."""
    names = list(verdicts[0].mean_error)
    errors = {name: np.array([v.mean_error[name] for v in verdicts]) for name in names}
    ratios = {name: np.array([v.log_sd_ratio[name] for v in verdicts]) for name in names}
    by_data_set = {name: r.reshape(-1, runs_per_data_set).mean(axis=1) for name, r in ratios.items()}
    rms = lambda values: float(np.sqrt(np.mean(np.square(values))))
    return Score(
        num_runs=len(verdicts),
        rms_mean_error={name: rms(e) for name, e in errors.items()},
        max_mean_error=float(max(np.max(np.abs(e)) for e in errors.values())),
        mean_log_sd_ratio={name: float(r.mean()) for name, r in ratios.items()},
        log_sd_ratio_in_standard_errors={name: _in_standard_errors(r) for name, r in by_data_set.items()},
        median_sd_ratio={name: float(np.exp(np.median(r))) for name, r in ratios.items()},
        rms_state_error=rms([v.state_error for v in verdicts]),
        rms_evidence_error=rms([v.evidence_error for v in verdicts]),
    )


def _in_standard_errors(values: np.ndarray) -> float:
    """Return a mean in its standard errors; 0 where all values are the same and nothing can be said."""
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(values.mean() / error) if error > 0 else 0.0

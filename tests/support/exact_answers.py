"""Storvik's filter against the exact posterior of linear-Gaussian models.

The reference is the Kalman filter at every theta of a quadrature grid. All that may differ is the Monte Carlo error of
the particles.
"""

from __future__ import annotations

import jax
import numpyro.distributions as dist

import paramfilter as pf
from tests.support.judging import Score, data_from_prior, judge, score

VARIANCE_PRIOR = dist.InverseGamma(4.0, 3.0)
"""Mean 1, sd 0.7."""

MODELS = {
    "coefficient": pf.models.linear_gaussian(),
    "process variance": pf.models.linear_gaussian(phi=0.3, q=VARIANCE_PRIOR),
    "observation variance": pf.models.linear_gaussian(phi=0.8, r=VARIANCE_PRIOR),
    "small observation variance": pf.models.linear_gaussian(phi=0.3, r=dist.InverseGamma(4.0, 0.75)),
    "coefficient + process variance": pf.models.linear_gaussian(q=VARIANCE_PRIOR),
}


def exact_answers(
    model: pf.StateSpaceModel,
    num_data_sets: int = 24,
    num_runs: int = 2,
    num_particles: int = 4000,
    num_steps: int = 50,
    resampling: pf.resampling.Resampling = pf.resampling.Systematic(),
) -> Score:
    """Run the filter on data from the prior and score it against the exact posterior."""
    filter = pf.storvik_filter(model, num_particles, resampling=resampling)
    verdicts = []
    for seed in range(num_data_sets):
        ys = data_from_prior(model, seed, num_steps)
        reference = pf.references.kalman_grid(model, ys)
        for run in range(num_runs):
            state = pf.catch_up(filter, filter.init(jax.random.key(1000 + seed * num_runs + run)), ys)
            verdicts.append(judge(filter, state, reference))
    return score(verdicts, num_runs)

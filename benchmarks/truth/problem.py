"""What one problem of the benchmark is made of, and where its random numbers come from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

import paramfilter as pf
from benchmarks.truth.priors import JointPrior

SEEDS = tuple(range(8))


@dataclass(frozen=True)
class Effort:
    """How much a reference may cost.

    Args:
        num_adapt: Points of each adaptive stage.
        num_final: Points of the final stage.
        num_repeats: Independent runs, adaptation included, which are pooled.
        fineness: Of the grids of the adaptive stages; the final stage has fineness 1.
        least_ess: The effective sample size that a reference must have.
        most_error: The largest standard error of a mean, in posterior sds.
        share_of_prior: The share of the final points that is drawn from the prior. It finds small lobes far from all
            others, which the adaptive stages lose; it is of use where there are few parameters.
    """

    num_adapt: int = 2048
    num_final: int = 16384
    num_repeats: int = 2
    fineness: float = 1.0
    least_ess: float = 1000.0
    most_error: float = 0.02
    share_of_prior: float = 0.0


LONG = Effort(num_adapt=1024, num_final=8192)
ON_A_GRID = Effort(num_adapt=512, num_final=4096, num_repeats=1, fineness=0.7)


@dataclass(frozen=True)
class Problem:
    """What a filter is asked to learn, and what the reference needs.

    Args:
        name: The name of the problem.
        prior: The priors by name.
        truth: The parameters that make the data.
        model: Makes the model of the library.
        data: Makes the observations of one seed.
        log_likelihood: `(thetas (draw, param), ys, fineness) ->` the log likelihood of each row; `fineness` multiplies
            the points of a grid, and does nothing where the likelihood is exact.
        effort: What the reference may cost.
    """

    name: str
    prior: JointPrior
    truth: Mapping[str, float]
    model: Callable[[], pf.StateSpaceModel]
    data: Callable[[int], np.ndarray]
    log_likelihood: Callable[[np.ndarray, np.ndarray, float], np.ndarray]
    effort: Effort = Effort()


def generator(stream: int, seed: int) -> np.random.Generator:  # noqa: TID251
    """Return the generator of one data set; JAX keys would tie the data to the library under test."""
    return np.random.default_rng([stream, seed])  # noqa: TID251

"""The problems on which whole filters are judged: a model, the parameters that make its data, and a length.

Data are drawn in JAX's default float32, whatever the caller's setting, so that a filter and its reference see the same
numbers. Ten data sets of each problem, seeds 0 to 9; the seed is that of the data's key.

>>> problem = PROBLEMS["sin"]
>>> xs, ys = data(problem, seed=0)
>>> ys.shape, str(ys.dtype)
((1000,), 'float32')
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
from jaxtyping import Array, Float

import paramfilter as pf
from paramfilter.models import cauchy_ar1, multispecies, sin, smooth_transition, star, stochastic_volatility
from paramfilter.models.cauchy_ar1 import TRUTH as CAUCHY_AR1_TRUTH
from paramfilter.models.multispecies import TRUTH as MULTISPECIES_TRUTH
from paramfilter.models.sin import TRUTH as SIN_TRUTH
from paramfilter.models.smooth_transition import TRUTH as SMOOTH_TRANSITION_TRUTH
from paramfilter.models.star import TRUTH as STAR_TRUTH
from paramfilter.models.stochastic_volatility import TRUTH as STOCHASTIC_VOLATILITY_TRUTH
from paramfilter.types import Theta

SEEDS = tuple(range(10))


@dataclass(frozen=True)
class Problem:
    """What a filter is asked to learn.

    Args:
        name: Of the problem, and of the file with its reference.
        model: Makes the model, priors included.
        truth: The parameters that make the data.
        num_steps: T.
    """

    name: str
    model: Callable[[], pf.StateSpaceModel]
    truth: Theta
    num_steps: int


PROBLEMS = {
    problem.name: problem
    for problem in (
        Problem("sin", sin, SIN_TRUTH, 1000),
        Problem("cauchy_ar1", cauchy_ar1, CAUCHY_AR1_TRUTH, 1000),
        Problem("star", star, STAR_TRUTH, 1000),
        Problem("stochastic_volatility", stochastic_volatility, STOCHASTIC_VOLATILITY_TRUTH, 500),
        Problem("smooth_transition", smooth_transition, SMOOTH_TRANSITION_TRUTH, 500),
        Problem("multispecies", multispecies, MULTISPECIES_TRUTH, 300),
    )
}


def data(problem: Problem, seed: int) -> tuple[Float[Array, "time *state"], Float[Array, "time *obs"]]:
    """Draw the states and the observations of one data set, in float32."""
    with jax.enable_x64(False):
        return pf.simulate(jax.random.key(seed), problem.model(), problem.truth, problem.num_steps)

"""The problems on which whole filters are judged: a model, the parameters that make its data, and a length.

Data are drawn in JAX's default float32, whatever the caller's setting, so that a filter and its reference see the same
numbers. The seed of a data set is that of its key. `CONTEST` has the problems of PROTOCOL.md, with seeds 0 to 2 where
they are simulated. Real series are read from packages that are installed in environments of their own.

>>> problem = CONTEST["sin"]
>>> xs, ys = data(problem, seed=0)
>>> ys.shape, str(ys.dtype)
((1000,), 'float32')

Weeks and days without an observation are NaN, and inputs come along:

>>> problem = CONTEST["rainfall_runoff"]
>>> ys = data(problem, seed=0)[1]
>>> int(jax.numpy.sum(jax.numpy.isnan(ys))), sorted(inputs_of(problem))
(49, ['evaporation', 'rain'])
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist
from jaxtyping import Array, Float

import paramfilter as pf
from benchmarks import recorded
from benchmarks.models import (
    common_factor,
    epidemic,
    fitzhugh_nagumo,
    inflation,
    multispecies,
    rainfall_runoff,
    seat_belts,
    theta_logistic,
)
from benchmarks.models.common_factor import TRUTH as COMMON_FACTOR_TRUTH
from benchmarks.models.epidemic import TRUTH as EPIDEMIC_TRUTH
from benchmarks.models.epidemic import inputs as seasons
from benchmarks.models.fitzhugh_nagumo import TRUTH as FITZHUGH_NAGUMO_TRUTH
from benchmarks.models.multispecies import TRUTH as MULTISPECIES_TRUTH
from benchmarks.models.rainfall_runoff import TRUTH as RAINFALL_RUNOFF_TRUTH
from benchmarks.models.rainfall_runoff import inputs as weather
from paramfilter import models
from paramfilter.models.cauchy_ar1 import TRUTH as CAUCHY_AR1_TRUTH
from paramfilter.models.linear_gaussian import TRUTH as LINEAR_GAUSSIAN_TRUTH
from paramfilter.models.regime_switching import TRUTH as REGIME_SWITCHING_TRUTH
from paramfilter.models.sin import TRUTH as SIN_TRUTH
from paramfilter.models.star import TRUTH as STAR_TRUTH
from paramfilter.models.stochastic_volatility import TRUTH as STOCHASTIC_VOLATILITY_TRUTH
from paramfilter.models.tracking import TRUTH as TRACKING_TRUTH
from paramfilter.types import Inputs, Theta

CONTEST_SEEDS = (0, 1, 2)
SEAT_BELT_MONTHS = 192


@dataclass(frozen=True)
class Problem:
    """What a filter is asked to learn.

    Args:
        name: Of the problem, and of the file with its reference.
        model: Makes the model, priors included.
        truth: The parameters that make the data; empty where they were recorded.
        num_steps: T.
        inputs: Makes the inputs of T steps, if the model reads any.
        gaps: Ranges of steps, counted from 0, without observations: the first, and the one after the last.
        recorded: Reads the observations, where they are not simulated.
    """

    name: str
    model: Callable[[], pf.StateSpaceModel]
    truth: Theta
    num_steps: int
    inputs: Callable[[int], Inputs] | None = None
    gaps: tuple[tuple[int, int], ...] = ()
    recorded: Callable[[], np.ndarray] | None = None

    @property
    def times(self) -> tuple[int, int, int]:
        """Numbers of observations after which the contest asks for the posterior."""
        return self.num_steps // 10, 3 * self.num_steps // 10, self.num_steps

    @property
    def contest_seeds(self) -> tuple[int, ...]:
        """Data sets of the contest: of a recorded series there is one."""
        return CONTEST_SEEDS if self.recorded is None else CONTEST_SEEDS[:1]


def ar1() -> pf.StateSpaceModel:
    """Make an autoregression with unknown coefficient and variances, observed with noise."""
    return models.linear_gaussian(
        phi=dist.Normal(0.5, 0.3), q=dist.InverseGamma(3.0, 2.0), r=dist.InverseGamma(3.0, 2.0)
    )


def nutria() -> pf.StateSpaceModel:
    """Make theta-logistic growth in the unit of the nutria census, thousands of animals a month apart."""
    prior = {
        "r": dist.LogNormal(np.log(0.1), 0.7),
        "K": dist.LogNormal(np.log(3.0), 0.5),
        "sigma": dist.LogNormal(np.log(0.1), 0.5),
    }
    return theta_logistic(observation_sd=0.05, prior=prior, initial=dist.Normal(-0.5, 0.5))


def table(*problems: Problem) -> dict[str, Problem]:
    return {problem.name: problem for problem in problems}


HELD_OUT = table(
    Problem(
        "seat_belts",
        lambda: seat_belts(recorded.seat_belt_inputs(SEAT_BELT_MONTHS)),
        {},
        SEAT_BELT_MONTHS,
        recorded.seat_belt_inputs,
        recorded=recorded.van_drivers_killed,
    ),
    Problem("inflation", inflation, {}, 202, recorded=recorded.inflation),
    Problem("fitzhugh_nagumo", fitzhugh_nagumo, FITZHUGH_NAGUMO_TRUTH, 300),
    Problem("common_factor", common_factor, COMMON_FACTOR_TRUTH, 500),
)
"""Problems that were chosen before anything was run on them, and that no default was made on."""

CONTEST = table(
    Problem("sin", models.sin, SIN_TRUTH, 1000),
    Problem("cauchy_ar1", models.cauchy_ar1, CAUCHY_AR1_TRUTH, 1000),
    Problem("star", models.star, STAR_TRUTH, 1000),
    Problem("ar1", ar1, LINEAR_GAUSSIAN_TRUTH, 1000),
    Problem("stochastic_volatility", models.stochastic_volatility, STOCHASTIC_VOLATILITY_TRUTH, 500),
    Problem("pound_dollar", models.stochastic_volatility, {}, 750, recorded=recorded.pound_dollar),
    Problem("nutria", nutria, {}, 120, recorded=recorded.nutria),
    Problem("tracking", models.tracking, TRACKING_TRUTH, 500),
    Problem("regime_switching", models.regime_switching, REGIME_SWITCHING_TRUTH, 500),
    Problem("epidemic", epidemic, EPIDEMIC_TRUTH, 300, seasons, ((11, 14), (50, 52), (130, 142), (225, 227))),
    Problem(
        "rainfall_runoff",
        rainfall_runoff,
        RAINFALL_RUNOFF_TRUTH,
        365,
        weather,
        ((20, 24), (80, 95), (200, 230)),
    ),
    Problem("multispecies", multispecies, MULTISPECIES_TRUTH, 300),
    *HELD_OUT.values(),
)


def data(problem: Problem, seed: int) -> tuple[Float[Array, "time *state"] | None, Float[Array, "time *obs"]]:
    """Draw the states and the observations of one data set, in float32; of a recorded one no states are known."""
    with jax.enable_x64(False):
        if problem.recorded is not None:
            return None, jnp.asarray(problem.recorded(), jnp.float32)
        xs, ys = pf.simulate(
            jax.random.key(seed), problem.model(), problem.truth, problem.num_steps, inputs_of(problem)
        )
        for first, after in problem.gaps:
            ys = ys.astype(jnp.float32).at[first:after].set(jnp.nan)
        return xs, ys.astype(jnp.float32)


def inputs_of(problem: Problem) -> Inputs:
    """Return the inputs of all steps, in float32, or None."""
    with jax.enable_x64(False):
        return None if problem.inputs is None else problem.inputs(problem.num_steps)

"""The contest's models for `particles`, in numpy: the laws and priors of `paramfilter.models`, written again.

`check.py` compares every density with paramfilter's. A class has the parameters as attributes; `initial` is the law of
x_0, which is not observed, so that `particles`, whose first state is observed, is given the law of x_1.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import random  # noqa: TID251  `particles` draws from numpy's global state, and custom laws have to as well
from particles import distributions as dists
from particles import state_space_models as ssms
from scipy.special import expit

AR1_PRIOR = {"phi": dists.Normal(0.0, 1.0), "q": dists.InvGamma(3.0, 2.0), "r": dists.InvGamma(3.0, 2.0)}
"""The prior of `ar1`: has to be that of `models.AR1_PRIOR`."""


class Cauchy(dists.LocScaleDist):
    """The Cauchy law, which `particles` lacks."""

    def rvs(self, size=None):
        return self.loc + self.scale * random.standard_cauchy(size)  # noqa: NPY002

    def logpdf(self, x):
        return -np.log(np.pi * self.scale) - np.log1p(((x - self.loc) / self.scale) ** 2)


class AfterOneStep(dists.ProbDist):
    """The law of x_1: a draw of x_0, moved once."""

    def __init__(self, model: Model):
        self.model = model
        self.dim = model.num_states

    def rvs(self, size=None):
        return self.model.PX(0, self.model.initial().rvs(size=size)).rvs(size=size)


class WhereObserved(dists.ProbDist):
    """A law of an observation that says nothing of a value that is missing."""

    def __init__(self, law: Any, num_particles: int):
        self.law = law
        self.num_particles = num_particles

    def logpdf(self, y):
        return np.zeros(self.num_particles) if np.isnan(y) else self.law.logpdf(y)


class Model(ssms.StateSpaceModel):
    """A state-space model with x_0 before the first observation, inputs and gaps.

    `inputs` are set for each task, a table for each name; `gaps` says whether any observation is missing.
    """

    num_states = 1
    inputs: Any = None
    gaps = False

    def initial(self):
        """Return the law of x_0."""
        return dists.Normal()

    def observations(self, t, x) -> list:
        """Return a law for each component of y_t."""
        raise NotImplementedError

    def PX0(self):
        return AfterOneStep(self)

    def PY(self, t, xp, x):
        laws = self.observations(t, x)
        if self.gaps:
            laws = [WhereObserved(law, len(x)) for law in laws]
        return laws[0] if len(laws) == 1 else dists.IndepProd(*laws)


class ObservedWithNoise(Model):
    """The state is seen with Gaussian noise of known sd."""

    observation_sd = 0.1

    def observations(self, t, x):
        return [dists.Normal(x, self.observation_sd)]


class Sin(ObservedWithNoise):
    def PX(self, t, xp):
        return dists.Normal(np.sin(self.theta * xp), 1.0)


class CauchyAr1(ObservedWithNoise):
    observation_sd = 10.0

    def PX(self, t, xp):
        return Cauchy(self.a * xp, 1.0)


class Ar1(Model):
    def PX(self, t, xp):
        return dists.Normal(self.phi * xp, np.sqrt(self.q))

    def observations(self, t, x):
        return [dists.Normal(x, np.sqrt(self.r))]


class Star(ObservedWithNoise):
    def PX(self, t, xp):
        switch = expit(self.gamma * (xp - self.c))
        return dists.Normal(0.9 * xp * (1 - switch) + 0.1 * xp * switch, 1.0)


class SmoothTransition(ObservedWithNoise):
    def PX(self, t, xp):
        switch = expit(self.gamma * (xp - self.c))
        return dists.Normal(xp * (self.low * (1 - switch) + self.high * switch), self.sigma)


class StochasticVolatility(Model):
    def initial(self):
        return dists.Normal(self.mu, self.sigma / np.sqrt(1 - self.phi**2))

    def PX(self, t, xp):
        return dists.Normal(self.mu + self.phi * (xp - self.mu), self.sigma)

    def observations(self, t, x):
        return [dists.Normal(0.0, np.exp(x / 2))]


class ThetaLogistic(ObservedWithNoise):
    observation_sd = 0.2

    def initial(self):
        return dists.Normal(1.0, 0.5)

    def PX(self, t, xp):
        crowding = np.exp(self.theta * (xp - np.log(self.K)))
        return dists.Normal(xp + self.r * (1 - crowding), self.sigma)


class Multispecies(Model):
    num_states = 2

    def initial(self):
        return dists.IndepProd(dists.Normal(0.0, 2.0), dists.Normal(0.0, 2.0))

    def PX(self, t, xp):
        mean, sd = self.u + xp @ np.reshape(self.B, (2, 2)).T, np.sqrt(self.q)
        return dists.IndepProd(*(dists.Normal(mean[:, one], sd[one]) for one in range(2)))

    def observations(self, t, x):
        return [dists.Normal(x[:, one], np.sqrt(self.r[one])) for one in range(2)]


def prior_of_multispecies() -> dict[str, Any]:
    """Return the prior; B is laid out row by row."""
    entry = lambda mean: dists.Normal(mean, 0.3)
    return {
        "u": dists.IID(dists.Normal(0.0, 1.0), 2),
        "B": dists.IndepProd(entry(0.5), entry(0.0), entry(0.0), entry(0.5)),
        "q": dists.IID(dists.InvGamma(3.0, 0.4), 2),
        "r": dists.IID(dists.InvGamma(3.0, 0.2), 2),
    }


STOCHASTIC_VOLATILITY_PRIOR = {
    "mu": dists.Normal(0.0, 2.0),
    "phi": dists.LinearD(dists.Beta(20.0, 1.5), a=2.0, b=-1.0),
    "sigma": dists.LogNormal(-1.5, 0.5),
}

THETA_LOGISTIC_PRIOR = {
    "r": dists.LogNormal(math.log(0.4), 0.5),
    "K": dists.LogNormal(math.log(8.0), 0.5),
    "theta": dists.LogNormal(0.0, 0.5),
    "sigma": dists.LogNormal(math.log(0.2), 0.5),
}

MODELS = {
    "sin": (Sin, {"theta": dists.Normal(0.0, 0.2)}),
    "cauchy_ar1": (CauchyAr1, {"a": dists.Normal(0.0, 0.2)}),
    "star": (Star, {"gamma": dists.Normal(1.0, 1.0), "c": dists.Normal(2.0, 2.0)}),
    "ar1": (Ar1, AR1_PRIOR),
    "stochastic_volatility": (StochasticVolatility, STOCHASTIC_VOLATILITY_PRIOR),
    "pound_dollar": (StochasticVolatility, STOCHASTIC_VOLATILITY_PRIOR),
    "nutria": (ThetaLogistic, THETA_LOGISTIC_PRIOR),
    "smooth_transition": (
        SmoothTransition,
        {
            "gamma": dists.LogNormal(0.0, 0.5),
            "c": dists.Normal(2.0, 2.0),
            "low": dists.Normal(0.5, 0.5),
            "high": dists.Normal(0.5, 0.5),
            "sigma": dists.LogNormal(0.0, 0.5),
        },
    ),
    "multispecies": (Multispecies, prior_of_multispecies()),
}
"""For each problem the class of its model and the priors."""

SHAPES = {"B": (2, 2)}
"""Parameters that are laid out flat here and have this shape in `paramfilter.models`."""


def model_for(problem: str, ys: np.ndarray, inputs: Any) -> tuple[type[Model], dists.StructDist]:
    """Return a model's class for these data and its prior."""
    base, prior = MODELS[problem]
    settled = type(base.__name__, (base,), {"inputs": inputs, "gaps": bool(np.isnan(ys).any())})
    return settled, dists.StructDist(prior)


def named(theta: np.ndarray) -> dict[str, np.ndarray]:
    """Turn a structured array of draws into a dict of arrays, in paramfilter's shapes."""
    return {name: theta[name].reshape(-1, *SHAPES.get(name, theta[name].shape[1:])) for name in theta.dtype.names}

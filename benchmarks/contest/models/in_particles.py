"""The contest's models for `particles`, in numpy: the laws of `paramfilter.models`, written again.

`check.py` compares every density with paramfilter's. A class has the parameters as attributes; `initial` is the law of
x_0, which is not observed, so that `particles`, whose first state is observed, is given the law of x_1. Where states
and observations are Gaussian, `proposal` is the law of x_t given y_t, and `Guided` filters with it from t = 2 on.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy import random  # noqa: TID251  `particles` draws from numpy's global state, and custom laws have to as well
from particles import distributions as dists
from particles import state_space_models as ssms
from scipy.special import expit, logsumexp, softmax

from benchmarks.contest.models.priors_in_particles import PRIORS


class Cauchy(dists.LocScaleDist):
    """The Cauchy law, which `particles` lacks."""

    def rvs(self, size=None):
        return self.loc + self.scale * random.standard_cauchy(size)  # noqa: NPY002

    def logpdf(self, x):
        return -np.log(np.pi * self.scale) - np.log1p(((x - self.loc) / self.scale) ** 2)


class Bernoulli(dists.DiscreteDist):
    """The law of 0 or 1, with a probability of 1 for each particle."""

    def __init__(self, probability):
        self.probability = probability

    def rvs(self, size=None):
        return (random.uniform(size=size) < self.probability).astype(int)  # noqa: NPY002

    def logpdf(self, x):
        return np.log(np.where(x == 1, self.probability, 1 - self.probability))


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


class Guided(ssms.GuidedPF):
    """A guided filter whose first states are drawn without a look at y_1: the law of x_1 has no density here."""

    def M0(self, N):
        return self.ssm.PX0().rvs(size=N)

    def logG(self, t, xp, x):
        return self.ssm.PY(0, xp, x).logpdf(self.data[0]) if t == 0 else super().logG(t, xp, x)


def seen(law: dists.Normal, *looks: tuple[float, Any, Any, Any]) -> dists.Normal:
    """Return a normal x given some y = shift + loading x + N(0, sd^2), each as (y, loading, shift, sd)."""
    precision, total = law.scale**-2.0, law.loc * law.scale**-2.0
    for y, loading, shift, sd in looks:
        precision = precision + loading**2 / sd**2
        total = total + loading * (y - shift) / sd**2
    return dists.Normal(total / precision, precision**-0.5)


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


class NormalObservedWithNoise(ObservedWithNoise):
    """The same where the state's noise is Gaussian too."""

    def proposal(self, t, xp, data):
        return seen(self.PX(t, xp), (data[t], 1.0, 0.0, self.observation_sd))


class Sin(NormalObservedWithNoise):
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

    def proposal(self, t, xp, data):
        return seen(self.PX(t, xp), (data[t], 1.0, 0.0, np.sqrt(self.r)))


class Star(NormalObservedWithNoise):
    def PX(self, t, xp):
        switch = expit(self.gamma * (xp - self.c))
        return dists.Normal(0.9 * xp * (1 - switch) + 0.1 * xp * switch, 1.0)


class StochasticVolatility(Model):
    def initial(self):
        return dists.Normal(self.mu, self.sigma / np.sqrt(1 - self.phi**2))

    def PX(self, t, xp):
        return dists.Normal(self.mu + self.phi * (xp - self.mu), self.sigma)

    def observations(self, t, x):
        return [dists.Normal(0.0, np.exp(x / 2))]


class Nutria(NormalObservedWithNoise):
    observation_sd = 0.05

    def initial(self):
        return dists.Normal(-0.5, 0.5)

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

    def proposal(self, t, xp, data):
        looks = [(data[t][one], 1.0, 0.0, np.sqrt(self.r[one])) for one in range(2)]
        return dists.IndepProd(*(seen(law, look) for law, look in zip(self.PX(t, xp).dists, looks, strict=True)))


class Tracking(Model):
    num_states = 2
    drift = np.array([[1.0, 1.0], [0.0, 1.0]])
    shake = np.array([[1 / 3, 1 / 2], [1 / 2, 1.0]])

    def initial(self):
        return dists.IndepProd(dists.Normal(0.0, 1.0), dists.Normal(0.0, 0.5))

    def PX(self, t, xp):
        return dists.MvNormal(loc=xp @ self.drift.T, cov=self.q * self.shake)

    def observations(self, t, x):
        first, second = np.sqrt(self.r)
        return [dists.Normal(x[:, 0], first), dists.Normal(x[:, 0] + self.bias, second)]

    def proposal(self, t, xp, data):
        mean, cov = xp @ self.drift.T, self.q * self.shake
        noise = 1 / np.sum(1 / self.r)  # of both sensors together
        y = noise * (data[t][0] / self.r[0] + (data[t][1] - self.bias) / self.r[1])
        gain = cov[:, 0] / (cov[0, 0] + noise)
        return dists.MvNormal(loc=mean + (y - mean[:, :1]) * gain, cov=cov - np.outer(gain, cov[0]))


class RegimeSwitching(Model):
    def initial(self):
        return Bernoulli(0.5)

    def PX(self, t, xp):
        return Bernoulli(np.where(xp == 1, self.stay_high, 1 - self.stay_low))

    def observations(self, t, x):
        return [dists.Normal(self.low + self.gap * x, self.sd)]


class Epidemic(Model):
    num_states = 2
    population = 100_000
    recovery = 0.7
    waning = 0.02

    def initial(self):
        return dists.IndepProd(dists.Normal(math.log(1.5), 0.3), dists.Normal(math.log(0.02), 0.5))

    def PX(self, t, xp):
        susceptible, infected, immune = shares(xp)
        force = self.beta * np.exp(self.amplitude * self.inputs[t]) * infected
        infections = -susceptible * np.expm1(-force)
        recovered = (1 - self.waning) * immune - infected * math.expm1(-self.recovery)
        left = (
            susceptible - infections + self.waning * immune,
            infected * math.exp(-self.recovery) + infections,
        )
        return dists.IndepProd(*(dists.Normal(np.log(one / recovered), 0.1) for one in left))

    def observations(self, t, x):
        return [dists.Poisson(self.population * self.reporting * shares(x)[1])]


def shares(x: np.ndarray) -> np.ndarray:
    """Return the shares of the population that are susceptible, infected and immune."""
    return softmax(np.column_stack([x, np.zeros(len(x))]), axis=1).T


class RainfallRunoff(Model):
    num_states = 2

    def initial(self):
        return dists.IndepProd(dists.Normal(math.log(2.0), 0.5), dists.Normal(math.log(30.0), 0.5))

    def PX(self, t, xp):
        rain, evaporation = self.inputs["rain"][t], self.inputs["evaporation"][t]
        added = np.array([self.share, 1 - self.share]) * rain**2 / (rain + evaporation)
        mean = np.log(np.exp(xp) + added) + np.log1p(-np.array([self.k_quick, self.k_slow]))
        return dists.IndepProd(*(dists.Normal(mean[:, one], self.sigma) for one in range(2)))

    def observations(self, t, x):
        return [dists.Normal(logsumexp(x + np.log([self.k_quick, self.k_slow]), axis=1), 0.1)]


class SeatBelts(Model):
    def initial(self):
        return dists.Normal(2.0, 1.0)

    def PX(self, t, xp):
        return dists.Normal(xp, self.sigma)

    def observations(self, t, x):
        law, cosine, sine = self.inputs[t]
        return [dists.Poisson(np.exp(x + self.belt * law + self.cosine * cosine + self.sine * sine))]


class Inflation(Model):
    num_states = 2

    def initial(self):
        spread = self.sigma_h / np.sqrt(1 - self.phi**2)
        return dists.IndepProd(dists.Normal(2.0, 3.0), dists.Normal(self.mu, spread))

    def PX(self, t, xp):
        h = dists.Normal(self.mu + self.phi * (xp[:, 1] - self.mu), self.sigma_h)
        return dists.IndepProd(dists.Normal(xp[:, 0], self.sigma_level), h)

    def observations(self, t, x):
        return [dists.Normal(x[:, 0], np.exp(x[:, 1] / 2))]


class FitzhughNagumo(Model):
    num_states = 2
    time_step = 0.3
    observation_sd = 0.3

    def initial(self):
        return dists.IndepProd(dists.Normal(-1.0, 0.3), dists.Normal(-0.5, 0.3))

    def PX(self, t, xp):
        v, w = xp.T
        voltage = v + self.time_step * (v - v**3 / 3 - w + self.current)
        recovery = w + self.time_step * self.rate * (v + self.shift - 0.8 * w)
        return dists.IndepProd(dists.Normal(voltage, self.sigma), dists.Normal(recovery, 0.02))

    def observations(self, t, x):
        return [dists.Normal(x[:, 0], self.observation_sd)]

    def proposal(self, t, xp, data):
        voltage, recovery = self.PX(t, xp).dists
        return dists.IndepProd(seen(voltage, (data[t], 1.0, 0.0, self.observation_sd)), recovery)


class CommonFactor(Model):
    def PX(self, t, xp):
        return dists.Normal(self.phi * xp, np.sqrt(self.q))

    def observations(self, t, x):
        first, second = np.sqrt(self.r)
        return [dists.Normal(x, first), dists.Normal(self.shift + self.loading * x, second)]

    def proposal(self, t, xp, data):
        first, second = np.sqrt(self.r)
        return seen(self.PX(t, xp), (data[t][0], 1.0, 0.0, first), (data[t][1], self.loading, self.shift, second))


MODELS: dict[str, type[Model]] = {
    "sin": Sin,
    "cauchy_ar1": CauchyAr1,
    "star": Star,
    "ar1": Ar1,
    "stochastic_volatility": StochasticVolatility,
    "pound_dollar": StochasticVolatility,
    "nutria": Nutria,
    "tracking": Tracking,
    "regime_switching": RegimeSwitching,
    "epidemic": Epidemic,
    "rainfall_runoff": RainfallRunoff,
    "multispecies": Multispecies,
    "seat_belts": SeatBelts,
    "inflation": Inflation,
    "fitzhugh_nagumo": FitzhughNagumo,
    "common_factor": CommonFactor,
}
"""The class of each problem's model."""

SHAPES = {"B": (2, 2)}
"""Parameters that are laid out flat here and have this shape in `paramfilter.models`."""


def model_for(problem: str, ys: np.ndarray, inputs: Any) -> tuple[type[Model], dists.StructDist]:
    """Return a model's class for these data and its prior."""
    base = MODELS[problem]
    settled = type(base.__name__, (base,), {"inputs": inputs, "gaps": bool(np.isnan(ys).any())})
    return settled, dists.StructDist(PRIORS[problem])


def filter_for(model: type[Model]) -> type[ssms.Bootstrap]:
    """Return the filter to run inside: guided where the model says how."""
    return ssms.Bootstrap if model.proposal is ssms.StateSpaceModel.proposal else Guided


def named(theta: np.ndarray) -> dict[str, np.ndarray]:
    """Turn a structured array of draws into a dict of arrays, in paramfilter's shapes."""
    return {name: theta[name].reshape(-1, *SHAPES.get(name, theta[name].shape[1:])) for name in theta.dtype.names}

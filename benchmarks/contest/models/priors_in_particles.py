"""The priors of the contest's problems for `particles`; `check.py` compares them with the problems' own."""

from __future__ import annotations

import math

from particles.distributions import IID, Beta, IndepProd, InvGamma, LinearD, LogNormal, Normal, Uniform

STOCHASTIC_VOLATILITY = {
    "mu": Normal(0.0, 2.0),
    "phi": LinearD(Beta(20.0, 1.5), a=2.0, b=-1.0),
    "sigma": LogNormal(-1.5, 0.5),
}

PRIORS = {
    "sin": {"theta": Normal(0.0, 0.2)},
    "cauchy_ar1": {"a": Normal(0.0, 0.2)},
    "star": {"gamma": Normal(1.0, 1.0), "c": Normal(2.0, 2.0)},
    "ar1": {"phi": Normal(0.5, 0.3), "q": InvGamma(3.0, 2.0), "r": InvGamma(3.0, 2.0)},
    "stochastic_volatility": STOCHASTIC_VOLATILITY,
    "pound_dollar": STOCHASTIC_VOLATILITY,
    "nutria": {
        "r": LogNormal(math.log(0.1), 0.7),
        "K": LogNormal(math.log(3.0), 0.5),
        "theta": LogNormal(0.0, 0.5),
        "sigma": LogNormal(math.log(0.1), 0.5),
    },
    "tracking": {"q": InvGamma(3.0, 0.1), "r": IID(InvGamma(3.0, 2.0), 2), "bias": Normal(0.0, 1.0)},
    "regime_switching": {
        "stay_low": Beta(9.0, 1.5),
        "stay_high": Beta(9.0, 1.5),
        "low": Normal(0.0, 1.0),
        "gap": LogNormal(0.5, 0.5),
        "sd": LogNormal(0.0, 0.5),
    },
    "epidemic": {"beta": LogNormal(math.log(1.2), 0.3), "amplitude": Normal(0.2, 0.2), "reporting": Beta(3.0, 6.0)},
    "rainfall_runoff": {
        "share": Beta(3.0, 4.0),
        "k_quick": Beta(5.0, 5.0),
        "k_slow": Beta(3.0, 50.0),
        "sigma": LogNormal(math.log(0.1), 0.5),
    },
    "multispecies": {
        "u": IID(Normal(0.0, 1.0), 2),
        "B": IndepProd(Normal(0.5, 0.3), Normal(0.0, 0.3), Normal(0.0, 0.3), Normal(0.5, 0.3)),  # row by row
        "q": IID(InvGamma(3.0, 0.4), 2),
        "r": IID(InvGamma(3.0, 0.2), 2),
    },
    "seat_belts": {
        "sigma": LogNormal(math.log(0.1), 0.7),
        "belt": Normal(0.0, 0.5),
        "cosine": Normal(0.0, 0.5),
        "sine": Normal(0.0, 0.5),
    },
    "inflation": {
        "sigma_level": LogNormal(math.log(0.5), 0.7),
        "mu": Normal(1.0, 1.5),
        "phi": Uniform(0.0, 1.0),
        "sigma_h": LogNormal(math.log(0.4), 0.5),
    },
    "fitzhugh_nagumo": {
        "current": Normal(0.5, 0.3),
        "rate": LogNormal(math.log(0.1), 0.5),
        "shift": Normal(0.7, 0.3),
        "sigma": LogNormal(math.log(0.1), 0.5),
    },
    "common_factor": {
        "phi": Normal(0.5, 0.4),
        "q": InvGamma(3.0, 2.0),
        "loading": Normal(0.0, 1.0),
        "shift": Normal(0.0, 1.0),
        "r": IID(InvGamma(3.0, 2.0), 2),
    },
}

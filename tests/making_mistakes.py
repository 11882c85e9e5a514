"""How a mistake is made: what it may use, and what comes out.

A mistake is a function of a few lines, as a new user would write them. Its arguments are things that most mistakes
need, given by name: `filter`, `state`, `ys` and so on (see `THINGS`). They are made once, when first asked for, since
filters take seconds to compile.

    python tests/mistakes.py        makes all of them, and prints what was raised as JSON
"""

from __future__ import annotations

import functools
import inspect
import tempfile
import textwrap
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from paramfilter.fleet import FleetState
from paramfilter.parameters import Parameters


@dataclass(frozen=True)
class Mistake:
    """A mistake, and what must stand in the text of the error that it meets.

    Attributes:
        about: The part of the library that it is made with.
        make: The function that makes it; its name says what it is.
        error: The class of the error.
        cause: Words that say what was wrong.
        cure: Words that say what to do.
    """

    about: str
    make: Callable[..., object]
    error: type[pf.ParamfilterError]
    cause: str
    cure: str

    @property
    def name(self) -> str:
        return self.make.__name__.replace("_", " ")

    @property
    def code(self) -> str:
        """What the user wrote: the body of the function."""
        lines = inspect.getsource(self.make).splitlines()
        first = next(place for place, line in enumerate(lines) if line.startswith("def "))
        return textwrap.dedent("\n".join(lines[first + 1 :]))

    def raised(self) -> tuple[str, str]:
        """Make the mistake; return the class of the error and its text, or nothing."""
        things = {name: THINGS[name]() for name in inspect.signature(self.make).parameters}
        try:
            self.make(**things)
        except Exception as error:
            return type(error).__name__, str(error).replace(f"{folder()}/", "")
        return "", ""


def mistakes_about(about: str, into: list[Mistake]) -> Callable:
    """Return a decorator that adds rows to a table."""

    def mistake(error: type[pf.ParamfilterError], cause: str, cure: str) -> Callable:
        return lambda make: into.append(Mistake(about, make, error, cause, cure)) or make

    return mistake


def model(**changes: Any) -> pf.StateSpaceModel:
    """Return an autoregression that is observed with noise, with some parts changed."""
    parts = {
        "prior": {"phi": dist.Normal(0.0, 1.0)},
        "initial": lambda theta, inputs: dist.Normal(0.0, 1.0),
        "transition": lambda theta, x, inputs: dist.Normal(theta["phi"] * x, 1.0),
        "observation": lambda theta, x, inputs: dist.Normal(x, 1.0),
    }
    made = pf.StateSpaceModel(**(parts | changes))
    if "prior" not in changes:
        vars(made)["parameters"] = plain_parameters()
    return made


@functools.cache
def plain_parameters() -> Parameters:
    """A prior is tried out when it is first used, which takes half a second: here once, not for each mistake."""
    return Parameters({"phi": dist.Normal(0.0, 1.0)})


def build(**changes: Any) -> pf.ParticleFilter:
    return pf.sir_filter(model(**changes), 16)


@functools.cache
def plain_filter() -> pf.ParticleFilter:
    return build()


@functools.cache
def pair_filter() -> pf.ParticleFilter:
    """Of a model that is different in most ways: two components of x and y, Cauchy steps, five parameters, inputs."""
    return build(
        name="pair",
        prior={"phi": dist.Normal(jnp.zeros(5), 1.0)},
        initial=lambda theta, inputs: dist.Normal(jnp.zeros(2), 1.0),
        transition=lambda theta, x, inputs: dist.Cauchy(theta["phi"][0] * x, inputs["dt"]),
        example_inputs={"dt": 1.0},
    )


@functools.cache
def first_state(make: Callable[[], pf.ParticleFilter]) -> pf.particles.ParticleState:
    return make().init(jax.random.key(0))


@functools.cache
def plain_fleet() -> pf.Fleet:
    return pf.Fleet(plain_filter())


@functools.cache
def fleet_state() -> FleetState:
    return plain_fleet().init(jax.random.key(0), ["oslo", "lima"])


@functools.cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="mistakes-"))


def saved_state() -> Path:
    """A checkpoint of the plain filter; written anew for each mistake, since some damage it."""
    pf.save(folder() / "run.safetensors", first_state(plain_filter))
    return folder() / "run.safetensors"


THINGS: dict[str, Callable[[], Any]] = {
    "key": lambda: jax.random.key(1),
    "ys": lambda: np.linspace(-1.0, 1.0, 5),
    "filter": plain_filter,
    "state": lambda: first_state(plain_filter),
    "pair_filter": pair_filter,
    "pair_state": lambda: first_state(pair_filter),
    "fleet": plain_fleet,
    "fleet_state": fleet_state,
    "folder": folder,
    "path": saved_state,
}
"""What mistakes are made with, by the names of their arguments."""

"""A model from the command line: the name of a built-in one, or `module:object` of the user's own."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from dataclasses import dataclass
from difflib import get_close_matches
from types import ModuleType
from typing import Any

import jax
import jax.numpy as jnp

from paramfilter import models
from paramfilter.arguments import kind_of
from paramfilter.cli.names import known_model
from paramfilter.errors import ModelError
from paramfilter.model import StateSpaceModel, simulate
from paramfilter.types import Inputs, Observation, State


@dataclass(frozen=True)
class NamedModel:
    """A model, with what the module it comes from knows of it.

    Attributes:
        model: The model.
        truth: Parameters to simulate with, if the module has a `TRUTH`.
        module: Where it comes from.
    """

    model: StateSpaceModel
    truth: dict[str, Any] | None
    module: ModuleType

    def simulated(self, seed: int, theta: dict[str, Any], num_steps: int) -> tuple[State, Observation, Inputs]:
        """Draw states and observations, and return them with the inputs they were drawn with.

        Inputs are what the module's `inputs` returns for the number of steps, or the example again and again.

        Args:
            seed: Of the random key.
            theta: Parameters, where they are not to be those of `truth`.
            num_steps: How many.
        """
        example = self.model.example_inputs
        repeated = lambda num: None if example is None else self.model.inputs_at(jnp.arange(num))
        inputs = getattr(self.module, "inputs", repeated)(num_steps)
        first = jax.tree.map(lambda leaf: leaf[0], inputs)
        truth = (self.truth or {}) | theta
        return *simulate(jax.random.key(seed), self.model, truth, num_steps, inputs, first), inputs


def model_named(name: str) -> NamedModel:
    """Find a model: `sin`, or `my_models:tank` for the object `tank` of my_models.py in this folder (or installed).

    The object is a `StateSpaceModel`, or a function without arguments that returns one.
    """
    if ":" not in name:
        module = importlib.import_module(f"paramfilter.models.{known_model(name)}")
        return NamedModel(getattr(models, name)(), module.TRUTH, module)
    module_name, _, attribute = name.partition(":")
    module = _module(module_name)
    if not hasattr(module, attribute):
        near = get_close_matches(attribute, dir(module), 1)
        hint = f" Did you mean {module_name}:{near[0]}?" if near else ""
        raise ModelError(f"{module_name} has no {attribute!r}.{hint}")
    return NamedModel(_as_model(name, getattr(module, attribute)), getattr(module, "TRUTH", None), module)


def _module(name: str) -> ModuleType:
    name = name.removesuffix(".py").replace(os.sep, ".")
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name != name and not name.startswith(f"{error.name}."):
            raise
        raise ModelError(f"there is no module {name!r} in {os.getcwd()} or among the installed ones.") from None


def _as_model(name: str, found: Any) -> StateSpaceModel:
    if isinstance(found, StateSpaceModel):
        return found
    cure = "it must be a paramfilter.StateSpaceModel, or a function without arguments that returns one."
    if not callable(found):
        raise ModelError(f"{name} is {kind_of(found)}; {cure}")
    try:
        inspect.signature(found).bind()
    except (TypeError, ValueError):
        raise ModelError(f"{name} cannot be called without arguments; {cure}") from None
    model = found()
    if not isinstance(model, StateSpaceModel):
        raise ModelError(f"{name} returns {kind_of(model)}; {cure}")
    return model

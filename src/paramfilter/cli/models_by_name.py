"""A model from the command line: the name of a built-in one, or `module:object` of the user's own."""

from __future__ import annotations

import importlib
import inspect
import os
import sys
from types import ModuleType
from typing import Any

from paramfilter import models
from paramfilter.arguments import did_you_mean, kind_of
from paramfilter.cli.names import known_model
from paramfilter.errors import ModelError
from paramfilter.model import StateSpaceModel


def model_named(name: str) -> tuple[StateSpaceModel, ModuleType]:
    """Find a model: `sin`, or `my_models:tank` for the object `tank` of my_models.py in this folder (or installed).

    The object is a `StateSpaceModel`, or a function without arguments that returns one. The module comes back too: its
    `TRUTH` and `inputs` are what to simulate with.
    """
    if ":" not in name:
        return getattr(models, known_model(name))(), importlib.import_module(f"paramfilter.models.{name}")
    module_name, _, attribute = name.partition(":")
    module = _module(module_name)
    if not hasattr(module, attribute):
        raise ModelError(f"{module_name} has no {attribute!r}{did_you_mean(attribute, dir(module)) or '.'}")
    return _as_model(name, getattr(module, attribute)), module


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
    if callable(found) and all(one.default is not one.empty for one in inspect.signature(found).parameters.values()):
        found = found()
    if not isinstance(found, StateSpaceModel):
        raise ModelError(
            f"{name} is {kind_of(found)}; it must be a paramfilter.StateSpaceModel, or a function without arguments "
            "that returns one."
        )
    return found

"""The errors a user may meet: each says what was found, what was expected and what to do.

A package that only some need is imported where it is used, by `extra`, whose error names the extra that brings it.
"""

from __future__ import annotations

import importlib
from types import ModuleType


class ParamfilterError(ValueError):
    """Base of all errors raised on purpose by this library."""


class ArgumentError(ParamfilterError, TypeError):
    """An argument is not what its place asks for: a seed for a key, or arguments in another order."""


class ModelError(ParamfilterError):
    """The model, its prior or its shapes are not usable; found before any data are seen."""


class BeliefError(ParamfilterError):
    """This kind of belief does not fit this model."""


class DataError(ParamfilterError):
    """The observations or inputs do not have the shape that the model speaks of."""


class CheckpointError(ParamfilterError):
    """The checkpoint is damaged, of another format, or of another filter."""


class StoreError(ParamfilterError):
    """The store of a stream is damaged, in use, or of another filter."""


class ProposalError(ParamfilterError):
    """This kind of proposal does not fit this model."""


class MissingExtraError(ParamfilterError, ImportError):
    """A package that only some need is not installed."""


def extra(module: str, name: str) -> ModuleType:
    """Import a module, or name the extra that brings it.

    >>> extra("no_such_module", "plots")
    Traceback (most recent call last):
    ...
    paramfilter.errors.MissingExtraError: this needs no_such_module, ... pip install "paramfilter[plots]".
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        if error.name is None or error.name.split(".")[0] != package:
            raise
        raise MissingExtraError(
            f'this needs {package}, which is not installed; use: pip install "paramfilter[{name}]".'
        ) from None

"""Packages that only some need: imported where they are used, and missed with a sentence that says what to do."""

from __future__ import annotations

import importlib
from types import ModuleType

from paramfilter.errors import MissingExtraError


def extra(module: str, name: str) -> ModuleType:
    """Import a module, or name the extra that brings it.

    >>> extra("no_such_module", "backfill")
    Traceback (most recent call last):
    ...
    paramfilter.errors.MissingExtraError: this needs no_such_module, ... pip install "paramfilter[backfill]".
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

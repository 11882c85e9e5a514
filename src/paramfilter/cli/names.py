"""The names that commands accept: listed in help texts, checked, and completed by the shell.

Nothing here imports JAX, so that help, a mistyped name and tab completion answer at once.

>>> known_filter("storvik")
'storvik'
>>> complete_model("st")
['star', 'stochastic_volatility']
"""

from __future__ import annotations

from collections.abc import Sequence

import paramfilter
from paramfilter import models, plots
from paramfilter.arguments import did_you_mean
from paramfilter.diagnostics.codes import CODES
from paramfilter.errors import DataError, ModelError

PRESET_SUFFIX = "_filter"
MODELS = tuple(models.__all__)
FILTERS = tuple(name.removesuffix(PRESET_SUFFIX) for name in paramfilter.__all__ if name.endswith(PRESET_SUFFIX))
"""The presets, such as `storvik` for `storvik_filter`."""
PLOTS = tuple(name for name in plots.__all__ if name.islower())
"""The pictures; `LiveView` follows a running program, which a saved result is not."""
WARNINGS = tuple(code.code for code in CODES)


def known_model(name: str) -> str:
    """Return the name of a model, or refuse it: it must be built in, or read `module:object`."""
    if ":" in name or name in MODELS:
        return name
    raise ModelError(
        f"there is no model {name!r}{did_you_mean(name, MODELS) or '.'} The built-in models are {', '.join(MODELS)}. "
        "Write your own as module:object."
    )


def known_filter(name: str) -> str:
    """Return the name of a filter, or refuse it."""
    if name not in FILTERS:
        raise ModelError(f"there is no filter {name!r}; choose one of {', '.join(FILTERS)}.")
    return name


def known_plot(name: str) -> str:
    """Return the name of a plot, or refuse it."""
    if name not in PLOTS:
        raise DataError(f"there is no plot {name!r}; choose one of {', '.join(PLOTS)}.")
    return name


def complete_model(incomplete: str) -> list[str]:
    """Return the built-in models that a word may become."""
    return _beginning_with(incomplete, MODELS)


def complete_filter(incomplete: str) -> list[str]:
    """Return the filters that a word may become."""
    return _beginning_with(incomplete, FILTERS)


def complete_plot(incomplete: str) -> list[str]:
    """Return the plots that a word may become."""
    return _beginning_with(incomplete, PLOTS)


def complete_warning(incomplete: str) -> list[str]:
    """Return the codes of warnings that a word may become."""
    return _beginning_with(incomplete, WARNINGS)


def _beginning_with(incomplete: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]

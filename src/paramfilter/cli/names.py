"""The names that commands accept: listed in help texts, checked, and completed by the shell.

Nothing here imports JAX, so that help, a mistyped name and tab completion answer at once.

>>> Filters("storvik") + PRESET_SUFFIX
'storvik_filter'
>>> complete_model("st")
['star', 'stochastic_volatility']
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from paramfilter import models
from paramfilter.arguments import did_you_mean
from paramfilter.diagnostics.codes import CODES
from paramfilter.errors import ModelError

FAILED, FOUND = 1, 3
"""Exit codes: the work could not be done; a diagnosis found something. Typer exits with 2 if it is misused."""

PRESET_SUFFIX = "_filter"
MODELS = tuple(models.__all__)
Filters = StrEnum("Filters", "auto extended_parameter liu_west node sir storvik")
"""The presets, such as `storvik` for `storvik_filter`."""
Plots = StrEnum(
    "Plots",
    "dashboard evidence forecast forest health one_step pairs parameters prior_posterior ranks state",
)
WARNINGS = tuple(code.code for code in CODES)


def known_model(name: str) -> str:
    """Return the name of a model, or refuse it: it must be built in, or read `module:object`."""
    if ":" in name or name in MODELS:
        return name
    raise ModelError(
        f"there is no model {name!r}{did_you_mean(name, MODELS) or '.'} The built-in models are {', '.join(MODELS)}. "
        "Write your own as module:object."
    )


def complete_model(incomplete: str) -> list[str]:
    """Return the built-in models that a word may become."""
    return _beginning_with(incomplete, MODELS)


def complete_warning(incomplete: str) -> list[str]:
    """Return the codes of warnings that a word may become."""
    return _beginning_with(incomplete, WARNINGS)


def _beginning_with(incomplete: str, names: Sequence[str]) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]

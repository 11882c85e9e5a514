"""The names that commands accept: listed in help texts, checked, and completed by the shell.

Nothing here imports JAX, so that help, a mistyped name and tab completion answer at once.

>>> FILTERS
('auto', 'extended_parameter', 'liu_west', 'node', 'sir', 'storvik')
>>> complete_model("st")
['star', 'stochastic_volatility']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import paramfilter
from paramfilter import models, plots
from paramfilter.arguments import did_you_mean
from paramfilter.diagnostics.codes import CODES
from paramfilter.errors import ModelError

FAILED, FOUND = 1, 3
"""Exit codes: the work could not be done; a diagnosis found something. Typer exits with 2 if it is misused."""

PRESET_SUFFIX = "_filter"
MODELS = tuple(models.__all__)
PLOTS = tuple(plots.__all__)
FILTERS = tuple(name.removesuffix(PRESET_SUFFIX) for name in paramfilter.__all__ if name.endswith(PRESET_SUFFIX))
"""The presets, such as `storvik` for `storvik_filter`."""


def known_model(name: str) -> str:
    """Return the name of a model, or refuse it: it must be built in, or read `module:object`."""
    if ":" in name or name in MODELS:
        return name
    raise ModelError(
        f"there is no model {name!r}{did_you_mean(name, MODELS) or '.'} The built-in models are {', '.join(MODELS)}. "
        "Write your own as module:object."
    )


def completing(names: Sequence[str]) -> Callable[[str], list[str]]:
    """Return the function that finds what a word may become."""
    return lambda incomplete: [name for name in names if name.startswith(incomplete)]


complete_model, complete_warning = completing(MODELS), completing([code.code for code in CODES])

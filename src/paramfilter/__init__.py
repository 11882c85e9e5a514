"""Learn the static parameters of a state-space model while you filter.

Online, Bayesian, at a mean cost per observation that does not grow with the length of the stream.
"""

from typing import Any

import lazy_loader

__version__ = "0.1.0"

# `__init__.pyi` lists the public names, for type checkers and for this line. Each is imported when it is first used, so
# that a program that only asks for names, such as the command's `--help`, does not wait for JAX.
_public, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    try:
        return _public(name)
    except AttributeError:
        from paramfilter.arguments import did_you_mean

        raise AttributeError(f"paramfilter has no name {name!r}{did_you_mean(name, __all__)}") from None

"""The command `paramfilter`: what it can do stands in `commands`; here it is started."""

from __future__ import annotations

import sys
import warnings

from paramfilter.cli.names import FAILED
from paramfilter.errors import MissingExtraError, ParamfilterError, extra


def main() -> None:
    """Run the command line, and end with a sentence instead of a traceback where a user can fix the cause."""
    warnings.formatwarning = _as_sentence
    try:
        extra("typer", "cli")
        from paramfilter.cli.commands import app

        app()
    except MissingExtraError as error:
        sys.exit(f"paramfilter: {error}")
    except (ParamfilterError, OSError) as error:
        print(f"paramfilter: {error}", file=sys.stderr)
        sys.exit(FAILED)


def _as_sentence(message: Warning | str, *_: object, **__: object) -> str:
    """Write a warning without the place in our code that gave it."""
    return f"paramfilter: warning: {message}\n"

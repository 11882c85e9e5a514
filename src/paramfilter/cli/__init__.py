"""The command `paramfilter`: what it can do stands in `commands`; here it is started."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import jax

from paramfilter.errors import MissingExtraError, ParamfilterError
from paramfilter.extras import extra

FAILED, MISUSED, FOUND = 1, 2, 3
"""Exit codes: the work could not be done; the command was not understood; a diagnosis found something."""


CACHE = Path.home() / ".cache" / "paramfilter"
"""Compiling is most of what a short run costs; the next one finds it done. Compiled code is trusted, so the folder is
the user's alone."""


def main() -> None:
    """Run the command line, and end with a sentence instead of a traceback where a user can mend it."""
    try:
        extra("typer", "cli")
        from paramfilter.cli.commands import app

        _keep_what_is_compiled()
        app()
    except MissingExtraError as error:
        sys.exit(f"paramfilter: {error}")
    except (ParamfilterError, FileNotFoundError) as error:
        print(f"paramfilter: {error}", file=sys.stderr)
        sys.exit(FAILED)


def _keep_what_is_compiled() -> None:
    if "JAX_COMPILATION_CACHE_DIR" in os.environ:
        return
    try:
        CACHE.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:  # a home that cannot be written to; then each run compiles for itself
        return
    jax.config.update("jax_compilation_cache_dir", str(CACHE))
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.1)

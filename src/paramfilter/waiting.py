"""Say what a long wait is for: one log record, and on a terminal a line with the elapsed seconds.

Inspecting a model and compiling its filter take seconds. `with waiting("compiling"): ...` is silent if they pass
quickly. After `PATIENCE` seconds it logs one record (logger "paramfilter", level INFO) and shows a line, which it
updates every second and removes at the end.
"""

from __future__ import annotations

import contextvars
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import jax
from tqdm import tqdm

from paramfilter.config import use_compilation_cache
from paramfilter.tracing import is_traced

logger = logging.getLogger("paramfilter")

PATIENCE = 1.5
"""Seconds before a wait is announced."""

_is_announced = contextvars.ContextVar("is_announced", default=False)


@contextmanager
def waiting(what: str, bar: tqdm | None = None) -> Iterator[None]:
    """Announce the enclosed work if it takes long; a wait inside another one stays silent.

    Args:
        what: The work, as in "compiling".
        bar: A progress bar that already names the work and is to be kept up to date; None for a line of its own.
    """
    if _is_announced.get():
        yield
        return
    began, is_over = time.monotonic(), threading.Event()
    announcer = threading.Thread(target=_announce, args=(what, bar, began, is_over), daemon=True)
    token = _is_announced.set(True)
    announcer.start()
    try:
        yield
    finally:
        is_over.set()
        announcer.join()
        _is_announced.reset(token)
        elapsed = time.monotonic() - began
        if elapsed > PATIENCE:
            logger.info("%s took %.0f s", what, elapsed)


def _announce(what: str, bar: tqdm | None, began: float, is_over: threading.Event) -> None:
    if is_over.wait(PATIENCE):
        return
    logger.info("%s, %.1f s so far", what, time.monotonic() - began)
    # disable=None: on a terminal only
    line = tqdm(bar_format="{desc}", leave=False, disable=None) if bar is None else bar
    while True:
        if bar is None:
            line.set_description_str(f"{what}, {time.monotonic() - began:.0f} s so far", refresh=False)
        line.refresh()
        if is_over.wait(1.0):
            break
    if bar is None:
        line.close()


def announced(function: Callable, what: str, **options: Any) -> Callable[..., Any]:
    """Return `jax.jit` of a function with some options; its first call, which compiles it, is announced if it is long.

    While another function is being traced the options do not apply: they belong to whole programs.
    """
    compiled, traced, is_compiled = jax.jit(function, **options), jax.jit(function), False

    @functools.wraps(compiled)
    def call(*arguments):
        nonlocal is_compiled
        if is_traced(arguments):
            return traced(*arguments)
        if is_compiled:
            return compiled(*arguments)
        use_compilation_cache()
        with waiting(what):
            found = compiled(*arguments)
        is_compiled = True
        return found

    return call

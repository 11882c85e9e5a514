"""Count what JAX compiles, by its own events; a program that a persistent cache holds counts too."""

from collections.abc import Iterator
from contextlib import contextmanager

import jax

COMPILED = "/jax/core/compile/backend_compile_duration"

_open_counts: list[list[int]] = []


def _count(event: str, duration: float, **_) -> None:
    if event == COMPILED:
        for count in _open_counts:
            count[0] += 1


jax.monitoring.register_event_duration_secs_listener(_count)


@contextmanager
def compilations() -> Iterator[list[int]]:
    """Return a list with one number: how many programs were compiled inside the block so far."""
    _open_counts.append([0])
    try:
        yield _open_counts[-1]
    finally:
        _open_counts.pop()

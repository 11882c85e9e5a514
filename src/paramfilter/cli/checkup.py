"""`paramfilter doctor` and `paramfilter bench`: is this machine in order, and how fast is it?"""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import time
from typing import Any

import jax
import jax.numpy as jnp

from paramfilter.compiler_canary import KERNELS, wrong_rows
from paramfilter.filters import Filter
from paramfilter.fleet import Fleet
from paramfilter.running import run
from paramfilter.types import Inputs, Observation

THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")
"""What OpenBLAS looks at, to which JAX hands small matrices on CPUs."""

CANARY_DIMENSIONS = (3, 5)
"""Where a wrong compiler was wrong; the tests try all."""


def versions() -> dict[str, str]:
    """Return the version of each package that the library or an extra needs, or that it is not installed."""
    found = {"python": platform.python_version(), "paramfilter": importlib.metadata.version("paramfilter")}
    wanted = importlib.metadata.requires("paramfilter") or ()
    for name in dict.fromkeys(["jaxlib", *(re.split(r"[^\w.-]", one)[0] for one in wanted)]):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def devices() -> list[str]:
    """Return what JAX computes on."""
    return [f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices()]


def threads() -> str:
    """Say how many threads small matrices take: one is best, and all is what happens unless it is asked for."""
    limits = {name: os.environ[name] for name in THREAD_LIMITS if name in os.environ}
    if "1" in limits.values():
        return "small matrices in one thread"
    number = next(iter(limits.values()), f"all {os.cpu_count()}")
    return (
        f"small matrices may take {number} threads, which wait for each other. Start with {THREAD_LIMITS[0]}=1 if a "
        "model has vectors or several parameters"
    )


def wrong_kernels() -> list[str]:
    """Return what this compiler gets wrong: nothing, one hopes."""
    return [
        f"{kernel.__name__}, {dtype}: {text}"
        for kernel in KERNELS
        for dtype in ("float32", "float64")
        for text in wrong_rows(kernel, dtype, CANARY_DIMENSIONS)
    ]


def speed_of(filter: Filter, ys: Observation, inputs: Inputs, num_series: int) -> dict[str, float]:
    """Return how long compiling and stepping take: one filter over a series, and a fleet of small ones.

    Args:
        filter: The filter.
        ys: Observations with a leading time axis.
        inputs: Inputs with the same leading axis, or None.
        num_series: Filters in the fleet.
    """
    num_steps = len(jax.tree.leaves(ys)[0])
    y_first, first = jax.tree.map(lambda leaf: leaf[0], (ys, inputs))
    begin = lambda: filter.init(jax.random.key(1), first)
    first_run = _seconds(lambda: run(filter, begin(), ys, inputs, progress=False))
    second_run = _seconds(lambda: run(filter, begin(), ys, inputs, progress=False))
    fleet = Fleet(filter)
    many, many_inputs = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (num_series, *leaf.shape)), (y_first, first))
    state = fleet.init(jax.random.key(2), range(num_series), inputs=many_inputs)
    state, _ = jax.block_until_ready(fleet.step(state, many, inputs=many_inputs))
    in_fleet = _seconds(lambda: fleet.step(state, many, inputs=many_inputs))
    return {
        "compile and first run, s": first_run,
        "a step, ms": 1e3 * second_run / num_steps,
        "steps a second": num_steps / second_run,
        "fleet: series-steps a second": num_series / in_fleet,
    }


def _seconds(work: Any) -> float:
    began = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - began

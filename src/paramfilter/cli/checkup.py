"""`paramfilter doctor` and `paramfilter bench`: is this machine in order, and how fast is it?"""

from __future__ import annotations

import importlib.metadata
import platform
import time
from typing import Any

import jax

from paramfilter.compiler_canary import KERNELS, wrong_rows
from paramfilter.filters import ParticleFilter
from paramfilter.fleet import Fleet
from paramfilter.model import simulate
from paramfilter.running import run

NEEDED = ("jax", "jaxlib", "numpy", "numpyro", "scipy", "safetensors")
EXTRAS = ("xarray", "h5py", "matplotlib", "narwhals", "pandas", "polars", "pyarrow", "arviz", "blackjax", "ray", "zarr")

CANARY_DIMENSIONS = (3, 5)
"""Where a wrong compiler was wrong; the tests try all."""


def versions() -> dict[str, str]:
    """Return the version of each package, or that it is not there."""
    found = {"python": platform.python_version(), "paramfilter": importlib.metadata.version("paramfilter")}
    for name in (*NEEDED, *EXTRAS):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "not installed"
    return found


def devices() -> list[str]:
    """Return what JAX computes on."""
    return [f"{device.platform}:{device.id} {device.device_kind}" for device in jax.devices()]


def wrong_kernels() -> list[str]:
    """Return what this compiler gets wrong: nothing, one hopes."""
    return [
        f"{kernel.__name__}, {dtype}: {text}"
        for kernel in KERNELS
        for dtype in ("float32", "float64")
        for text in wrong_rows(kernel, dtype, CANARY_DIMENSIONS)
    ]


def speed_of(filter: ParticleFilter, theta: dict[str, Any], num_steps: int, num_series: int) -> dict[str, float]:
    """Return how long compiling and stepping take: one filter over a series, and a fleet of small ones."""
    _, ys = simulate(jax.random.key(0), filter.model, theta, num_steps)
    begin = lambda: filter.init(jax.random.key(1))
    first = _seconds(lambda: run(filter, begin(), ys, progress=False))
    second = _seconds(lambda: run(filter, begin(), ys, progress=False))
    fleet = Fleet(filter)
    state = fleet.init(jax.random.key(2), range(num_series))
    many = jax.numpy.broadcast_to(ys[0], (num_series, *ys[0].shape))
    state, _ = jax.block_until_ready(fleet.step(state, many))
    began = time.perf_counter()
    jax.block_until_ready(fleet.step(state, many))
    fleet_seconds = time.perf_counter() - began
    return {
        "compile and first run, s": first,
        "a step, ms": 1e3 * second / num_steps,
        "steps a second": num_steps / second,
        "fleet: series-steps a second": num_series / fleet_seconds,
    }


def _seconds(work: Any) -> float:
    began = time.perf_counter()
    jax.block_until_ready(work())
    return time.perf_counter() - began

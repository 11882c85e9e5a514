"""What every test stands on: one thread, fixed draws, and a compiler cache that is emptied between modules.

The environment is set here, before any test imports JAX, so that numbers and times do not depend on how many
cores the machine has. Hypothesis draws the same examples in every run (profile "ci"); to search further:

    HYPOTHESIS_PROFILE=thorough pytest tests/test_resampling.py
"""

import os

SINGLE_THREAD_FLAGS = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {SINGLE_THREAD_FLAGS}".strip()
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")

import socket  # noqa: E402
import subprocess  # noqa: E402
import sys  # noqa: E402
import textwrap  # noqa: E402
from collections.abc import Callable, Iterator  # noqa: E402

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402

hypothesis.settings.register_profile(
    "ci", derandomize=True, deadline=None, print_blob=True, database=None, max_examples=50
)
hypothesis.settings.register_profile("thorough", deadline=None, print_blob=True, max_examples=5_000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


@pytest.fixture(autouse=True, scope="module")
def _clear_compiler_caches() -> Iterator[None]:
    """Drop compiled functions after each module.

    A process that compiles thousands of kernels runs out of memory maps (vm.max_map_count) and dies with
    "LLVM ERROR: Unable to allocate section memory!".
    """
    yield
    jax.clear_caches()


@pytest.fixture
def float64() -> Iterator[None]:
    """Turn 64-bit numbers on for one test."""
    with jax.enable_x64(True):
        yield


@pytest.fixture(scope="session")
def environment_of() -> Callable[[int], dict[str, str]]:
    """The environment of a process that sees so many devices."""

    def environment(num_devices: int) -> dict[str, str]:
        # First: what follows the thread count is not read.
        flags = f"--xla_force_host_platform_device_count={num_devices} {SINGLE_THREAD_FLAGS}"
        return {**os.environ, "XLA_FLAGS": flags}

    return environment


@pytest.fixture(scope="session")
def run_with_devices(environment_of) -> Callable[[int, str], str]:
    """Run a program in a process of its own that sees so many devices, and return what it prints."""

    def run(num_devices: int, program: str) -> str:
        command = [sys.executable, "-c", textwrap.dedent(program)]
        done = subprocess.run(command, env=environment_of(num_devices), capture_output=True, text=True, timeout=300)
        assert done.returncode == 0, done.stderr[-2000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def free_port() -> Callable[[], int]:
    """A port on loopback that nobody listens on."""

    def port() -> int:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            return probe.getsockname()[1]

    return port

"""What every test stands on: one thread, fixed draws, and a compiler cache that is emptied between modules.

The environment is set here, before any test imports JAX, so that numbers and times do not depend on how many
cores the machine has. Hypothesis draws the same examples in every run (profile "ci"); to search further:

    HYPOTHESIS_PROFILE=thorough pytest tests/test_resampling.py
"""

import os

from tests.support.processes import SINGLE_THREAD_FLAGS

os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {SINGLE_THREAD_FLAGS}".strip()
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("JAX_PLATFORMS", "cpu")
os.environ.setdefault("PARAMFILTER_COMPILATION_CACHE", "off")

from collections.abc import Iterator

import hypothesis
import jax
import pytest

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

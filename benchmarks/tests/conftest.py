"""The benchmarks' tests stand on what the library's tests stand on."""

from tests.conftest import _clear_compiler_caches, float64

__all__ = ["_clear_compiler_caches", "float64"]

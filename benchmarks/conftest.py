"""The benchmarks' tests stand on what the library's tests stand on.

Of the programs, only those with a doctest are imported: others need libraries that `benchmarks.environments` installs.
"""

from pathlib import Path

from tests.conftest import _clear_compiler_caches, float64

__all__ = ["_clear_compiler_caches", "collect_ignore", "float64"]

HERE = Path(__file__).parent
collect_ignore = [
    str(path) for path in HERE.rglob("*.py") if path.parent != HERE / "tests" and ">>>" not in path.read_text()
]

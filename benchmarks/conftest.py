"""The benchmarks' tests stand on what the library's tests stand on."""

from pathlib import Path

from tests.conftest import _clear_compiler_caches, float64

__all__ = ["_clear_compiler_caches", "float64"]

TESTS = Path(__file__).parent / "tests"


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Import no program without a doctest: many need libraries that `benchmarks.environments` installs."""
    is_program = collection_path.suffix == ".py" and collection_path.parent != TESTS
    return (is_program and ">>>" not in collection_path.read_text()) or None

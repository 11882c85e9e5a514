"""The picture of the layers stays true, and the core stays light.

That the code keeps to the layers is checked by `lint-imports`; here the pages are held to the same list.
"""

import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import paramfilter as pf

ROOT = Path(__file__).parent.parent
layers = runpy.run_path(str(ROOT / "docs" / "layers.py"))


def test_the_picture_shows_the_layers_that_the_imports_are_checked_against():
    assert (ROOT / "docs" / "_static" / "layers.svg").read_text() == layers["picture"](), "run python docs/layers.py"
    assert len(layers["layers"]()) <= 10


def test_every_module_is_described_in_the_order_of_the_layers():
    page = (ROOT / "docs" / "architecture.md").read_text()
    terms = re.findall(r"^(`.*`)\n: ", page, flags=re.MULTILINE)
    described = [module for term in terms for module in re.findall(r"`(\w+)`", term)]
    assert described == [module for layer in layers["layers"]() for module in layer]


def test_tests_stand_without_the_benchmarks():
    """Imports, also those of programs that a test writes; what both need is in `tests/support`."""
    imports = re.compile(r"""\b(?:from|import)\s+benchmarks\b|["']benchmarks\.""")
    assert [str(file) for file in (ROOT / "tests").rglob("*.py") if imports.search(file.read_text())] == []


def test_importing_the_package_pulls_in_nothing_heavy():
    """Our imports are checked statically; this sees what the imports of our imports bring along."""
    heavy = ["matplotlib", "xarray", "pandas", "polars", "narwhals", "pyarrow", "typer", "blackjax", "IPython"]
    heavy += ["scipy.stats", "scipy.interpolate", "scipy.optimize"]
    names = ", ".join(name for name in pf.__all__ if name not in ("plots", "references"))  # these two need SciPy
    code = f"import sys; from paramfilter import {names}; print([name for name in {heavy!r} if name in sys.modules])"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.fail(run.stderr)
    assert run.stdout.strip() == "[]"

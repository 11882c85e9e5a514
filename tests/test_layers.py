"""The picture of the layers stays true, they do not become more, and the core stays light.

That the code keeps to the layers is checked by `lint-imports`; here the pages are held to the same list, and the depth
of the imports is measured.
"""

import graphlib
import re
import runpy
import subprocess
import sys
import tomllib
from pathlib import Path

import grimp
import pytest

import paramfilter as pf

ROOT = Path(__file__).parent.parent
layers = runpy.run_path(str(ROOT / "docs" / "layers.py"))


def test_the_picture_shows_the_layers_that_the_imports_are_checked_against():
    assert (ROOT / "docs" / "_static" / "layers.svg").read_text() == layers["picture"](), "run python docs/layers.py"


def longest_chain(imports):
    """Return the longest chain of modules that import the next; a circle raises `CycleError`."""
    chains = {}
    for module in graphlib.TopologicalSorter(imports).static_order():
        below = max((chains[other] for other in imports.get(module, ())), key=len, default=[])
        chains[module] = [module, *below]
    return max(chains.values(), key=len)


def test_the_longest_chain_of_a_small_graph_is_found():
    assert longest_chain({"a": {"b", "d"}, "b": {"c"}, "c": {"d"}, "e": {"d"}}) == ["a", "b", "c", "d"]
    with pytest.raises(graphlib.CycleError):
        longest_chain({"a": {"b"}, "b": {"a"}})


def test_imports_become_no_deeper():
    """Between the modules and packages right below `paramfilter`; imports for types count, as `lint-imports` has it."""
    graph = grimp.build_graph("paramfilter", cache_dir=None)
    imports = {module: set() for module in graph.find_children("paramfilter")}
    for module in imports:
        graph.squash_module(module)
    for module in imports:
        imports[module] = graph.find_modules_directly_imported_by(module) & imports.keys() - {module}
    chain = longest_chain(imports)
    most = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["paramfilter"]["longest-import-chain"]
    assert len(chain) <= most, (
        f"{' imports '.join(chain)}: these are {len(chain)} modules, more than longest-import-chain of pyproject.toml, "
        "and that number only goes down."
    )


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

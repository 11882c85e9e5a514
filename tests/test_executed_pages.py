"""A page is executed again after a change in the code that it imports."""

import runpy
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
EXTENSION = "docs/_ext/executed_pages.py"
PAGES = {"first-filter.md", "mistakes.md"}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    root = tmp_path_factory.mktemp("checkout")
    for name in ("src", "tests", "docs/_ext"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for page in PAGES:
        shutil.copy(ROOT / "docs" / page, root / "docs" / page)
    return root


def digests(root):
    return runpy.run_path(str(root / EXTENSION))["digests"]()


@pytest.fixture(scope="module")
def before(checkout):
    found = digests(checkout)
    (checkout / "tests" / "test_weights.py").write_text("raise RuntimeError")
    with (checkout / "src" / "paramfilter" / "model.py").open("a") as file:
        file.write("# A comment.\n")
    return found


def test_a_change_concerns_the_pages_that_import_it(checkout, before):
    """The other page depends neither on that module, nor on a comment in the library, nor on a test."""
    path = checkout / "tests" / "making_mistakes.py"
    source = path.read_text()
    path.write_text(f"raise RuntimeError\n{source}")
    after = digests(checkout)
    path.write_text(source)
    assert before.keys() == after.keys() == PAGES
    assert {name for name in PAGES if after[name] != before[name]} == {"mistakes.md"}

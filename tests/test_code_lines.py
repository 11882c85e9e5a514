"""The ratchet: there is never more code in `src` than `pyproject.toml` allows."""

import tomllib
from pathlib import Path

from tests.support.code_lines import num_code_lines, num_code_lines_below

ROOT = Path(__file__).parent.parent
PROGRAM = '''"""A docstring
of two lines."""

import os  # a comment

LIMIT = 3
"""Says what the limit is."""


def one(
    text="""a string
    of two lines""",
):
    """A docstring."""
    # a comment
    return f"{text}", os
'''


def test_lines_are_counted_that_hold_code():
    assert num_code_lines(PROGRAM) == 7


def test_the_code_does_not_grow():
    most = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["paramfilter"]["most-code-lines"]
    found = num_code_lines_below(ROOT / "src")
    assert found <= most, (
        f"src has {found:,} lines of code, {found - most:,} more than most-code-lines of pyproject.toml, "
        "and that number only goes down. Remove as much code as you add."
    )

"""The fault matrix names tests that exist."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "faults.md").read_text()


def test_each_test_that_the_page_names_exists():
    named = re.findall(r"`(test_\w+)(?:::(test_\w+))?`", PAGE)
    rows = [row for row in PAGE.splitlines() if re.match(r"\| (?!fault \|)", row)]
    assert len(rows) >= 40 and all("`test_" in row for row in rows)
    for file, function in named:
        text = (Path(__file__).parent / f"{file}.py").read_text()
        assert f"def {function}(" in text if function else "def test_" in text, f"{file}::{function}"

"""Texts for users avoid the words of docs/words-to-avoid.txt."""

import re
from pathlib import Path

import pytest
from typer.main import get_command

from paramfilter.cli.commands import app

ROOT = Path(__file__).parent.parent
LINES = (ROOT / "docs" / "words-to-avoid.txt").read_text().splitlines()
WORDS = dict(line.split(" -> ") for line in LINES if line and not line.startswith("#"))
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").rglob("*.md"))]
FOR_DEVELOPERS = ROOT / "docs" / "decisions"
CODE = re.compile(r"```.*?```|`[^`\n]*`", flags=re.DOTALL)


def help_texts():
    """Return the help of each command and of its options."""
    commands = get_command(app).commands.values()
    return "\n".join(f"{command.help}\n" + "\n".join(str(one.help) for one in command.params) for command in commands)


def found_in(text):
    return [(word, better) for word, better in WORDS.items() if re.search(rf"\b(?:{word})\b", text, re.IGNORECASE)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages_use_plain_words(page):
    if FOR_DEVELOPERS not in page.parents:
        assert found_in(CODE.sub("", page.read_text())) == []


def test_help_uses_plain_words():
    assert found_in(help_texts()) == []

"""Typical mistakes meet an error that names the cause and the cure.

They are made in a process of their own, as a user would make them: here every call of the library passes a type checker
(see `shape_checks`), which would speak first.
"""

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from making_mistakes import plain_filter
from mistakes import MISTAKES

TESTS = Path(__file__).parent


@pytest.fixture(scope="module")
def raised():
    """The class and text of what each mistake raises, by the mistake's name."""
    run = subprocess.run([sys.executable, TESTS / "mistakes.py"], capture_output=True, text=True, check=False)
    if run.returncode:
        pytest.fail(run.stderr)
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("mistake", MISTAKES, ids=[mistake.name for mistake in MISTAKES])
def test_the_error_names_the_cause_and_the_cure(raised, mistake):
    error, text = raised[mistake.name]
    assert error == mistake.error.__name__
    assert mistake.cause in text
    assert mistake.cure in text


def test_texts_are_sentences_that_can_be_read(raised):
    for name, (_, text) in raised.items():
        assert text.endswith("."), name
        assert len(text) < 500 and "\n" not in text, name
        assert "Traceback" not in text and " object at 0x" not in text, name


def test_mistakes_have_names_of_their_own():
    assert len({mistake.name for mistake in MISTAKES}) == len(MISTAKES) >= 40


def test_every_group_of_mistakes_stands_on_the_page():
    page = (TESTS.parent / "docs" / "mistakes.md").read_text()
    groups = list(dict.fromkeys(mistake.about for mistake in MISTAKES))
    assert re.findall(r'^show\("(.*)"\)$', page, flags=re.MULTILINE) == groups


def test_lists_none_and_masks_are_taken_as_they_are_meant():
    filter, expected = plain_filter(), [0.1, np.nan]
    for ys in (expected, np.array([0.1, None], object), np.ma.array([0.1, 9.0], mask=[False, True])):
        np.testing.assert_allclose(filter.engine.as_observation(ys, leading=("time",)), expected, rtol=1e-6)
    np.testing.assert_array_equal(filter.engine.as_observation(np.array([True, False]), leading=("time",)), [1.0, 0.0])

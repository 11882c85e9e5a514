"""What README says in words holds in the stored rows."""

import json
from pathlib import Path

import pytest
from benchmarks.tables import RESULTS, rows_of
from benchmarks.truth.summary import rms, runs

README = (Path(__file__).parents[2] / "README.md").read_text()


def on_most_problems():
    errors = [rms(rows) for rows in runs().values()]
    return sum(error < 0.05 for error in errors) > 0.8 * len(errors)


def half_the_time_from_the_cache():
    here = json.loads((RESULTS / "start_up.json").read_text())["readme"]
    return here["second process"] <= 0.6 * here["first process"]


def a_millisecond_on_four_models():
    found = rows_of("nodes_cost")
    return len(found) == 4 and max(row["run"] for row in found) <= 1250


@pytest.mark.parametrize(
    ("sentence", "holds"),
    [
        ("On most of our test problems its posterior means are right to a few hundredths of", on_most_problems),
        ("The next process needs about half the CPU time or less", half_the_time_from_the_cache),
        ("`run` takes about a millisecond of CPU per observation or less on four models", a_millisecond_on_four_models),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_readme_says_what_was_measured(sentence, holds):
    assert sentence in README
    assert holds()

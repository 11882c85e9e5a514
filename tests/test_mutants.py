"""The catalogue of mutants fits the library as it is, and every verdict in it says: killed.

The mutants themselves are run by `python -m benchmarks.mutants`.
"""

import json

import pytest
from benchmarks.mutants.catalogue import CATALOGUE
from benchmarks.mutants.mutant import ROOT

NAMES = [mutant.name for mutant in CATALOGUE]


@pytest.mark.parametrize("mutant", CATALOGUE, ids=NAMES)
def test_mutant_fits_the_library_as_it_is(mutant):
    assert mutant.source.count(mutant.before) == 1, f"'before' must stand once in {mutant.file}: renew the entry"
    assert mutant.after != mutant.before
    compile(mutant.mutated_source, mutant.file, "exec")


@pytest.mark.parametrize("mutant", CATALOGUE, ids=NAMES)
def test_named_tests_exist(mutant):
    for node_id in mutant.node_ids:
        file, _, test = node_id.partition("::")
        assert f"def {test.split('[')[0]}" in (ROOT / file).read_text()


def test_every_mutant_has_a_name_of_its_own_and_was_killed():
    verdicts = json.loads((ROOT / "benchmarks" / "results" / "mutants.json").read_text())
    assert len(set(NAMES)) == len(NAMES)
    assert [verdict["name"] for verdict in verdicts] == NAMES, "run `python -m benchmarks.mutants`"
    assert [verdict["name"] for verdict in verdicts if not verdict["killed"]] == []

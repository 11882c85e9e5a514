"""The harness that kills moves finds nothing wrong with ours, and does find what is planted."""

import json
import subprocess
import sys

import pytest


def killed(num_kills, planted):
    """Kill in a process of its own, which can be forked: each lock on a store dies with its owner."""
    program = (
        "import json, sys; from tests.support.streams.move_kills import run; "
        "print(json.dumps(run(int(sys.argv[1]), sys.argv[2])))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, str(num_kills), planted], capture_output=True, text=True, check=True
    )
    return json.loads(done.stdout)


@pytest.mark.slow
def test_kills_of_workers_and_moves_change_nothing():
    """A hundred here; thousands by `python -m benchmarks.streams.kills --moves`."""
    row = killed(100, "nothing")
    assert row["kills"] >= 100 and row["moves"] > 10 and row["trials_that_differ"] == 0


@pytest.mark.slow
@pytest.mark.parametrize("planted", ["release-first", "arrive-in-two"])
def test_a_wrong_order_of_commits_is_seen(planted):
    assert killed(200, planted)["trials_that_differ"] > 0

"""Random actions and faults against a worker: `python -m benchmarks.streams.actions --seeds 200 --actions 10000`.

See `tests.support.streams.actions`. The row is kept in `results/actions.json`.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter

from tests.support.streams.actions import simulate

from benchmarks.tables import put_row


def main() -> None:
    """Simulate, and keep the row."""
    parser = argparse.ArgumentParser(description="Random actions and faults against a worker.")
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--actions", type=int, default=1000)
    options = parser.parse_args()
    done, events, checks, failures, began = Counter[str](), 0, 0, [], time.perf_counter()
    for seed in range(options.seeds):
        try:
            simulation = simulate(seed, options.actions)
        except AssertionError as error:
            failures.append(str(error))
            continue
        done += simulation.done
        events, checks = events + len(simulation.log.lines), checks + simulation.checks
    row = {"seeds": options.seeds, "actions": sum(done.values()), "events": events, "deaths_and_checks": checks}
    row |= {"by_action": dict(done), "failures": failures, "seconds": round(time.perf_counter() - began)}
    print(json.dumps(row))
    put_row("actions", {"what": "random actions and faults against a plain account of them"}, row, ())


if __name__ == "__main__":
    main()

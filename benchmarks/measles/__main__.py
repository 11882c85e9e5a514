"""Forecasts of measles.

    python -m benchmarks.measles data                 what is in the tables
    python -m benchmarks.measles tune [variant ...]   variants of rivals on the towns that are not compared
    python -m benchmarks.measles rivals [name ...]    rivals on the towns that are compared, all unless named
    python -m benchmarks.measles ours                 our filter on the same towns
    python -m benchmarks.measles cold_start           a new town, with and without what the others know
    python -m benchmarks.measles table                what was measured
    python -m benchmarks.measles difference A B       scores of A minus those of B, on the towns of both

Towns that were run are not run again; delete their files in `.environments/measles/forecasts` to run them anew.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from benchmarks.measles import cold_start, data, judge, ours, results
from benchmarks.measles.rivals import RIVALS


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.measles", description="Forecasts of measles.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("data", help="print what is in the tables")
    tune = commands.add_parser("tune", help="run variants of rivals on the towns that are not compared")
    tune.add_argument("variants", nargs="*", choices=[*RIVALS, []], metavar="variant")
    rivals = commands.add_parser("rivals", help="run rivals on the towns that are compared")
    rivals.add_argument("names", nargs="*", choices=[*judge.CHOSEN, []], metavar="name")
    commands.add_parser("ours", help="run our filter")
    commands.add_parser("cold_start", help="compare priors of new towns")
    commands.add_parser("table", help="print what was measured")
    difference = commands.add_parser("difference", help="print the scores of a method minus those of another")
    difference.add_argument("methods", nargs=2, choices=list(results.kept()), metavar="method")
    chosen = parser.parse_args(arguments)
    if chosen.command == "data":
        print(data.look(data.load()))
    elif chosen.command == "tune":
        judge.tune(chosen.variants or list(RIVALS))
    elif chosen.command == "rivals":
        for name in chosen.names or judge.CHOSEN:
            judge.compare(name)
    elif chosen.command == "difference":
        print(json.dumps(results.difference(*chosen.methods), indent=1))
    elif chosen.command == "ours":
        ours.compare()
        results.keep_differences()
    elif chosen.command == "cold_start":
        cold_start.main()
    else:
        print(results.report())


if __name__ == "__main__":
    main()

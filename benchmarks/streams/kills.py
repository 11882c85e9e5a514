"""Workers killed ten thousand times: `python -m benchmarks.streams.kills --kills 10000 [--moves] [--plant MISTAKE]`.

See `tests.support.streams.kills`, and `move_kills` there for kills while partitions move between stores. The rows are
kept in `results/kills.json` and `results/move_kills.json`.
"""

from __future__ import annotations

import argparse
import json
import math

from tests.support.streams import kills, move_kills

from benchmarks.tables import put_row


def main() -> None:
    """Kill, and keep the row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--plant", choices=sorted({*kills.STORES, *move_kills.PLANTED}), default="nothing")
    parser.add_argument("--moves", action="store_true", help="move partitions between three stores meanwhile")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop earlier, after so long")
    options = parser.parse_args()
    harness, table = (move_kills, "move_kills") if options.moves else (kills, "kills")
    row = harness.run(options.kills, options.plant, options.seconds)
    print(json.dumps(row))
    put_row(table, {"what": "SIGKILL at random moments, states of hashes, files"}, row, ("planted",))


if __name__ == "__main__":
    main()

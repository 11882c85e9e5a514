"""Workers killed ten thousand times: `python -m benchmarks.streams.kills --kills 10000 [--plant MISTAKE]`.

See `tests.support.streams.kills`. The rows are kept in `results/kills.json`.
"""

from __future__ import annotations

import argparse
import json
import math

from tests.support.streams.kills import STORES, run

from benchmarks.tables import put_row


def main() -> None:
    """Kill, and keep the row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=10_000)
    parser.add_argument("--plant", choices=sorted(STORES), default="nothing")
    parser.add_argument("--seconds", type=float, default=math.inf, help="stop earlier, after so long")
    options = parser.parse_args()
    row = run(options.kills, options.plant, options.seconds)
    print(json.dumps(row))
    put_row("kills", {"what": "SIGKILL at random moments, states of hashes, files"}, row, ("planted",))


if __name__ == "__main__":
    main()

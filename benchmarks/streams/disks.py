"""Disks that fail a thousand times: `python -m benchmarks.streams.disks --faults 1000` (as root, on Linux).

See `tests.support.streams.disks`. The rows are kept in `results/disks.json`.
"""

from __future__ import annotations

import argparse
import json

from tests.support.streams.disks import DISKS, run

from benchmarks.tables import put_row


def main() -> None:
    """Break disks, and keep the rows."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--faults", type=int, default=1000)
    parser.add_argument("--disk", choices=sorted(DISKS), nargs="*", default=sorted(DISKS))
    options = parser.parse_args()
    for kind in options.disk:
        row = run(options.faults, kind)
        print(json.dumps(row), flush=True)
        put_row("disks", {"what": "file systems that fail under a worker"}, row, ("disk",))


if __name__ == "__main__":
    main()

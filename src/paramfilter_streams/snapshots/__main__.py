"""Take one snapshot: `python -m paramfilter_streams.snapshots STORE TARGET KEEP` prints what it came to, as JSON.

The service starts this as a process of its own, with a low priority: reading the whole store in its own process would
hold up its steps. An error is one line.
"""

from __future__ import annotations

import json
import os
import sys

from paramfilter.errors import ParamfilterError
from paramfilter_streams.snapshots.taking import take

NICENESS = 10

if __name__ == "__main__":
    os.nice(NICENESS)
    try:
        print(json.dumps(take(sys.argv[1], sys.argv[2], int(sys.argv[3]))._asdict()))
    except (ParamfilterError, OSError) as error:
        sys.exit(f"{type(error).__name__}: {error}")

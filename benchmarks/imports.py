"""What `import paramfilter` adds to `import jax, numpyro`: `python -m benchmarks.imports`.

CPU seconds of fresh processes, taken in turn so that a busy machine slows both; medians.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "imports.json"

NUM_RUNS = 7
BARE, OURS = "import jax, numpyro", "import jax, numpyro, paramfilter"
TIMED = "{}; import time; print(time.process_time())"


def cpu_seconds(statement: str) -> float:
    ended = subprocess.run([sys.executable, "-c", TIMED.format(statement)], capture_output=True, text=True, check=True)
    return float(ended.stdout)


def main() -> None:
    pairs = [(cpu_seconds(BARE), cpu_seconds(OURS)) for _ in range(NUM_RUNS)]
    bare, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    added = statistics.median(second - first for first, second in pairs)
    found = {"runs": NUM_RUNS, "jax and numpyro": bare, "with paramfilter": ours, "added (median of pairs)": added}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{bare:.2f} s, with paramfilter {ours:.2f} s; added {added:.2f} s")


if __name__ == "__main__":
    main()

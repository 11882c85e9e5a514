"""What `import paramfilter` adds to `import jax, numpyro`: `python -m benchmarks.imports`.

CPU seconds of fresh processes, taken in turn so that a busy machine slows both; medians. Byte code is in place, as pip
leaves it after an installation.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

RESULTS = Path(__file__).parent / "results" / "imports.json"

NUM_RUNS = 7
BARE, OURS = "import jax, numpyro", "import jax, numpyro, paramfilter"
TIMED = "{}; import time; print(time.process_time())"


def cpu_seconds(statement: str) -> float:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    command = [sys.executable, "-c", TIMED.format(statement)]
    return float(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    cpu_seconds(OURS)  # writes the byte code
    pairs = [(cpu_seconds(BARE), cpu_seconds(OURS)) for _ in range(NUM_RUNS)]
    bare, ours = (statistics.median(column) for column in zip(*pairs, strict=True))
    added = statistics.median(second - first for first, second in pairs)
    found = {"runs": NUM_RUNS, "jax and numpyro": bare, "with paramfilter": ours, "added (median of pairs)": added}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(f"{bare:.2f} s, with paramfilter {ours:.2f} s; added {added:.2f} s")


if __name__ == "__main__":
    main()

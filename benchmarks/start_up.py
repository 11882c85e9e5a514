"""What is waited for before the first number: `python -m benchmarks.start_up [model ...]`.

CPU seconds in a fresh process without a compilation cache: choosing a filter with `auto_filter` and making it, tracing
its step, compiling it; and the size of what was compiled. Then seconds of `import paramfilter` beyond `jax` and
`numpyro`, with byte code and without: the median of some processes each, interleaved.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence

from benchmarks.tables import put_row

NUM_PARTICLES, NUM_IMPORTS = 100, 7
MADE = """
import json, sys, time
import jax, jax.numpy as jnp, paramfilter as pf
from paramfilter.probe import probe
def since(start): return round(time.process_time() - start, 1)
model = getattr(pf.models, sys.argv[1])()
start = time.process_time()
filter = pf.auto_filter(model, int(sys.argv[2]))
choose, start = since(start), time.process_time()
state = filter.init(jax.random.key(0), model.example_inputs)
y = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape), probe(model).y)
jax.block_until_ready(state)
begin, start = since(start), time.process_time()
lowered = jax.jit(filter.step).lower(state, y, model.example_inputs)
trace, start = since(start), time.process_time()
compiled = lowered.compile()
found = {"belief": str(filter.belief), "choose": choose, "first_state": begin, "trace": trace, "compile": since(start)}
print(json.dumps(found | {"operations": len(compiled.as_text().splitlines())}))
"""
IMPORTED = """
import time, jax, numpyro
start = time.perf_counter()
import paramfilter
print(time.perf_counter() - start)
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure what is waited for before the first number.")
    parser.add_argument("models", nargs="*", default=["sin", "tracking", "stochastic_volatility"])
    for model in parser.parse_args(arguments).models:
        row = {"what": model, **json.loads(last_line(MADE, model, str(NUM_PARTICLES)))}
        keep(row)
    kinds = {"import, with byte code": {}, "import, without byte code": {"PYTHONPYCACHEPREFIX": os.devnull}}
    for settings in kinds.values():
        last_line(IMPORTED, **settings)  # leaves byte code behind, and warms the disk
    seconds = {kind: [] for kind in kinds}
    for _ in range(NUM_IMPORTS):
        for kind, settings in kinds.items():
            seconds[kind].append(float(last_line(IMPORTED, **settings)))
    for kind, each in seconds.items():
        keep({"what": kind, "seconds": round(statistics.median(each), 3)})


def last_line(program: str, *arguments: str, **settings: str) -> str:
    """Run a program in a process of its own, without a compilation cache, and return the last line it prints."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("JAX_")} | settings
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout.splitlines()[-1]


def keep(row: dict) -> None:
    print(row, flush=True)
    put_row("start_up", {"units": "CPU seconds; lines of HLO", "particles": NUM_PARTICLES}, row, ("what",))


if __name__ == "__main__":
    main()

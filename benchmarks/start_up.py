"""What a user waits for before the first number, in fresh processes with byte code in place.

    python -m benchmarks.start_up                                  # this checkout
    python -m benchmarks.start_up --against OTHER/.venv/bin/python   # interleaved with another checkout's environment

README's example: CPU seconds and compiled programs of a first process, whose compilation cache is empty, and of a
second, which finds what the first has left there. The command line: CPU seconds of `paramfilter --help` and others
beyond `python -c pass`. Steps of some models: instructions of the compiled program. Medians of interleaved runs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from benchmarks.tables import write_table

README = Path(__file__).parents[1] / "README.md"
MODELS = ("sin", "tracking", "stochastic_volatility")
COMMANDS = {
    "paramfilter --help": ["--help"],
    "paramfilter explain W03": ["explain", "W03"],
    "paramfilter run, model mistyped": ["run", "sni", "data.csv"],
}

COUNTED = """
import jax
programs = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, seconds, **_: programs.append(seconds) if event.endswith("backend_compile_duration") else None
)
{example}
print("FOUND", len(programs))
"""
SIZE = """
import jax, numpy as np, sys
import paramfilter as pf
from paramfilter.filters.advance import window_of
from paramfilter.nodes.advance import advance
model = getattr(pf.models, sys.argv[1])()
filter = pf.node_filter(model)
inputs = jax.tree.map(lambda leaf: np.asarray(leaf)[None], model.example_inputs)
ys = jax.tree.map(lambda leaf: np.zeros((1, *leaf.shape), leaf.dtype), filter.shapes.y)
state = filter.init(jax.random.key(0), model.example_inputs)
given = (state, filter.blank, *window_of((ys, inputs)), np.int32(0), np.int32(1))
compiled = filter.compiled(advance).__wrapped__.lower(*given).compile()
print("FOUND", sum(" = " in line for line in compiled.as_text().splitlines()))
"""


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure what is waited for before the first number.")
    parser.add_argument("--against", help="the Python of another checkout's environment")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args(arguments)
    pythons = {"here": sys.executable} | ({"against": given.against} if given.against else {})
    sizes = {model: int(run(sys.executable, SIZE, model)[1]) for model in MODELS}
    table = {
        "units": "CPU seconds (user and system), byte code in place; medians",
        "runs": given.runs,
        "readme": readme(pythons, given.runs),
        "command line, beyond python -c pass": commands(pythons, given.runs),
        "instructions of the program behind step and run": sizes,
    }
    write_table("start_up", table)
    print(json.dumps(table, indent=1))


def readme(pythons: dict[str, str], num_runs: int) -> dict:
    """Run README's example in each environment, twice with one cache, several times in turn."""
    block = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    program = COUNTED.format(example=block.group(1))
    for python in pythons.values():
        run(python, "import jax, numpyro.distributions, paramfilter, matplotlib.pyplot, xarray")  # writes byte code
    found = {name: {"first": [], "second": [], "programs": []} for name in pythons}
    for _ in range(num_runs):
        for name, python in pythons.items():
            with tempfile.TemporaryDirectory() as folder:
                for process in ("first", "second"):
                    seconds, programs = run(python, program, XDG_CACHE_HOME=folder, MPLCONFIGDIR=f"{folder}/matplotlib")
                    found[name][process].append(round(seconds, 1))
                found[name]["programs"].append(int(programs))
    return {
        name: {
            "first process": round(statistics.median(each["first"]), 1),
            "second process": round(statistics.median(each["second"]), 1),
            "programs": max(each["programs"]),
            "all": list(zip(each["first"], each["second"], strict=True)),
        }
        for name, each in found.items()
    }


def commands(pythons: dict[str, str], num_runs: int) -> dict:
    """Time commands that filter nothing, each beside a Python that does nothing."""
    found = {}
    for label, arguments in COMMANDS.items():
        for name, python in pythons.items():
            program = f"import sys; sys.argv[1:] = {arguments!r}; from paramfilter.cli import main; main()"
            run(python, program, check=False)
            more = [run(python, program, check=False)[0] - run(python, "pass")[0] for _ in range(num_runs)]
            found.setdefault(label, {})[name] = round(statistics.median(more), 2)
    return found


def run(python: str, program: str, *arguments: str, check: bool = True, **settings: str) -> tuple[float, str]:
    """Run a program in a process of its own; return its CPU seconds and the word it printed after FOUND."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "PYTHONDONT", "XLA_"))}
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/printed", "w+") as printed:
        process = subprocess.Popen(
            [python, "-c", program, *arguments],
            env=kept | {"OMP_NUM_THREADS": "1"} | settings,
            cwd=folder,
            stdout=printed,
            stderr=subprocess.PIPE,
            text=True,
        )
        errors = process.stderr.read() if process.stderr is not None else ""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if check and process.returncode:
            raise RuntimeError(errors)
        printed.seek(0)
        return used.ru_utime + used.ru_stime, printed.read().rpartition("FOUND")[2].strip()


if __name__ == "__main__":
    main()

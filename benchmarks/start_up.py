"""What a user waits for before the first number, in fresh processes with byte code in place.

    python -m benchmarks.start_up

README's example: CPU seconds and compiled programs of a first process, whose compilation cache is empty, and of a
second, which finds what the first has left there. The command line: CPU seconds of `paramfilter --help` and others
beyond `python -c pass`. Medians of several runs.
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
COMMANDS = {
    "paramfilter --help": ["--help"],
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="Measure what is waited for before the first number.")
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args(arguments)
    table = {
        "units": "CPU seconds (user and system), byte code in place; medians",
        "runs": given.runs,
        "readme": readme(given.runs),
        "command line, beyond python -c pass": commands(given.runs),
    }
    write_table("start_up", table)
    print(json.dumps(table, indent=1))


def readme(num_runs: int) -> dict:
    """Run README's example several times, twice with one cache each."""
    block = re.search(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert block is not None
    program = COUNTED.format(example=block.group(1))
    run("import jax, numpyro.distributions, paramfilter, matplotlib.pyplot, xarray")  # writes byte code
    seconds, programs = [], []
    for _ in range(num_runs):
        with tempfile.TemporaryDirectory() as folder:
            both = [run(program, XDG_CACHE_HOME=folder, MPLCONFIGDIR=f"{folder}/matplotlib") for _ in range(2)]
        seconds.append([round(one, 1) for one, _ in both])
        programs.append(int(both[1][1]))
    first, second = (round(statistics.median(one), 1) for one in zip(*seconds, strict=True))
    return {"first process": first, "second process": second, "programs": max(programs), "all": seconds}


def commands(num_runs: int) -> dict[str, float]:
    """Time commands that filter nothing, each beside a Python that does nothing."""
    found = {}
    for label, arguments in COMMANDS.items():
        program = f"import sys; sys.argv[1:] = {arguments!r}; from paramfilter.cli import main; main()"
        run(program, check=False)
        more = [run(program, check=False)[0] - run("pass")[0] for _ in range(num_runs)]
        found[label] = round(statistics.median(more), 2)
    return found


def run(program: str, *, check: bool = True, **settings: str) -> tuple[float, str]:
    """Run a program in a process of its own; return its CPU seconds and the word it printed after FOUND."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JAX_", "PYTHONDONT", "XLA_"))}
    with tempfile.TemporaryDirectory() as folder, open(f"{folder}/printed", "w+") as printed:
        process = subprocess.Popen(
            [sys.executable, "-c", program],
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

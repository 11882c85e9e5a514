"""Start a program of the contest in its environment, in one thread, and read its answer.

What a JAX program has compiled is kept for the next data set; the first run of the first has the full price of it.

>>> answer("smcx", task)["mean"]  # doctest: +SKIP
[{'theta': 0.43}, {'theta': 0.61}, {'theta': 0.56}]
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
from tests.support.processes import SINGLE_THREAD_FLAGS

from benchmarks.contest.rivals.task import each_table
from benchmarks.environments import ENVIRONMENTS, python_of

ROOT = Path(__file__).parents[3]
COMPILED = ENVIRONMENTS / "compiled"


def task_of(problem: str, ys: Any, times: list[int], algorithm: str, size: dict[str, int], inputs: Any = None, **more):
    """Write a task, NaN as null; `more` is a seed, or seeds and repeats."""
    ys = np.asarray(ys, float)
    tables = each_table(lambda table: np.asarray(table).tolist(), inputs)
    written = np.where(np.isnan(ys), None, ys).tolist()
    return dict(problem=problem, ys=written, inputs=tables, times=times, algorithm=algorithm, size=size, **more)


def answer(library: str, task: dict[str, Any] | list[dict[str, Any]], seconds: float | None = None) -> Any:
    """Run the program of a library on a task, or on several; `seconds` of wall time is when it is given up."""
    if library == "ours":
        command = [sys.executable, "-m", "benchmarks.contest.ours_program"]
    else:
        command = [python_of(library), "-m", f"benchmarks.contest.rivals.{library}_program"]
    done = subprocess.run(
        command,
        input=json.dumps(task),
        env={
            **os.environ,
            "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
            "XLA_FLAGS": SINGLE_THREAD_FLAGS,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "NUMBA_NUM_THREADS": "1",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            "JAX_PLATFORMS": "cpu",
            "JAX_COMPILATION_CACHE_DIR": str(COMPILED / library),
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    if done.returncode != 0:
        one = task[0] if isinstance(task, list) else task
        raise RuntimeError(f"{library} on {one['problem']} by {one['algorithm']}: {done.stderr[-2000:]}")
    return json.loads(done.stdout)

"""Start an entry's program in its environment, in one thread, and ask it task after task.

>>> with Program(entry("smcx")) as program:  # doctest: +SKIP
...     program.ask(task, seconds=60)["mean"]
[{'theta': 0.43}, {'theta': 0.61}, {'theta': 0.56}]
"""

from __future__ import annotations

import contextlib
import json
import os
import selectors
import signal
import subprocess
import tempfile
from collections import deque
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
from tests.support.processes import SINGLE_THREAD_FLAGS

from benchmarks.contest.entry import Entry
from benchmarks.contest.task import each_table

ROOT = Path(__file__).parents[2]
SECONDS_TO_START = 120.0
LINES_OF_ERROR = 20


class Failed(RuntimeError):
    """A program that has ended."""


class TooSlow(RuntimeError):
    """A program that is not done in time."""


class Program:
    """A running program of an entry; it is ended with the `with` block. Nothing is compiled when it starts.

    Attributes:
        versions: Of its packages.
        cpu_seconds: What it has used, start and compiling included; known when it has ended.
    """

    def __init__(self, entry: Entry):
        self.entry = entry
        self.versions: dict[str, str] = {}
        self.cpu_seconds = float("nan")

    def __enter__(self) -> Program:
        self._compiled = tempfile.TemporaryDirectory()
        self._process = subprocess.Popen(
            [self.entry.python(), "-m", self.entry.module],
            env={
                **os.environ,
                "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'src'}",
                "XLA_FLAGS": SINGLE_THREAD_FLAGS,
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "NUMBA_NUM_THREADS": "1",
                "TF_CPP_MIN_LOG_LEVEL": "3",
                "JAX_PLATFORMS": "cpu",
                "JAX_COMPILATION_CACHE_DIR": self._compiled.name,
            },
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._errors: deque[str] = deque(maxlen=LINES_OF_ERROR)
        Thread(target=lambda: self._errors.extend(self._process.stderr or ()), daemon=True).start()
        self.versions = self._read(SECONDS_TO_START)["versions"]
        return self

    def ask(self, task: dict[str, Any], seconds: float) -> dict[str, Any]:
        """Give the program a task and return its answer; after so many seconds of wall time it is given up."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(json.dumps(task) + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise Failed("".join(self._errors)[-500:]) from None
        return self._read(seconds)

    def _read(self, seconds: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            if not selector.select(seconds):
                raise TooSlow(f"not done after {seconds:.0f} seconds")
        line = self._process.stdout.readline()
        if not line:
            ended = os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT)
            raise Failed("".join(self._errors)[-500:] or f"ended with {ended and ended.si_status}")
        return json.loads(line)

    def __exit__(self, *_: object) -> None:
        os.kill(self._process.pid, signal.SIGKILL)
        _, self._process.returncode, used = os.wait4(self._process.pid, 0)  # Popen.wait drops what was used
        self.cpu_seconds = used.ru_utime + used.ru_stime
        for stream in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(BrokenPipeError):
                if stream is not None:
                    stream.close()
        self._compiled.cleanup()


def task_of(
    problem: str, ys: Any, times: list[int], algorithm: str, size: dict[str, int], inputs: Any = None, seed: int = 0
) -> dict[str, Any]:
    """Write a task, NaN as null."""
    ys = np.asarray(ys, float)
    tables = each_table(lambda table: np.asarray(table).tolist(), inputs)
    written = np.where(np.isnan(ys), None, ys).tolist()
    return dict(problem=problem, ys=written, inputs=tables, times=times, algorithm=algorithm, size=size, seed=seed)

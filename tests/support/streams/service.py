"""A fleet behind its front, in a process of its own that can be killed and started again."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Protocol
from unittest import mock

import lmdb

from paramfilter_streams.store import TABLES
from tests.support.processes import SINGLE_THREAD_FLAGS, free_port

ONE_THREAD = {"XLA_FLAGS": SINGLE_THREAD_FLAGS, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}

PRELOADED = ["paramfilter_streams.serving", "lmdb", "nats", "starlette.applications", "uvicorn", __name__]
"""What a process that is forked does not import again: four fifths of a start."""


class Process(Protocol):
    """What `subprocess.Popen` can do, as far as it is needed here."""

    pid: int

    def poll(self) -> int | None: ...

    def wait(self) -> int: ...


def commanded(folder: Path) -> Process:
    """Start a fleet by the command that a user gives."""
    command = [sys.executable, "-m", "paramfilter_streams.serving", "fleet.toml"]
    with (folder / "service.log").open("ab") as log:
        return subprocess.Popen(command, cwd=folder, env={**os.environ, **ONE_THREAD}, stdout=log, stderr=log)


class Forked:
    """The same, forked from a process that has imported everything and not touched JAX: no import, all else as ever.

    Args:
        folder: Where the configuration is.
    """

    def __init__(self, folder: Path):
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self._process = context.Process(target=_serve, args=(str(folder),))
        with mock.patch.dict(os.environ, ONE_THREAD):
            self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid

    def poll(self) -> int | None:
        return self._process.exitcode

    def wait(self) -> int:
        self._process.join()
        assert self._process.exitcode is not None
        return self._process.exitcode


def _serve(folder: str) -> None:
    from paramfilter_streams.serving import serve

    os.chdir(folder)
    log = os.open("service.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(log, stream)
    serve("fleet.toml")


class Service:
    """A fleet in a process of its own, as long as a block of code runs.

    Args:
        folder: Where its configuration and its store are.
        config: What its file says; its port is filled in.
        launch: Starts the process.
    """

    def __init__(self, folder: Path, config: str, launch: Callable[[Path], Process] = commanded):
        self.folder, self.port, self._launch = folder, free_port(), launch
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fleet.toml").write_text(config.replace("{port}", str(self.port)))
        self.process: Process | None = None

    def __enter__(self) -> Service:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process is not None and self.process.poll() is None:
            self.end(signal.SIGKILL)

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        self.process = self._launch(self.folder)
        while self.ask("/ready") is None:
            self._must_run()
            time.sleep(0.05)

    def ask(self, path: str) -> str | None:
        """Return what the front says; None if it says no, or nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def has_received(self, num_events: int) -> bool:
        """Tell whether so many events have been taken in."""
        said = self.ask("/metrics") or ""
        return any(
            one.startswith("paramfilter_events_received_total") and float(one.split()[-1]) == num_events
            for one in said.splitlines()
        )

    def finish(self, num_events: int) -> None:
        """Wait until all events are taken in, and stop it as one should."""
        while not self.has_received(num_events):
            self._must_run()
            time.sleep(0.05)
        assert self.end(signal.SIGTERM) == 0

    def _must_run(self) -> None:
        if self.process is None or self.process.poll() is not None:
            raise AssertionError((self.folder / "service.log").read_text()[-2000:])

    def end(self, how: signal.Signals) -> int:
        """End it, and return its exit code."""
        assert self.process is not None
        os.kill(self.process.pid, how)
        code = self.process.wait()
        self.process = None
        return code


def records(store: Path) -> dict[bytes, dict[bytes, bytes]]:
    """Return every record of a store."""
    with lmdb.open(str(store), readonly=True, max_dbs=16, map_size=1 << 40) as environment:
        tables = {name: environment.open_db(name, create=False) for name in TABLES}
        found = {}
        for name, table in tables.items():
            with environment.begin(db=table) as transaction:
                found[name] = dict(transaction.cursor())
    return found

"""The service in a process of its own, which can be killed and started again."""

import multiprocessing
import os
import signal
import sqlite3
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any
from unittest import mock

from tests.support.processes import SINGLE_THREAD_FLAGS, free_port

ENVIRONMENT = {"XLA_FLAGS": SINGLE_THREAD_FLAGS, "OMP_NUM_THREADS": "1", "JAX_PLATFORMS": "cpu"}
ENVIRONMENT |= {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0", "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "-1"}

PRELOADED = ["paramfilter_service.service", "paramfilter.presets", "nats", __name__]
"""What a process that is forked does not import again: four fifths of a start."""

CONFIG = """
[model]
name = "linear_gaussian"
[filter]
algorithm = "sir_filter"
options = {{ num_particles = 16 }}
[log]
kind = "files"
path = "{folder}/log"
[store]
path = "{folder}/fleet.db"
[rules]
reorder = 3
[batch]
events = {events}
wait = 0.1
[http]
port = {port}
"""


class Running:
    """A service, as long as a block of code runs.

    Args:
        folder: Where its configuration and its store are; `log` in it holds the files of its log.
        config: The text of the configuration, in which folder, port and events are filled in.
        events: How many lines a batch has.
    """

    def __init__(self, folder: Path, config: str = CONFIG, events: int = 100):
        self.folder, self.port = folder, free_port()
        (folder / "log").mkdir(parents=True, exist_ok=True)
        (folder / "fleet.toml").write_text(config.format(folder=folder, port=self.port, events=events))
        self.process: Any = None

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process is not None and self.process.exitcode is None:
            self.end(signal.SIGKILL)

    def start(self, statement: int = 0) -> None:
        """Start it, and wait until it is ready; with `statement` it kills itself before so many statements of SQL."""
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(PRELOADED)
        self.process = context.Process(target=_serve, args=(str(self.folder), statement))
        cache = {"JAX_COMPILATION_CACHE_DIR": os.environ.get("JAX_COMPILATION_CACHE_DIR", f"{self.folder}/compiled")}
        with mock.patch.dict(os.environ, ENVIRONMENT | cache):
            self.process.start()
        while not statement and self.ask("/ready") is None:
            self._must_run()
            time.sleep(0.02)

    def ask(self, path: str) -> str | None:
        """Return what the front says; None if it says no, or nothing."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.read().decode()
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            return None

    def received(self) -> int:
        """Return how many lines have been processed."""
        said = (self.ask("/metrics") or "").splitlines()
        return next((int(one.split()[1]) for one in said if one.startswith("paramfilter_events_received_total ")), 0)

    def finish(self, num_lines: int) -> None:
        """Wait until all lines have been processed, and stop it as one should."""
        while self.received() < num_lines:
            self._must_run()
            time.sleep(0.02)
        assert self.end(signal.SIGTERM) == 0

    def end(self, how: signal.Signals) -> int:
        """End it, and return its exit code."""
        os.kill(self.process.pid, how)
        return self.wait()

    def wait(self) -> int:
        """Wait for its end, and return its exit code."""
        self.process.join()
        return self.process.exitcode

    def _must_run(self) -> None:
        if self.process.exitcode is not None:
            raise AssertionError((self.folder / "service.log").read_text()[-2000:])


def _serve(folder: str, statement: int) -> None:
    log = os.open(f"{folder}/service.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    for stream in (1, 2):
        os.dup2(log, stream)
    if statement:
        _die_before(statement)
    from paramfilter_service.service import serve

    serve(f"{folder}/fleet.toml")
    sys.stdout.flush()


def _die_before(statement: int) -> None:
    """Let every connection that writes kill this process before one of its statements."""
    connect = sqlite3.connect

    def counted(*args: Any, **options: Any) -> sqlite3.Connection:
        connection, left = connect(*args, **options), [statement]

        def count(_: str) -> None:
            left[0] -= 1
            if left[0] == 0:
                os.kill(os.getpid(), signal.SIGKILL)

        if not options.get("uri"):
            connection.set_trace_callback(count)
        return connection

    sqlite3.connect = counted

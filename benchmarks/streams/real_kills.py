"""The real worker on a real JetStream, killed at random: `python -m benchmarks.streams.real_kills --kills 300`.

A fleet of particle filters is started by `paramfilter.serving` in a process of its own, with its own log, store and
outputs, and killed with SIGKILL some time after it is ready, while events are waiting. When all events have been
taken in, every record of the store and every output is compared with those of a fleet that was never killed. The row
is kept in `results/real_kills.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType

import lmdb

from benchmarks.beliefs import put_row
from benchmarks.processes import SINGLE_THREAD_FLAGS, free_port
from benchmarks.streams.draws import numbers
from benchmarks.streams.server import NatsServer
from benchmarks.streams.toy import messy_lines
from paramfilter.streaming.store import TABLES

CONFIG = """
[model]
name = "linear_gaussian"
[filter]
algorithm = "sir_filter"
particles = 16
room = 1000
[log]
kind = "jetstream"
servers = "{address}"
stream = "{stream}"
subjects = ["{stream}.0"]
[outputs]
kind = "jetstream"
servers = "{address}"
subject = "posteriors.{name}"
[store]
path = "{folder}/store"
[rules]
reorder = 3
[pace]
messages = {messages}
seconds_to_wait = 0.1
[http]
port = {port}
"""


class Service:
    """A fleet in a process of its own.

    Args:
        folder: Where its configuration and its store are.
        config: What its file says; its port is filled in.
    """

    def __init__(self, folder: Path, config: str):
        self.folder, self.port = folder, free_port()
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "fleet.toml").write_text(config.replace("{port}", str(self.port)))
        self.process: subprocess.Popen | None = None

    def __enter__(self) -> Service:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self.process is not None:
            self.end(signal.SIGKILL)

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        flags = {"XLA_FLAGS": SINGLE_THREAD_FLAGS, "OMP_NUM_THREADS": "1"}
        command = [sys.executable, "-m", "paramfilter.serving", "fleet.toml"]
        with (self.folder / "service.log").open("ab") as log:
            self.process = subprocess.Popen(
                command, cwd=self.folder, env={**os.environ, **flags}, stdout=log, stderr=log
            )
        while self.ask("/ready") is None:
            assert self.process.poll() is None, (self.folder / "service.log").read_text()[-2000:]
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
            one.startswith("paramfilter_events_received_total") and one.endswith(f" {num_events}")
            for one in said.splitlines()
        )

    def finish(self, num_events: int) -> None:
        """Wait until all events are taken in, and stop it as one should."""
        while not self.has_received(num_events):
            assert self.process is not None and self.process.poll() is None, "the service has ended"
            time.sleep(0.05)
        assert self.end(signal.SIGTERM) == 0

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


def outputs(server: NatsServer, subject: str) -> set[bytes]:
    """Return the lines of an output subject; repeats count once."""
    return {line for message in server.read_all("posteriors", subject) for line in message.split(b"\n")}


def main() -> None:
    """Kill, compare, and keep the row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=0.0, help="stop earlier, after so long")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(prefix="real-kills-"))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "compiled"))
    began, kills, trials, bad, events = time.monotonic(), 0, 0, 0, 0
    is_over = lambda: kills >= options.kills or (0 < options.seconds < time.monotonic() - began)
    draw = iter(numbers(0))
    with NatsServer(folder / "nats") as server:
        server.make_streams({"posteriors": ["posteriors.>"]})
        while not is_over():
            stream, lines = f"events{trials}", messy_lines(seed=trials, num_series=200, num_steps=150)
            server.make_streams({stream: [f"{stream}.>"]})
            server.publish(f"{stream}.0", [b"\n".join(lines[one : one + 64]) for one in range(0, len(lines), 64)])
            make = lambda name, messages, stream=stream: Service(
                folder / name,
                CONFIG.replace("{address}", server.address)
                .replace("{stream}", stream)
                .replace("{name}", name)
                .replace("{folder}", str(folder / name))
                .replace("{messages}", str(messages)),
            )
            with make(f"calm{trials}", 64) as calm, make(f"killed{trials}", 2) as killed:
                calm.start()
                calm.finish(len(lines))
                while not is_over():
                    killed.start()
                    if killed.has_received(len(lines)):
                        break
                    time.sleep(next(draw) / 2**32 * 1.5)
                    killed.end(signal.SIGKILL)
                    kills += 1
                if killed.process is None:
                    killed.start()
                killed.finish(len(lines))
            same = records(calm.folder / "store") == records(killed.folder / "store")
            same &= outputs(server, f"posteriors.calm{trials}") == outputs(server, f"posteriors.killed{trials}")
            trials, bad, events = trials + 1, bad + (not same), events + len(lines)
    shutil.rmtree(folder)
    row = {"kills": kills, "logs": trials, "events": events, "logs_that_differ": bad}
    row["seconds"] = round(time.monotonic() - began)
    print(json.dumps(row))
    put_row("real_kills", {"what": "particle filters on JetStream, SIGKILL at random moments"}, row, ())


if __name__ == "__main__":
    main()

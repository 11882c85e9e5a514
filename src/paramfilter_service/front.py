"""The HTTP front of a worker: health, readiness, metrics, posteriors as JSON, and one page. It reads and never writes.

With a token, every request for data must carry it (`Authorization: Bearer ...`); `/health`, `/ready` and `/metrics` say
nothing of the data and need none. Without a token only this machine may ask, by a name that means it: a page of a
stranger whose name leads to 127.0.0.1 says its own name in `Host`. A request has no body, and nothing of it is logged.

One deadline holds for a whole exchange, from the connection or the answer before to the end of the answer, and when
there are too many connections the oldest is closed, whatever it does. `/health` is answered on the event loop, so that
requests for data, which read the store in threads, cannot delay it.
"""

import asyncio
import contextlib
import hmac
import operator
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from urllib.parse import parse_qsl, urlsplit

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

from paramfilter_service.configuration import Http

REQUESTS = 16
"""Requests for data that are served at the same time; further ones are answered with 503."""

LOOPBACK = {b"127.0.0.1", b"localhost", b"::1"}
"""What `Host` may say, with a port, if there is no token."""

SECONDS = 30.0
"""For one exchange."""

CONNECTIONS = 512
"""Connections that may be open; each takes a file descriptor, of which a process often has 1024."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; img-src 'self'; form-action 'self'; base-uri 'none'; "
        "frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "WWW-Authenticate": "Bearer",
}


class Answer(NamedTuple):
    """An answer to a request."""

    body: str | bytes
    status: int = 200
    kind: str = "text/plain; charset=utf-8"


@dataclass
class Front:
    """An ASGI application.

    Attributes:
        open_to_all: What is answered without a token, by path, on the event loop: it must not wait.
        data: What is answered in threads, by the first part of the path, given the rest of it and the query.
        token: The token that requests for data must carry; None lets this machine ask.
        room: For so many requests for data at the same time.
    """

    open_to_all: Mapping[str, Callable[[], Answer]]
    data: Mapping[str, Callable[[str, dict[str, str]], Answer]]
    token: bytes | None
    room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(REQUESTS))

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http", "only HTTP is served"
        answer = await self._answer(scope, dict(scope["headers"]))
        body = answer.body.encode() if isinstance(answer.body, str) else answer.body
        said = {**HEADERS, "Content-Type": answer.kind, "Content-Length": str(len(body))}
        headers = [(name.lower().encode(), text.encode()) for name, text in said.items()]
        await send({"type": "http.response.start", "status": answer.status, "headers": headers})
        await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body})

    async def _answer(self, scope: Any, headers: dict[bytes, bytes]) -> Answer:
        if self.token is None and not _is_loopback(headers.get(b"host", b"")):
            return Answer("without a token only 127.0.0.1, [::1] and localhost are served\n", 421)
        if scope["method"] not in ("GET", "HEAD"):
            return Answer("only GET is allowed\n", 405)
        if scope["path"] in self.open_to_all:
            return self.open_to_all[scope["path"]]()
        if self.token and not hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + self.token):
            return Answer("this request needs a token\n", 401)
        first, _, rest = scope["path"][1:].partition("/")
        if first not in self.data:
            return Answer("there is nothing here\n", 404)
        if self.room.locked():
            return Answer("too many requests at once\n", 503)
        async with self.room:
            query = dict(parse_qsl(scope["query_string"].decode("latin1")))
            return await asyncio.to_thread(self.data[first], rest, query)


def _is_loopback(host: bytes) -> bool:
    try:
        return urlsplit(b"//" + host).hostname in LOOPBACK
    except ValueError:
        return False


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with a deadline for each exchange, and a limit to the connections."""

    seconds, most = SECONDS, CONNECTIONS

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.since, self.deadline = time.monotonic(), self.loop.call_later(self.seconds, transport.abort)
        if len(self.connections) > self.most:
            min(self.connections, key=operator.attrgetter("since")).transport.abort()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self.deadline.cancel()
        self.deadline = self.loop.call_later(self.seconds, self.transport.abort)
        if self.conn.their_state is h11.SEND_BODY:  # a request has no body here, so nobody waits for its end
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.deadline.cancel()
        super().connection_lost(exc)


@contextlib.contextmanager
def listening(front: Front, http: Http) -> Iterator[None]:
    """Serve requests in a thread; the process ends if the port is taken."""
    settings: dict[str, Any] = {"access_log": False, "log_level": "warning", "server_header": False, "lifespan": "off"}
    config = uvicorn.Config(front, http.host, http.port, http=PatientProtocol, **settings)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, args=([config.bind_socket()],), name="front", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()

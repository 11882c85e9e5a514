"""Connections that ask for nothing keep nobody out, and requests for data do not keep out those for health."""

import asyncio
import contextlib
import signal
import socket
import threading
import time

import pytest
import uvicorn
from tests.support.processes import free_port
from tests.support.streams.service import Service
from tests.support.streams.toy import line

import paramfilter as pf
from paramfilter_streams.serving import Http, front
from paramfilter_streams.serving.connections import patient_protocol
from paramfilter_streams.serving.front import _Guard
from paramfilter_streams.serving.service import _listening

CONFIG = """
[model]
name = "linear_gaussian"
[filter]
algorithm = "storvik_filter"
particles = 4
room = 10
[log]
kind = "files"
path = "{folder}/log"
[store]
path = "{folder}/store"
[http]
port = {port}
"""

REQUEST = b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n"


async def answer(scope, receive, send):
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"5")]})
    await send({"type": "http.response.body", "body": b"alive"})


@pytest.fixture
def port():
    """A server that waits half a second for a header, and has 100 connections at most."""
    port = free_port()
    config = uvicorn.Config(
        answer, "127.0.0.1", port, http=patient_protocol(0.5, 100), lifespan="off", log_level="error"
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    yield port
    server.should_exit = True
    thread.join()


def connected(port, content=b""):
    connection = socket.create_connection(("127.0.0.1", port), timeout=5)
    connection.sendall(content)
    return connection


def answered(connection):
    """Read one answer to its end."""
    content = b""
    while not content.endswith(b"alive"):
        more = connection.recv(1000)
        assert more, f"the connection was closed after {content!r}"
        content += more
    return content


def is_answered(port):
    with connected(port, REQUEST) as connection:
        return answered(connection).startswith(b"HTTP/1.1 200")


def is_closed(connection):
    """Tell whether the server has closed a connection on which it had nothing to say."""
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True


def test_half_a_request_is_not_waited_for(port):
    held = [connected(port, b"GET /health HT") for _ in range(70)]
    assert is_answered(port)
    began = time.monotonic()
    assert all(map(is_closed, held)) and time.monotonic() - began < 5
    assert is_answered(port)


@pytest.mark.slow
def test_seventy_half_open_connections_for_a_minute_leave_a_service_healthy(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "1.jsonl").write_bytes(line("a", 1, 0.5) + b"\n")
    config = CONFIG.replace("{folder}", str(tmp_path))
    with Service(tmp_path, config) as service:
        service.start()
        ended, slowest = time.monotonic() + 60, 0.0
        held = [connected(service.port, b"GET /health HT") for _ in range(70)]
        while time.monotonic() < ended:
            for number, one in enumerate(held):  # the service closes them; each is opened again at once
                one.setblocking(False)
                with contextlib.suppress(BlockingIOError):
                    if is_closed(one):
                        one.close()
                        held[number] = connected(service.port, b"GET /health HT")
            for path in ("/health", "/ready", "/metrics", "/posterior/a"):
                began = time.monotonic()
                assert service.ask(path) is not None, path
                slowest = max(slowest, time.monotonic() - began)
            time.sleep(0.2)
        assert slowest < 5
        for one in held:
            one.close()
        assert service.end(signal.SIGTERM) == 0


def test_a_second_request_on_a_connection_has_as_much_time(port):
    with connected(port, REQUEST) as connection:
        answered(connection)
        time.sleep(0.3)
        connection.sendall(REQUEST)
        answered(connection)
        connection.sendall(b"GET /health HT")
        assert is_closed(connection)


def test_the_oldest_connection_without_a_request_goes_first(port):
    held = [connected(port) for _ in range(100)]
    assert is_answered(port)
    held[0].settimeout(0.2)
    held[-1].setblocking(False)
    assert is_closed(held[0])
    with pytest.raises(BlockingIOError):
        held[-1].recv(1000)
    for one in held:
        one.close()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_port_that_is_taken_ends_the_service(port):
    with (
        pytest.raises(pf.errors.DataError, match=f"cannot listen on 127.0.0.1:{port}"),
        _listening(answer, Http(port=port)),
    ):
        pass


def test_requests_for_data_leave_room_for_those_for_health():
    from starlette import responses

    async def ask(guard, path):
        said = []

        async def send(message):
            said.append(message.get("status"))

        await guard({"type": "http", "path": path, "headers": []}, None, send)
        return said[0]

    async def trial():
        may_end = asyncio.Event()

        async def slow(scope, receive, send):
            if scope["path"] != "/health":
                await may_end.wait()
            await answer(scope, receive, send)

        guard = _Guard(slow, None, responses)
        running = [asyncio.create_task(ask(guard, "/posterior/oslo")) for _ in range(front.REQUESTS)]
        await asyncio.sleep(0)
        found = await ask(guard, "/posterior/oslo"), await ask(guard, "/health")
        may_end.set()
        return [*found, *await asyncio.gather(*running), await ask(guard, "/posterior/oslo")]

    refused, health, *others = asyncio.run(trial())
    assert (refused, health) == (503, 200) and others == [200] * (front.REQUESTS + 1)

"""Whatever connections do, `/health` is answered; and only those who mean this machine are served without a token."""

import contextlib
import socket
import threading
import time

import pytest
from tests.support.processes import free_port
from tests.support.service.asking import connected, is_closed, status_of

from paramfilter_service.configuration import Http
from paramfilter_service.front import Answer, Front, PatientProtocol, listening

HEALTH = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
DATA = HEALTH.replace(b"/health", b"/series/oslo")

LARGE = "x" * (1 << 20)
SLOW = threading.Event()


def slow(name, query):
    if name == "slow":
        SLOW.wait(20)
    return Answer(LARGE if name == "large" else name)


@pytest.fixture
def port(monkeypatch):
    """A service that gives an exchange one second, and has 100 connections at most."""
    monkeypatch.setattr(PatientProtocol, "seconds", 1.0)
    monkeypatch.setattr(PatientProtocol, "most", 100)
    port = free_port()
    with listening(Front({"/health": lambda: Answer("alive")}, {"series": slow}, None), Http(port=port)):
        while status_of(port, HEALTH) != 200:
            time.sleep(0.01)
        yield port


HELD = {
    "says nothing": b"",
    "half a header": b"GET /health HT",
    "a body that never ends": b"GET /health HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\nx",
    "chunks that never end": b"GET /health HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n",
    "does not read its answers": b"GET /series/large HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50,
    "stays after its answer": HEALTH.replace(b"Connection: close\r\n", b""),
}


@pytest.mark.parametrize("what", HELD)
def test_six_hundred_connections_keep_nobody_out(port, what):
    held = [connected(port, HELD[what]) for _ in range(60)]
    for _ in range(9):  # each of them anew, as one does who attacks
        assert status_of(port, HEALTH) == 200
        for number, one in enumerate(held):
            with contextlib.suppress(OSError):
                one.sendall(b"x")
            one.close()
            held[number] = connected(port, HELD[what])
    began = time.monotonic()
    assert status_of(port, HEALTH) == 200
    assert all(map(is_closed, held)) and time.monotonic() - began < 15, "the server closes all of them"
    assert status_of(port, DATA) == 200


def test_a_body_that_drips_is_not_waited_for(port):
    """What locked everybody out: an answered request, whose body goes on for ever."""
    with connected(port, HELD["a body that never ends"]) as connection:
        began = time.monotonic()
        with contextlib.suppress(OSError):
            while time.monotonic() - began < 10:
                connection.sendall(b"x")
                time.sleep(0.05)
        assert time.monotonic() - began < 5


def test_a_second_request_on_a_connection_has_as_much_time(port):
    with connected(port, HELD["stays after its answer"]) as connection:
        for _ in range(2):
            content = b""
            while not content.endswith(b"alive"):
                content += connection.recv(1000)
            assert content.startswith(b"HTTP/1.1 200")
            time.sleep(0.7)
            connection.sendall(HEALTH)


def test_the_oldest_connection_goes_first_whatever_it_does(port):
    held = [connected(port, HELD["a body that never ends"] if one == 0 else b"") for one in range(100)]
    assert status_of(port, HEALTH) == 200
    held[0].settimeout(0.3)
    held[-1].setblocking(False)
    assert is_closed(held[0])
    with pytest.raises(BlockingIOError):
        held[-1].recv(1000)
    for one in held:
        one.close()


def test_requests_for_data_that_wait_do_not_keep_out_those_for_health(port):
    SLOW.clear()
    held = [connected(port, DATA.replace(b"oslo", b"slow")) for _ in range(20)]
    began = time.monotonic()
    assert status_of(port, HEALTH) == 200 and time.monotonic() - began < 1
    assert status_of(port, DATA) == 503
    SLOW.set()
    for one in held:
        one.close()


OURS = (b"localhost", b"localhost:8080", b"127.0.0.1", b"127.0.0.1:8080", b"[::1]:8080", b"LOCALHOST")
OTHERS = (b"evil.example", b"127.0.0.1.evil.example", b"localhost.evil.example:80", b"10.0.0.1", b"0.0.0.0", b"", b"[")
HOSTS = dict.fromkeys(OURS, 200) | dict.fromkeys((*OTHERS, b"evil.example:127.0.0.1"), 421)


@pytest.mark.parametrize("host", HOSTS)
def test_without_a_token_only_names_of_this_machine_are_served(port, host):
    for path in (b"/series/oslo", b"/health"):
        request = b"GET " + path + b" HTTP/1.1\r\nHost: " + host + b"\r\nConnection: close\r\n\r\n"
        assert status_of(port, request) == HOSTS[host]


def test_a_websocket_is_not_opened(port):
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    request = b"GET /series/oslo HTTP/1.1\r\nHost: localhost\r\n" + upgrade + b"Sec-WebSocket-Version: 13\r\n\r\n"
    assert status_of(port, request) != 101


def test_a_port_that_is_taken_ends_the_service():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with pytest.raises(SystemExit), listening(Front({}, {}, None), Http(port=taken.getsockname()[1])):
            pass

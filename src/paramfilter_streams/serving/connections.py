"""Connections that bring no request are closed, so that they cannot keep others out.

uvicorn waits for the header of a request as long as it takes. Here a header must arrive within some seconds, and if
there are too many connections, the oldest without a request goes.
"""

from __future__ import annotations

from typing import Any

from paramfilter.errors import extra
from paramfilter_streams.serving.metrics import EXTRA

SECONDS_FOR_HEADER = 10.0
"""From the start of a connection, or the end of the answer before, to the end of a request's header."""

CONNECTIONS = 512
"""Connections that may be open; each takes a file descriptor, of which a process often has 1024."""


def patient_protocol(seconds: float = SECONDS_FOR_HEADER, most: int = CONNECTIONS) -> type:
    """Return uvicorn's protocol with a limit to its patience.

    Args:
        seconds: How long the header of a request may take.
        most: How many connections may be open.
    """
    h11, base = extra("h11", EXTRA), extra("uvicorn.protocols.http.h11_impl", EXTRA).H11Protocol

    class PatientProtocol(base):
        """HTTP/1.1, for clients that say what they want."""

        deadline: Any = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self.expect_header()
            if len(self.connections) > most:
                waiting = [one for one in self.connections if one.has_no_request]  # this one at least
                min(waiting, key=lambda one: one.deadline.when()).transport.abort()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self.expect_header()

        def connection_lost(self, exc: Exception | None) -> None:
            self.deadline.cancel()
            super().connection_lost(exc)

        @property
        def has_no_request(self) -> bool:
            return self.conn.their_state is h11.IDLE

        def expect_header(self) -> None:
            if self.deadline is not None:
                self.deadline.cancel()
            self.deadline = self.loop.call_later(seconds, self.close_if_idle)

        def close_if_idle(self) -> None:
            if self.has_no_request:
                self.transport.abort()

    return PatientProtocol

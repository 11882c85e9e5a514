"""The HTTP front of a worker: health, readiness, metrics, posteriors by name, and pages. It reads and never writes.

With a token, every request for data must carry it (`Authorization: Bearer ...`); `/health`, `/ready` and `/metrics` say
nothing of the data and need none. A request has no body, a name is checked before it is looked up, and nothing of a
request or of an observation is logged.
"""

from __future__ import annotations

import hmac
from typing import Any

from paramfilter.errors import extra
from paramfilter_streams import Posterior, Worker
from paramfilter_streams.events import NAME
from paramfilter_streams.serving.about import About
from paramfilter_streams.serving.fleet_page import fleet_page
from paramfilter_streams.serving.listing import Lister, read_query
from paramfilter_streams.serving.metrics import EXTRA, Metrics
from paramfilter_streams.serving.series_page import series_page

OPEN = {"/health", "/ready", "/metrics"}
"""What needs no token, and is answered however many requests for data there are."""

REQUESTS = 64
"""Requests for data that are served at the same time; further ones are answered with 503."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; style-src 'unsafe-inline'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}


def make_front(worker: Worker, metrics: Metrics, token: bytes | None, about: About | None = None) -> Any:
    """Return an ASGI application.

    Args:
        worker: The worker to show; it may run in another thread.
        metrics: The metrics of this worker.
        token: The token that requests for data must carry; None lets every request in.
        about: What the pages say about the filter; None leaves it out, and series are not judged.
    """
    responses, routing = extra("starlette.responses", EXTRA), extra("starlette.routing", EXTRA)
    plain, page, data = responses.PlainTextResponse, responses.HTMLResponse, responses.JSONResponse
    lister = Lister(worker)

    def health(request: Any) -> Any:
        return plain("alive\n")

    def ready(request: Any) -> Any:
        return plain(f"{worker.not_ready}\n", 503) if worker.not_ready else plain("ready\n")

    def scrape(request: Any) -> Any:
        return responses.Response(metrics.text(), media_type=metrics.media_type)

    def found(request: Any) -> tuple[str, list[Posterior]]:
        name = request.path_params["name"]
        return name, worker.latest(name) if NAME.fullmatch(name) else []

    def posterior(request: Any) -> Any:
        name, posteriors = found(request)
        if not posteriors:
            return data({"error": "there is no such series"}, 404)
        history = (
            [one._asdict() for one in posteriors] if "history" in request.query_params else [posteriors[-1]._asdict()]
        )
        return data({"series": name, "posteriors": [_plain(one) for one in history]})

    def series(request: Any) -> Any:
        name, posteriors = found(request)
        if not posteriors:
            return page("There is no such series.", 404)
        return page(series_page(worker, about, name, posteriors, read_query(request.query_params)))

    def fleet(request: Any) -> Any:
        return page(fleet_page(worker, metrics, lister, about, read_query(request.query_params)))

    routes = {"/health": health, "/ready": ready, "/metrics": scrape, "/": fleet}
    routes |= {"/posterior/{name}": posterior, "/series/{name}": series}
    listed = [routing.Route(path, endpoint, methods=["GET"]) for path, endpoint in routes.items()]
    application = extra("starlette.applications", EXTRA).Starlette(routes=listed)
    return _Guard(application, token, responses)


class _Guard:
    """Refuses requests for data without the token or above the limit, and adds the headers to every answer."""

    def __init__(self, application: Any, token: bytes | None, responses: Any):
        self.application, self.token, self.responses = application, token, responses
        self.num_requests = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        async def send_with_headers(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] += [(name.lower().encode(), text.encode()) for name, text in HEADERS.items()]
            await send(message)

        if scope["type"] != "http":
            return await self.application(scope, receive, send)
        if scope["path"] not in OPEN and not self._may(dict(scope["headers"])):
            refusal = self.responses.PlainTextResponse(
                "this request needs a token\n", 401, {"WWW-Authenticate": "Bearer"}
            )
            return await refusal(scope, receive, send_with_headers)
        if scope["path"] in OPEN:
            return await self.application(scope, receive, send_with_headers)
        if self.num_requests >= REQUESTS:
            refusal = self.responses.PlainTextResponse("too many requests at once\n", 503, {"Retry-After": "1"})
            return await refusal(scope, receive, send_with_headers)
        self.num_requests += 1
        try:
            return await self.application(scope, receive, send_with_headers)
        finally:
            self.num_requests -= 1

    def _may(self, headers: dict[bytes, bytes]) -> bool:
        if self.token is None:
            return True
        return hmac.compare_digest(headers.get(b"authorization", b""), b"Bearer " + self.token)


def _plain(posterior: dict[str, Any]) -> dict[str, Any]:
    """Write what is not finite as null: JSON has no infinity."""
    figures = {name: value if abs(value) < float("inf") else None for name, value in posterior["figures"].items()}
    return {**posterior, "figures": figures}

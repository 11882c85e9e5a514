"""Run a worker and its front from a configuration file, until told to stop."""

from __future__ import annotations

import gc
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paramfilter.extras import extra
from paramfilter_streams import Worker
from paramfilter_streams.serving.configuration import Configuration, Http, read_configuration
from paramfilter_streams.serving.front import make_front
from paramfilter_streams.serving.metrics import EXTRA, Metrics

LOGGER = logging.getLogger("paramfilter_streams.serving")

CONNECTIONS = 64
"""Requests at a time; more are answered with 503."""


def serve(config_path: str | os.PathLike) -> None:
    """Read a configuration, recover, compile, and work until SIGTERM or SIGINT; then drain and return.

    The front answers from the first moment, and says `ready` once everything is compiled. A worker that fails raises
    here, so that the process ends and is started again by whoever watches it.
    """
    configuration = read_configuration(config_path)
    token = configuration.http.token()
    worker = configuration.make_worker()
    metrics, stop = Metrics(worker), threading.Event()
    try:
        with _signals(stop), _front(worker, metrics, token, configuration.http):
            _work(worker, metrics, stop, configuration)
    finally:
        worker.close()


def _work(worker: Worker, metrics: Metrics, stop: threading.Event, configuration: Configuration) -> None:
    worker.recover()
    # What is here by now stays. To look through it for garbage would stop the worker for a tenth of a second, often.
    gc.collect()
    gc.freeze()
    LOGGER.info("ready: %d series from %s", len(worker.residents.names), configuration.store["path"])
    while not stop.is_set():
        worker.work_once()
        metrics.add_delays(worker.delays)
        worker.delays = []
    worker.commit()
    LOGGER.info("stopped: all that was read is durable")


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """Let SIGTERM and SIGINT ask for a stop."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.signal(one, lambda *_: stop.set()) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def _front(worker: Worker, metrics: Metrics, token: bytes | None, http: Http) -> Iterator[None]:
    """Answer requests in a thread of their own."""
    uvicorn = extra("uvicorn", EXTRA)
    settings: dict[str, Any] = {"access_log": False, "log_level": "warning", "server_header": False}
    config = uvicorn.Config(
        make_front(worker, metrics, token),
        http.host,
        http.port,
        limit_concurrency=CONNECTIONS,
        lifespan="off",
        **settings,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="front", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()

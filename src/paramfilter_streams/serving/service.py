"""Run a worker and its HTTP front from a configuration file, until SIGTERM or SIGINT."""

from __future__ import annotations

import contextlib
import gc
import logging
import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from paramfilter.errors import DataError, extra
from paramfilter_streams import Worker
from paramfilter_streams.serving.about import about_filter
from paramfilter_streams.serving.configuration import Configuration, Http, read_configuration
from paramfilter_streams.serving.connections import patient_protocol
from paramfilter_streams.serving.front import make_front
from paramfilter_streams.serving.metrics import EXTRA, Metrics

LOGGER = logging.getLogger("paramfilter_streams.serving")


def serve(config_path: str | os.PathLike) -> None:
    """Read a configuration, recover the stored states, compile, and process events until SIGTERM or SIGINT.

    The front answers from the start; `/ready` returns 200 once the filter is compiled. An error of the worker is raised
    here, so that the process ends and a supervisor can start it again.

    Args:
        config_path: The TOML file; `paramfilter_streams.serving.configuration` lists its sections.
    """
    configuration = read_configuration(config_path)
    token = configuration.http.token()
    worker = configuration.make_worker()
    snapshots = configuration.make_schedule()
    metrics, stop = Metrics(worker, snapshots), threading.Event()
    try:
        about = about_filter(worker.residents.filter, configuration.algorithm)
        front = make_front(worker, metrics, token, about)
        LOGGER.info(
            "starting %s with %s, N = %d, on http://%s:%d/",
            *(about.model, about.algorithm, about.size, configuration.http.host, configuration.http.port),
        )
        with _signals(stop), _listening(front, configuration.http):
            worker.recover()
            with contextlib.nullcontext() if snapshots is None else snapshots.running():
                _work(worker, metrics, stop, configuration)
    finally:
        worker.close()


def _work(worker: Worker, metrics: Metrics, stop: threading.Event, configuration: Configuration) -> None:
    # All objects so far live as long as the process. Without the freeze each collection scans them for 0.1 s.
    gc.collect()
    gc.freeze()
    LOGGER.info("ready; recovered %d series from %s", len(worker.residents.names), configuration.store["path"])
    while not stop.is_set():
        worker.work_once()
        metrics.add_delays(worker.delays)
        worker.delays = []
    worker.commit()
    LOGGER.info("stopped; every event that was read is stored")


@contextmanager
def _signals(stop: threading.Event) -> Iterator[None]:
    """Set `stop` on SIGTERM and SIGINT."""
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
def _listening(front: Any, http: Http) -> Iterator[None]:
    """Serve requests in a separate thread."""
    uvicorn = extra("uvicorn", EXTRA)
    settings: dict[str, Any] = {"access_log": False, "log_level": "warning", "server_header": False}
    config = uvicorn.Config(
        front,
        http.host,
        http.port,
        http=patient_protocol(),
        lifespan="off",
        **settings,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, name="front", daemon=True)
    thread.start()
    while not server.started:  # uvicorn ends its thread if it cannot listen
        thread.join(0.01)
        if not thread.is_alive():
            raise DataError(f"the service cannot listen on {http.host}:{http.port}; is the port in use?")
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()

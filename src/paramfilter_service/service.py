"""Run a worker and its HTTP front from a configuration file, until SIGTERM or SIGINT."""

import contextlib
import gc
import logging
import os
import signal
import threading

import pyarrow as pa

from paramfilter.tables import StateTable
from paramfilter_service.configuration import read_configuration
from paramfilter_service.front import Answer, Front, listening
from paramfilter_service.views import Metrics, Pages
from paramfilter_service.worker import Worker

LOGGER = logging.getLogger("paramfilter_service")


def serve(path: str | os.PathLike) -> None:
    """Read a configuration, compile, and process events until SIGTERM or SIGINT.

    The front answers from the start; `/ready` returns 200 once the filter is compiled and the log has answered. An
    error of the worker is raised here, so that the process ends and a supervisor can start it again.

    Args:
        path: The TOML file.
    """
    os.umask(0o077)  # what is written here is for this user
    configuration, stop = read_configuration(path), threading.Event()
    for one in (signal.SIGTERM, signal.SIGINT):
        signal.signal(one, lambda *_: stop.set())
    with contextlib.closing(configuration.make_worker()) as worker:
        metrics = Metrics(worker)
        front = make_front(worker, metrics, configuration.http.token())
        LOGGER.info("starting on http://%s:%d/", configuration.http.host, configuration.http.port)
        with listening(front, configuration.http):
            warm_up(worker.table)
            # All objects so far live as long as the process. Without the freeze each collection scans them for 0.1 s.
            gc.collect()
            gc.freeze()
            LOGGER.info("ready; %d series in %s", worker.counts["series"], worker.store.path)
            while not stop.is_set():
                if worker.work_once():
                    metrics.observe()
    LOGGER.info("stopped; every batch that was processed is stored")


def make_front(worker: Worker, metrics: Metrics, token: bytes | None) -> Front:
    """Return the front of a worker."""
    pages = Pages(worker)
    open_to_all = {
        "/health": lambda: Answer("alive\n"),
        "/ready": lambda: Answer(f"{worker.not_ready or 'ready'}\n", 503 if worker.not_ready else 200),
        "/metrics": lambda: Answer(metrics.text(), kind="text/plain; version=0.0.4; charset=utf-8"),
    }
    return Front(open_to_all, {"": pages.page, "series": pages.series, "picture": pages.picture}, token)


def warm_up(table: StateTable) -> None:
    """Compile what batches of one and of many series need."""
    flat = [field for field in table.event_schema if field.name in ("y", "inputs")]
    zeros = {one.name: [0.0] * one.type.list_size if pa.types.is_fixed_size_list(one.type) else 0.0 for one in flat}
    for number in (1, 1000):
        events = [{"series": str(one), "seq": 1, **zeros} for one in range(number)]
        table.advance(table.empty(), pa.Table.from_pylist(events))

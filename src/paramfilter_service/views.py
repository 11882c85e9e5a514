"""What the front says: metrics for Prometheus, a series as JSON, a page of all series, and a picture of one.

Metrics say nothing of the content of events. The rest is read from the last commit, by a connection of its own.
"""

import io
import json
import math
import re
import sqlite3
import threading
from typing import Any

import jinja2
import numpy as np
from scipy.special import ndtri

from paramfilter import plots
from paramfilter.errors import extra
from paramfilter.numerics.quantiles import LEVELS
from paramfilter.tables import Fate
from paramfilter_service.front import Answer
from paramfilter_service.store import reading
from paramfilter_service.worker import Worker

TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("paramfilter_service"), autoescape=jinja2.select_autoescape()
)

ROWS = 50
"""Series on one page."""

LISTED = """
    SELECT * FROM latest WHERE instr(lower(series), lower(:q)) ORDER BY {} LIMIT :rows + 1 OFFSET :rows * (:page - 1)
"""
"""The last outputs of the series of a page, and of one more if there is one."""

ORDERS = {"worst": "outcome = 0, ess, series", "name": "series"}
"""Worst first: series with a flag in their last step, then the others by their effective sample size."""


BUCKETS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
"""Upper bounds of the buckets, in seconds; a last one has no bound."""

LONGEST_DELAY = 1e9
"""Seconds that a delay counts for at most, whatever a producer says was the time."""


class Histogram:
    """Durations, counted by size."""

    def __init__(self):
        self.counts, self.total = np.zeros(len(BUCKETS) + 1, int), 0.0

    def add(self, seconds: Any) -> None:
        """Count some durations."""
        seconds = np.clip(seconds, 0.0, LONGEST_DELAY)
        self.counts = self.counts + np.bincount(np.searchsorted(BUCKETS, seconds), minlength=len(self.counts))
        self.total += float(np.sum(seconds))

    @property
    def buckets(self) -> list[tuple[float | str, int]]:
        """How many were at most as long as each bound."""
        return list(zip((*BUCKETS, "+Inf"), self.counts.cumsum().tolist(), strict=True))


class Metrics:
    """What a service counts beside its worker, and the text for Prometheus.

    Args:
        worker: The worker; it may run in another thread.
    """

    def __init__(self, worker: Worker):
        self.worker, self.delays, self.commits, self.failures = worker, Histogram(), Histogram(), 0

    def observe(self) -> None:
        """Count the batch that the worker has committed; a failure is counted and ends nothing."""
        try:
            self.delays.add(self.worker.delays)
            self.commits.add([self.worker.commit_seconds])
        except Exception:
            self.failures += 1

    def text(self) -> str:
        """Return all metrics in the text format of Prometheus."""
        return rendered("metrics.txt", metrics=self, worker=self.worker, counts=self.worker.counts, fates=list(Fate))


class Pages:
    """Answers from a store.

    Args:
        worker: The worker; it may run in another thread.
    """

    def __init__(self, worker: Worker):
        self.worker, self._drawing = worker, threading.Lock()

    def series(self, name: str, query: dict[str, str]) -> Answer:
        """Return the last steps of a series as JSON, the newest last."""
        steps = self._steps(name)
        if not steps:
            return Answer('{"error": "there is no such series"}', 404, "application/json")
        finite = lambda value: None if isinstance(value, float) and not math.isfinite(value) else value
        steps = [{key: finite(value) for key, value in step.items() if key != "series"} for step in steps]
        return Answer(json.dumps({"series": name, "steps": steps}), kind="application/json")

    def picture(self, name: str, query: dict[str, str]) -> Answer:
        """Return a picture of the last steps of a series; one is drawn at a time."""
        steps = self._steps(name)
        if not steps:
            return Answer("there is no such series\n", 404)
        with self._drawing:
            return Answer(_drawn(steps), kind="image/png")

    def page(self, rest: str, query: dict[str, str]) -> Answer:
        """Return the page: counts, the series that were asked for, and one of them with its picture."""
        order = query["order"] if query.get("order") in ORDERS else "worst"
        page = int(query["page"]) if re.fullmatch("[1-9][0-9]{0,5}", query.get("page", "")) else 1
        search, steps = query.get("q", "").strip()[:128], self._steps(query.get("series", ""))
        rows = self._rows(LISTED.format(ORDERS[order]), rows=ROWS, page=page, q=search)
        asked = {"q": search, "order": order, "page": page}
        text = rendered("page.html", worker=self.worker, asked=asked, rows=rows[:ROWS], more=rows[ROWS:], steps=steps)
        return Answer(text, kind="text/html; charset=utf-8")

    def _steps(self, name: str) -> list[dict[str, Any]]:
        return self._rows("SELECT * FROM steps WHERE series = :name ORDER BY seq", name=name)

    def _rows(self, question: str, **values: Any) -> list[dict[str, Any]]:
        with reading(self.worker.store.path) as connection:
            connection.row_factory = sqlite3.Row
            return [dict(row) for row in connection.execute(question, values)]


def rendered(template: str, **content: Any) -> str:
    """Return a text made from a template; what comes from outside is escaped."""
    return TEMPLATES.get_template(template).render(content)


def _drawn(steps: list[dict[str, Any]]) -> bytes:
    """Draw the posterior of the parameters over the last steps; intervals are those of a normal distribution."""
    xarray, times = extra("xarray", "plots"), [step["seq"] for step in steps]
    moments = {}
    for name in (one for one in steps[0] if re.match("(?!state_|forecast_).*_mean(_|$)", one)):
        mean, sd = (np.array([step[one] for step in steps], float) for one in (name, name.replace("_mean", "_sd")))
        moments[name.replace("_mean", "")] = (
            ("moment", "time"),
            np.stack([mean, sd, *(mean + sd * ndtri(LEVELS)[:, None])]),
        )
    labels = ["mean", "sd", *(f"q{100 * level:02.0f}" for level in LEVELS)]
    tree = xarray.DataTree.from_dict({"filtered": xarray.Dataset(moments, {"moment": labels, "time": times})})
    tree.attrs = {"counts_steps": 1}
    picture = io.BytesIO()
    plots.parameters(tree, last=len(steps), title=str(steps[0]["series"])).savefig(picture, format="png")
    return picture.getvalue()

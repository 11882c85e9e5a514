"""Which series a page lists, and in which order: search, natural order, worst first, fifty at a time.

>>> sorted(["sensor-10", "sensor-2"], key=natural)
['sensor-2', 'sensor-10']
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import urlencode

from paramfilter_streams import Worker

PAGE = 50
"""Series on one page."""

ORDERS = {"name": "by name", "worst": "worst first"}
REFRESHES = {"30": "every 30 s", "5": "every 5 s", "0": "off"}

LONGEST_SEARCH = 128
"""Characters of a search; a name has no more."""

SHARE_OF_TIME = 0.05
"""Share of the time that reading all series may take: for `worst first`, every series has to be read."""

_DIGITS = re.compile(r"(\d+)")


class Query(NamedTuple):
    """What the form on the page asks for.

    Attributes:
        search: A part of the name, in any case; empty for all series.
        order: One of `ORDERS`.
        page: Which page, from 1.
        refresh: Seconds between two loads of the page, one of `REFRESHES`.
    """

    search: str = ""
    order: str = "name"
    page: int = 1
    refresh: str = "30"

    def link(self, page: int) -> str:
        """Return the address of another page of the same list."""
        return "/?" + urlencode({"q": self.search, "order": self.order, "page": page, "refresh": self.refresh})


def read_query(parameters: Mapping[str, str]) -> Query:
    """Read the query of a request; what is not understood counts as not given."""
    order, refresh, page = (parameters.get(name, "") for name in ("order", "refresh", "page"))
    return Query(
        search=parameters.get("q", "").strip()[:LONGEST_SEARCH],
        order=order if order in ORDERS else Query().order,
        page=int(page) if re.fullmatch("[1-9][0-9]{0,8}", page) else 1,
        refresh=refresh if refresh in REFRESHES else Query().refresh,
    )


def natural(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts numbers in names by their value."""
    return [(int(part), "") if part.isascii() and part.isdigit() else (-1, part) for part in _DIGITS.split(name)]


class Listing(NamedTuple):
    """One page of a list: its names, the number of names found, and the number of pages."""

    names: list[str]
    num_found: int
    num_pages: int


class Lister:
    """Lists the series of a worker.

    Args:
        worker: The worker; it may run in another thread.
    """

    def __init__(self, worker: Worker):
        self._worker = worker
        self._worst: list[str] = []
        self._due = 0.0

    def select(self, query: Query) -> Listing:
        """Return the page that a query asks for; the last page if there are fewer."""
        names = self._worst_first() if query.order == "worst" else sorted(self._worker.residents.names, key=natural)
        wanted = query.search.lower()
        found = [name for name in names if wanted in name.lower()]
        num_pages = max(1, -(-len(found) // PAGE))
        first = PAGE * (min(query.page, num_pages) - 1)
        return Listing(found[first : first + PAGE], len(found), num_pages)

    def _worst_first(self) -> list[str]:
        """Return series with a flag in their last step, then the others by ESS; both lists may be some seconds old."""
        began = time.monotonic()
        if began >= self._due:
            newest = self._worker.newest(list(self._worker.residents.names))
            figures = {name: one.figures for name, one in newest.items()}
            worth = lambda name: (not figures[name].get("outcome"), figures[name].get("ess", 0.0), natural(name))
            self._worst = sorted(figures, key=worth)
            took = time.monotonic() - began
            self._due = began + took / SHARE_OF_TIME
        return self._worst

"""The page of the whole fleet: counts of events, the log, and a list of series that can be searched and ordered."""

from __future__ import annotations

import html
import math
from collections.abc import Mapping
from urllib.parse import quote

from paramfilter_streams import Fate, Worker
from paramfilter_streams.histogram import BUCKETS
from paramfilter_streams.serving.about import About
from paramfilter_streams.serving.listing import LONGEST_SEARCH, ORDERS, REFRESHES, Lister, Listing, Query
from paramfilter_streams.serving.markup import frame, glossary, heading, parameters_of, standing_badge, table
from paramfilter_streams.serving.metrics import Metrics
from paramfilter_streams.serving.standing import FEWEST_EFFECTIVE, LEAST_ESS, ess_words, standing_of

PARAMETERS_SHOWN = 3
"""Parameters in the list; the page of a series shows all."""

TERMS = {
    "applied, missing": "The event was a step of its series, with an observation or with null in its place.",
    "duplicate": "Its step had been taken with an earlier event. The event was dropped.",
    "late": "Its step had been taken without an event. The event is in the dead-letter queue.",
    "quarantined": "The event was not valid. It is in the dead-letter queue with the reason.",
    "waiting": "The event waits for an earlier event of its series.",
    "filled steps": "Steps whose event never came. The filter took them without an observation.",
    "ESS": (
        "Effective sample size after the last step, of N particles. It is called low below "
        f"{FEWEST_EFFECTIVE:g} or {LEAST_ESS:.0%} of N, whichever is larger: means and intervals are then noisy."
    ),
    "status": (
        "Codes such as W01 are warnings of paramfilter's diagnostics on the stored steps; open a series to read them. "
        "“no warning” means that no check fired; it does not prove that the model is right."
    ),
    "worst first": "Series with a flag in their last step, then all others from the smallest ESS up.",
}


def fleet_page(worker: Worker, metrics: Metrics, lister: Lister, about: About | None, query: Query) -> str:
    """Return the page of the whole fleet."""
    body = [
        heading("Fleet", worker, about),
        _tiles(worker, metrics),
        _series(worker, lister, about, query),
        glossary(TERMS),
        _log(worker),
    ]
    return frame("Fleet", "".join(body), query.refresh)


def _tiles(worker: Worker, metrics: Metrics) -> str:
    partitions = worker.committed.values()
    tiles = {"series": len(worker.residents.names), "events received": sum(one.received for one in partitions)}
    tiles |= {fate.value: sum(one.counts[fate] for one in partitions) for fate in Fate}
    tiles |= {"waiting": sum(one.waiting for one in partitions), "filled steps": sum(one.filled for one in partitions)}
    shown = {name: f"{count:,}" for name, count in tiles.items()}
    shown["99 % of delays"] = _delay(metrics.delay_quantile(0.99))
    cells = "".join(f'<div class="tile"><b>{value}</b><span>{name}</span></div>' for name, value in shown.items())
    return f'<div class="tiles">{cells}</div>'


def _log(worker: Worker) -> str:
    rows = [
        [html.escape(name), f"{one.offset:,}", f"{one.num_series:,}", f"{one.received:,}", f"{one.filled:,}"]
        for name, one in sorted(worker.committed.items())
    ]
    return "<h2>Log</h2>" + table(["partition", "next offset", "series", "events", "filled steps"], rows)


def _series(worker: Worker, lister: Lister, about: About | None, query: Query) -> str:
    listing = lister.select(query)
    rows, parameters = [], []
    for name in listing.names:
        posteriors = worker.latest(name)
        if posteriors:
            last = posteriors[-1]
            parameters = parameters_of(last.figures)[:PARAMETERS_SHOWN]
            means = [f"{last.figures[f'mean:{one}']:.3f} ± {last.figures[f'sd:{one}']:.3f}" for one in parameters]
            standing = standing_badge(standing_of(posteriors, about))
            rows.append([_link(name), f"{last.sequence:,}", *means, ess_words(last, about), standing])
    heads = ["series", "steps", *(f"{one} (mean ± sd)" for one in parameters), "ESS", "status"]
    found = table(heads, rows) if rows else f"<p>{_none(query)}</p>"
    return f"<h2>Series</h2>{_form(query)}{_count(listing, query)}{found}{_pages(listing, query)}"


def _link(name: str) -> str:
    return f'<a href="/series/{quote(name, safe="")}">{html.escape(name)}</a>'


def _none(query: Query) -> str:
    return f"No series has “{html.escape(query.search)}” in its name." if query.search else "No series yet."


def _form(query: Query) -> str:
    search = html.escape(query.search)
    return (
        '<form method="get" action="/">'
        f'<label>Search <input type="search" name="q" value="{search}" maxlength="{LONGEST_SEARCH}"></label>'
        f"{_choice('Order', 'order', ORDERS, query.order)}{_choice('Reload', 'refresh', REFRESHES, query.refresh)}"
        "<button>Show</button></form>"
    )


def _choice(label: str, name: str, options: Mapping[str, str], chosen: str) -> str:
    listed = "".join(
        f'<option value="{value}"{" selected" if value == chosen else ""}>{words}</option>'
        for value, words in options.items()
    )
    return f'<label>{label} <select name="{name}">{listed}</select></label>'


def _count(listing: Listing, query: Query) -> str:
    page = f"page {min(query.page, listing.num_pages):,} of {listing.num_pages:,}" if listing.num_pages > 1 else ""
    return f'<p class="note">{listing.num_found:,} series, {ORDERS[query.order]}{page and ", " + page}</p>'


def _pages(listing: Listing, query: Query) -> str:
    page = min(query.page, listing.num_pages)
    links = [("← previous", page - 1), ("next →", page + 1)]
    shown = [
        f'<a href="{html.escape(query.link(number))}">{words}</a>'
        for words, number in links
        if 1 <= number <= listing.num_pages
    ]
    return f"<nav>{''.join(shown)}</nav>" if shown else ""


def _delay(seconds: float | None) -> str:
    if seconds is None:
        return "–"
    if seconds == math.inf:
        return f"&gt; {BUCKETS[-1]:g} s"
    return f"≤ {1000 * seconds:g} ms" if seconds < 1 else f"≤ {seconds:g} s"

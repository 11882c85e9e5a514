"""The parts that both pages are made of: frame, heading, tables. Text from outside is escaped here or by the caller."""

from __future__ import annotations

import html
import time
from collections.abc import Sequence

from paramfilter_streams import Worker
from paramfilter_streams.serving.about import About
from paramfilter_streams.serving.standing import Standing
from paramfilter_streams.serving.style import STYLE


def frame(title: str, body: str, refresh: str) -> str:
    """Return a whole page.

    Args:
        title: Of the window, as text.
        body: As HTML.
        refresh: Seconds until the page loads again; "0" for never.
    """
    again = "" if refresh == "0" else f'<meta http-equiv="refresh" content="{html.escape(refresh)}">'
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{html.escape(title)} · paramfilter</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">{again}'
        f"<style>{STYLE}</style></head><body><main>{body}</main></body></html>"
    )


def heading(title: str, worker: Worker, about: About | None) -> str:
    """Return the top of a page: its title, what runs since when, and the state of the worker."""
    kind = "bad" if worker.cannot_commit else "watch" if worker.not_ready else "good"
    state = badge(kind, worker.not_ready or "ready")
    return f"<header><div><h1>{html.escape(title)}</h1>{_what_runs(about)}</div>{state}</header>"


def _what_runs(about: About | None) -> str:
    if about is None:
        return ""
    started = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(about.started))
    words = f"{about.model} · {about.algorithm}, N = {about.size:,} · started {started}"
    return f"<p>{html.escape(words)}</p>"


def badge(kind: str, words: str) -> str:
    """Return a few words on a colored ground."""
    return f'<span class="state {kind}">{html.escape(words)}</span>'


def standing_badge(standing: Standing) -> str:
    """Return how a series stands; the titles of its warnings show when the pointer rests on it."""
    titles = "; ".join(f"{one.code.code}: {one.code.title}" for one in standing.findings)
    return f'<span title="{html.escape(titles)}">{badge(standing.kind, standing.words)}</span>'


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; heads are text, cells are HTML."""
    heads = [html.escape(one) for one in heads]
    head = "".join(f"<th>{one}</th>" for one in heads)
    cells = lambda row: "".join(
        f'<td data-label="{name}"><span>{one}</span></td>' for name, one in zip(heads, row, strict=True)
    )
    body = "".join(f"<tr>{cells(row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def glossary(terms: dict[str, str]) -> str:
    """Return explanations that open with a click."""
    entries = "".join(f"<dt>{html.escape(term)}</dt><dd>{html.escape(text)}</dd>" for term, text in terms.items())
    return f"<details><summary>What do these words mean?</summary><dl>{entries}</dl></details>"


def parameters_of(figures: dict[str, float]) -> list[str]:
    """Return the components of theta that a posterior has."""
    return [name.removeprefix("mean:") for name in figures if name.startswith("mean:")]

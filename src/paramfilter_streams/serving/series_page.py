"""The page of one series: its warnings, its data against one-step forecasts, its parameters, and its ESS."""

from __future__ import annotations

import html
import math
from collections.abc import Iterator, Sequence
from urllib.parse import quote

import numpy as np
from jaxtyping import Float

from paramfilter.diagnostics.diagnosis import Finding
from paramfilter_streams import Fate, Posterior, Worker
from paramfilter_streams.serving.about import About
from paramfilter_streams.serving.bands import band_within
from paramfilter_streams.serving.listing import Query
from paramfilter_streams.serving.markup import badge, frame, heading, parameters_of
from paramfilter_streams.serving.pictures import Chart, draw
from paramfilter_streams.serving.standing import Standing, ess_words, low_ess_below, standing_of

LINE = (-math.inf, math.inf)

FORECASTS = (
    "Points: observations. Line and band: mean and 90 % band (mean ± 1.645 sd) of the forecast that was made one step "
    "before each observation."
)
PARAMETERS = (
    "Line: posterior mean. Band: 90 % interval of a distribution with the posterior's mean and sd on the prior's "
    "support. Orange points: steps without an observation."
)


def series_page(worker: Worker, about: About | None, name: str, posteriors: Sequence[Posterior], query: Query) -> str:
    """Return the page of one series; there must be a posterior."""
    again = "30" if query.refresh == "0" else "0"
    words = "reload every 30 s" if query.refresh == "0" else "stop reloading"
    body = [
        f'<nav><a href="/">← all series</a><a href="?refresh={again}">{words}</a></nav>',
        heading(name, worker, about),
        _status(name, posteriors, about),
        *_forecasts(posteriors),
        *_parameters(posteriors, about),
        *_ess(posteriors, about),
    ]
    return frame(name, "".join(body), query.refresh)


def _status(name: str, posteriors: Sequence[Posterior], about: About | None) -> str:
    standing, last = standing_of(posteriors, about), posteriors[-1]
    data = f'<a href="/posterior/{quote(name, safe="")}?history">the figures as JSON</a>'
    words = f"{last.sequence:,} steps; the last was {html.escape(last.fate)}. ESS {ess_words(last, about)}. {data}."
    return f"<p>{badge(standing.kind, standing.words)} {words}</p>{_warnings(standing, len(posteriors))}"


def _warnings(standing: Standing, num_steps: int) -> str:
    if not standing.num_checks:
        return ""
    steps = f"the last {num_steps:,} steps" if num_steps > 1 else "the last step"
    count = len(standing.findings) or "none"
    title = f"paramfilter ran {standing.num_checks} checks on {steps}; {count} fired."
    return f"<p>{title}</p>{''.join(map(_warning, standing.findings))}"


def _warning(finding: Finding) -> str:
    code = finding.code
    sentences = (_sentence(finding.figures), _sentence(code.meaning), f"What to try: {' '.join(code.fixes)}")
    paragraphs = "".join(f"<p>{html.escape(one)}</p>" for one in sentences)
    return f"<details><summary>{code.code} {html.escape(code.title)}</summary>{paragraphs}</details>"


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _forecasts(posteriors: Sequence[Posterior]) -> Iterator[str]:
    names = [name.removeprefix("y:") for name in posteriors[-1].figures if name.startswith("y:")]
    if names:
        yield "<h2>Observations and one-step forecasts</h2>"
    for name in names:
        seen, mean, sd = (_column(posteriors, f"{part}:{name}") for part in ("y", "forecast_mean", "forecast_sd"))
        if not np.any(np.isfinite(mean)):
            yield f'<p class="note">No forecasts of {html.escape(name)} are stored.</p>'
            continue
        low, high = band_within(mean.tolist(), sd.tolist(), LINE)
        chart = Chart(f"observations of {name} and their forecasts", _times(posteriors), mean, low, high, seen)
        yield _card(name, f"forecast {mean[-1]:.3g} ± {sd[-1]:.3g}, observed {_number(seen[-1])}", chart)
    if names:
        yield f'<p class="note">{FORECASTS}</p>'


def _parameters(posteriors: Sequence[Posterior], about: About | None) -> Iterator[str]:
    yield "<h2>Parameters</h2>"
    missing = frozenset(one.sequence for one in posteriors if one.fate != Fate.APPLIED)
    for name in parameters_of(posteriors[-1].figures):
        mean, sd = (_column(posteriors, f"{part}:{name}") for part in ("mean", "sd"))
        low, high = band_within(mean.tolist(), sd.tolist(), LINE if about is None else about.bounds.get(name, LINE))
        chart = Chart(f"{name} over time", _times(posteriors), mean, low, high, marked=missing)
        yield _card(name, f"{mean[-1]:.3f} ± {sd[-1]:.3f}, 90 % in {low[-1]:.3f} to {high[-1]:.3f}", chart)
    yield f'<p class="note">{PARAMETERS}</p>'


def _ess(posteriors: Sequence[Posterior], about: About | None) -> Iterator[str]:
    if about is None or "ess" not in posteriors[-1].figures:
        return
    ess, limit = _column(posteriors, "ess"), low_ess_below(about)
    chart = Chart("ESS over time", _times(posteriors), ess, ess, ess, limit=limit, floor=0.0)
    yield f"<h2>Effective sample size</h2>{_card('ESS', f'{ess_words(posteriors[-1], about)}', chart)}"
    yield f'<p class="note">Dashed: {limit:g}. Below it means and intervals are noisy: increase the particles.</p>'


def _card(name: str, words: str, chart: Chart) -> str:
    title = f'<h3>{html.escape(name)} <span class="note">{html.escape(words)}</span></h3>'
    return f'<div class="card">{title}{draw(chart)}</div>'


def _column(posteriors: Sequence[Posterior], name: str) -> Float[np.ndarray, " time"]:
    return np.array([one.figures[name] for one in posteriors], float)


def _times(posteriors: Sequence[Posterior]) -> list[int]:
    return [one.sequence for one in posteriors]


def _number(value: float) -> str:
    return f"{value:.3g}" if math.isfinite(value) else "nothing"

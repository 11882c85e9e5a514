"""Our half: one fleet of node filters for all towns, online from the first week to the last.

    level'  = mean + RETURN (level - mean) + growth + N(0, level_sd^2)      log of the expected cases
    growth' = damping growth + N(0, growth_sd^2)                           an epidemic rises and falls for weeks
    cases   ~ negative binomial with mean FLOOR + exp(level + season)

Unknown are level_sd, growth_sd, damping and the concentration of the counts. The mean and the season, a wave of one
year, are parts of the state that hardly move, so each town's inner filters learn them. The form of the model was chosen
by the log score one week ahead on 48 towns that are not compared. All weeks are kept: with 128 of them, one of the 48
towns was lost after a surface (its outcome was flagged).
"""

from __future__ import annotations

import time
from functools import cache
from importlib.metadata import version
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import numpyro.distributions as dist

import paramfilter as pf
from benchmarks.measles.data import WEEKS_A_YEAR, compared_towns, load
from benchmarks.measles.distributions import LEVELS, Forecasts
from benchmarks.measles.results import keep
from benchmarks.measles.scores import FIRST_ORIGIN, NUM_HORIZONS, outcomes, score
from paramfilter.fleet.blocks import in_blocks
from paramfilter.nodes.advance import forecast_by_nodes, log_evidence_increment
from paramfilter.nodes.filter import NodeEngine
from paramfilter.nodes.loop import next_state

NUM_NODES, NUM_KEPT = 64, 1108
NUM_DRAWS = 256
NUM_HARMONICS = 1
RETURN, FLOOR = 0.97, 0.01
SLOW = 0.02
"""Weekly sd of the mean."""
STILL = 0.001
"""Weekly sd of the coefficients of the season."""


def seasons(num_weeks: int) -> np.ndarray:
    """Return sine and cosine of the year, (week, harmonic)."""
    angle = 2 * np.pi * np.arange(num_weeks) / WEEKS_A_YEAR
    waves = [wave(number * angle) for number in range(1, NUM_HARMONICS + 1) for wave in (np.cos, np.sin)]
    return np.stack(waves, axis=1).astype(np.float32)


@cache
def model() -> pf.StateSpaceModel:
    """Return the model of one town; the state is (level, growth, mean, coefficients of the season)."""
    size = 3 + 2 * NUM_HARMONICS
    first_sd = jnp.array([2.0, 0.1, 2.0] + [0.5] * (size - 3))

    def transition(theta, x, season):
        level = x[2] + RETURN * (x[0] - x[2]) + x[1]
        center = jnp.concatenate([jnp.stack([level, theta["damping"] * x[1]]), x[2:]])
        rest = jnp.array([SLOW] + [STILL] * (size - 3))
        sd = jnp.concatenate([jnp.stack([theta["level_sd"], theta["growth_sd"]]), rest])
        return dist.Normal(center, sd).to_event(1)

    def observation(theta, x, season):
        return dist.NegativeBinomial2(FLOOR + jnp.exp(x[0] + season @ x[3:]), theta["concentration"])

    return pf.StateSpaceModel(
        prior={
            "level_sd": dist.LogNormal(-1.5, 0.7),
            "growth_sd": dist.LogNormal(-2.0, 0.7),
            "damping": dist.Beta(8.0, 2.0),
            "concentration": dist.LogNormal(1.5, 1.0),
        },
        initial=lambda theta, season: dist.Normal(jnp.zeros(size), first_sd).to_event(1),
        transition=transition,
        observation=observation,
        name="measles",
        example_inputs=seasons(1)[0],
    )


@cache
def fleet() -> pf.Fleet:
    """Return the fleet; all calls share its compiled programs."""
    return pf.Fleet(pf.node_filter(model(), NUM_NODES, num_kept=NUM_KEPT))


def start(num_towns: int, prior: Any = None) -> pf.fleet.FleetState:
    """Start the filters of some towns."""
    first = np.broadcast_to(seasons(1)[0], (num_towns, 2 * NUM_HARMONICS))
    return fleet().init(jax.random.key(0), range(num_towns), inputs=first, prior=prior)


def look_ahead(state: Any, ys: jax.Array, season: jax.Array) -> tuple[jax.Array, ...]:
    """Return log probability, and probability below and up to, of the next counts of one town, given all until now.

    A forecast h weeks ahead is that of a filter which has seen h - 1 missing values: all nodes take part, and nothing
    is drawn.
    """
    engine = fleet().filter.engine
    assert isinstance(engine, NodeEngine)

    def one_week(branch, week):
        y, season = week
        seen, _ = next_state(engine, branch, y, season)
        forecast = forecast_by_nodes(engine, branch, y[None], season)
        moved, _ = next_state(engine, branch, jnp.full_like(y, jnp.nan), season)
        return moved, (log_evidence_increment(branch, seen), forecast.lower[0], forecast.upper[0])

    return jax.lax.scan(one_week, state, (ys, season))[1]


@cache
def compiled_look_ahead() -> Any:
    return jax.jit(lambda series, ys, season: in_blocks(look_ahead, series, ys, season))


def _padded(rows: np.ndarray, num_rows: int) -> np.ndarray:
    """Add rows for the spare ones of a fleet."""
    return np.concatenate([rows, np.zeros((num_rows - len(rows), *rows.shape[1:]))]).astype(np.float32)


def forecast(counts: np.ndarray, first_origin: int = FIRST_ORIGIN) -> tuple[Forecasts, dict[str, float]]:
    """Forecast after each week from the first origin on; return CPU seconds too, compiling apart."""
    num_towns, num_weeks = counts.shape
    told = seasons(num_weeks + NUM_HORIZONS)
    state, every = start(num_towns), outcomes(counts, first_origin)
    found, seconds = [], {"filter": 0.0, "scores": 0.0, "quantiles": 0.0}
    for week in range(num_weeks):
        if week >= first_origin:
            ahead = np.broadcast_to(told[week : week + NUM_HORIZONS], (num_towns, NUM_HORIZONS, 2 * NUM_HARMONICS))
            is_warm = week > first_origin
            began = time.process_time()
            given = [_padded(part, state.num_rows) for part in (every[:, week - first_origin], ahead)]
            said = [np.asarray(part)[:num_towns] for part in compiled_look_ahead()(state.series, *given)]
            seconds["scores"] += is_warm * (time.process_time() - began)
            began = time.process_time()
            drawn = fleet().predict(state, NUM_HORIZONS, inputs=ahead, num_draws=NUM_DRAWS, levels=tuple(LEVELS))
            seconds["quantiles"] += is_warm * (time.process_time() - began)
            found.append(Forecasts(np.moveaxis(drawn.quantiles, 0, -1), *said))
        began = time.process_time()
        now = np.broadcast_to(told[week], (num_towns, 2 * NUM_HARMONICS))
        state, _ = fleet().step(state, counts[:, week], inputs=now)
        jax.block_until_ready(state)
        seconds["filter"] += (week > 0) * (time.process_time() - began)
    return Forecasts(*(np.stack(part, axis=1) for part in zip(*found, strict=True))), seconds


def compare() -> None:
    """Forecast the compared towns, filter all towns, and keep scores and CPU seconds."""
    measles = load()
    towns = compared_towns(measles)
    said, seconds = forecast(measles.counts[towns])
    scores = score(said, outcomes(measles.counts[towns]), towns)
    num_weeks = measles.counts.shape[1]
    history = seconds["filter"] + seconds["scores"] + seconds["quantiles"]
    cpu_seconds = {"history": history, "one_more_week": history / num_weeks, "num_towns": len(towns), **seconds}
    settings = {"num_nodes": NUM_NODES, "num_kept": NUM_KEPT, "num_draws": NUM_DRAWS}
    versions = [f"paramfilter=={version('paramfilter')}", f"jax=={version('jax')}"]
    about = {"library": "paramfilter", "versions": versions, "settings": settings, "cpu_seconds": cpu_seconds}
    keep("paramfilter", towns, scores, **about)

"""A run as an xarray `DataTree` that ArviZ 1.x reads.

Groups, each with its own dimensions:

    posterior       (chain, draw)      theta now, equally weighted; one chain
    prior           (chain, draw)      theta before any data
    particles       (chain, particle)  theta and x of the particles, with `log_weight`
    filtered        (moment, time)     mean, sd, q05, q25, q50, q75, q95 of theta after each observation
    filtered_state  (moment, time)     the same of x
    one_step        (moment, time)     q05 to q95 of the forecast of each observation, made before it was seen
    filter_stats    (time)             ess, log_evidence_increment, outcome, ... of each step
    observed_data   (time)             y, if it is given; constant_data: the inputs
    predictions     (chain, draw, ahead)  a forecast, if one is given

ArviZ's ESS and MCSE are meant for Markov chains: draws are independent given the particles or nodes, so they say
nothing about how good those are.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.calendars import calendar_of, times_after
from paramfilter.data import Observations
from paramfilter.errors import extra
from paramfilter.filters import Filter, figures_of
from paramfilter.labels import PIT
from paramfilter.numerics.quantiles import LEVELS
from paramfilter.running import Forecast, History, Summary

EXTRA = "results"

QUANTILES = tuple(f"q{100 * level:02.0f}" for level in LEVELS)
MOMENTS = ("mean", "sd", *QUANTILES)
"""What `filtered` holds of each parameter, by name."""

NUM_PRIOR_DRAWS = 2000

DRAWING = np.uint32(2**32 - 2)
"""Folded into the filter's key for the draws of the tree: the keys of steps are folded in by time."""


def to_datatree(
    state: Any,
    history: History,
    data: Any = None,
    *,
    forecast: Forecast | None = None,
    num_draws: int = 1000,
) -> Any:
    """Put a run into an xarray `DataTree`.

    Args:
        state: The state after the last step of the history.
        history: What `run` recorded.
        data: The observations, as they were given to `run`: an array, or `Observations` with inputs and times.
        forecast: What `predict` drew from this state.
        num_draws: Posterior draws.
    """
    xarray = extra("xarray", EXTRA)
    filter = history.filter
    filter.engine.require_own(state)
    data = data if data is None or isinstance(data, Observations) else Observations(data)
    times = _times(state, history, data)
    posterior = filter.posterior(state)
    groups = {
        "posterior": _draws(filter, _one_chain(posterior.sample(_key(state), num_draws))),
        "prior": _draws(filter, _prior_draws(filter)),
        "particles": _particles(filter, state),
        "filtered": _moments(history.theta, times, _supports(filter)),
        "filtered_state": _moments(_named_state(history.x), times, {}),
        "one_step": _one_step(history.info.forecast, times, _labels(data)),
        "filter_stats": _stats(history, times),
    }
    if data is not None:
        groups["observed_data"] = _dataset(_of_observation(data.ys), ("time",), {"time": times}, _labels(data))
    if data is not None and data.inputs is not None:
        groups["constant_data"] = _dataset(named(data.inputs, "inputs"), ("time",), {"time": times})
    if forecast is not None:
        num_ahead = jax.tree.leaves(forecast.y)[0].shape[1]
        ahead = {"ahead": np.arange(1, 1 + num_ahead)}
        calendar = calendar_of(times, None if data is None else data.freq)
        if (coming := times_after(times, num_ahead, calendar)) is not None:
            ahead["time"] = ("ahead", coming)
        drawn = jax.tree.map(lambda leaf: leaf[None], _of_observation(forecast.y) | _of_state(forecast.x))
        groups["predictions"] = _dataset(drawn, ("chain", "draw", "ahead"), ahead, _labels(data))
    for name in ("posterior", "prior", "particles", "filtered"):
        groups[name] = _in_order(groups[name], filter.model.prior)
    tree = xarray.DataTree.from_dict(groups)
    tree.attrs = {"inference_library": "paramfilter"} | figures_of(filter, state, posterior.error_so_far())
    tree.attrs["counts_steps"] = int(data is None or data.times is None)  # for lack of times
    if data is not None:
        tree.attrs["num_missing"] = data.num_missing
    for name in ("posterior", "prior"):
        tree[name].attrs = {"inference_library": "paramfilter", "sample_dims": ["chain", "draw"]}
    return tree


def _in_order(dataset: Any, names: Iterable[str]) -> Any:
    """Put variables of these names first, in their order: what JAX returns is in that of the alphabet."""
    first = [name for name in names if name in dataset]
    return dataset[[*first, *(name for name in dataset.data_vars if name not in first)]]


def named(tree: Any, root: str) -> dict[str, Any]:
    """Give each leaf of a tree a name: its path, or `root` if it stands alone.

    >>> named({"level": 1, "slope": (2, 3)}, "x")
    {'level': 1, 'slope.0': 2, 'slope.1': 3}
    >>> named(4, "x")
    {'x': 4}
    """
    paths, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {jax.tree_util.keystr(path, simple=True, separator=".") or root: leaf for path, leaf in paths}


def _of_state(tree: Any) -> dict[str, Any]:
    return named(tree, "x")


def _of_observation(tree: Any) -> dict[str, Any]:
    return named(tree, "y")


def _key(state: Any) -> Any:
    return jax.random.fold_in(state.key, DRAWING)


def _times(state: Any, history: History, data: Observations | None) -> np.ndarray:
    """Return when each step was, as the data say it, or how many observations there had been."""
    if data is not None and data.times is not None:
        return data.times
    last = int(state.time)
    return np.arange(last - len(history) + 1, last + 1)


def _dataset(
    values: Mapping[str, Any],
    dims: tuple[str, ...],
    coords: Mapping[str, Any],
    attributes: Mapping[str, Mapping[str, Any]] | None = None,
) -> Any:
    """Label arrays: leading axes by `dims`, the others by the name and a number, as ArviZ does."""
    xarray = extra("xarray", EXTRA)
    variables = {}
    for name, leaf in values.items():
        leaf = np.asarray(leaf)
        own = tuple(f"{name}_dim_{axis}" for axis in range(leaf.ndim - len(dims)))
        variables[name] = (dims + own, leaf, dict((attributes or {}).get(name, {})))
    return xarray.Dataset(variables, dict(coords))


def _moments(summary: Summary, times: np.ndarray, supports: Mapping[str, Mapping[str, float]]) -> Any:
    stacked = {
        name: np.concatenate([np.stack([mean, summary.sd[name]]), np.moveaxis(summary.quantiles[name], 1, 0)])
        for name, mean in summary.mean.items()
    }
    return _dataset(stacked, ("moment", "time"), {"moment": list(MOMENTS), "time": times}, supports)


def _named_state(summary: Summary) -> Summary:
    return Summary(*map(_of_state, (summary.mean, summary.sd, summary.quantiles)))


def _one_step(quantiles: Any, times: np.ndarray, labels: Mapping[str, Mapping[str, Any]]) -> Any:
    values = {name: np.moveaxis(leaf, 1, 0) for name, leaf in _of_observation(quantiles).items()}
    return _dataset(values, ("moment", "time"), {"moment": list(QUANTILES), "time": times}, labels)


def _labels(data: Observations | None) -> dict[str, dict[str, Any]]:
    """Return the columns that observations came from, by the names of variables."""
    if data is None or data.columns is None:
        return {}
    paths, _ = jax.tree_util.tree_flatten_with_path(data.columns, is_leaf=lambda one: isinstance(one, list))
    name_of = lambda path: jax.tree_util.keystr(path, simple=True, separator=".") or "y"
    return {name_of(path): {"columns": [own] if isinstance(own, str) else own} for path, own in paths}


def _draws(filter: Filter, drawn: Mapping[str, Any]) -> Any:
    coords = {"chain": np.arange(1), "draw": np.arange(next(iter(drawn.values())).shape[1])}
    return _dataset(drawn, ("chain", "draw"), coords, _supports(filter))


def _prior_draws(filter: Filter) -> dict[str, Any]:
    z = filter.model.parameters.prior_draws[:NUM_PRIOR_DRAWS].astype(jnp.result_type(float))
    return _one_chain(filter.model.parameters.constrain_all(z))


def _one_chain(values: dict[str, Any]) -> dict[str, Any]:
    """Give arrays the axis of chains that ArviZ reads."""
    return jax.tree.map(lambda leaf: np.asarray(leaf)[None], values)


def _particles(filter: Filter, state: Any) -> Any:
    x, z, log_weights = filter.engine.particles(state)
    theta = filter.model.parameters.constrain_all(z)
    values = _one_chain({**_of_state(x), **theta, "log_weight": log_weights})
    return _dataset(values, ("chain", "particle"), {"chain": np.arange(1)})


def _stats(history: History, times: np.ndarray) -> Any:
    info = history.info
    own = [field.name for field in fields(info) if field.name not in ("forecast", "pit")]
    stats = _dataset({name: getattr(info, name) for name in own}, ("time",), {"time": times})
    ranks = {f"{PIT}{name}": leaf for name, leaf in _of_observation(info.pit).items()}
    return stats.merge(_dataset(ranks, ("time",), {}))


def _supports(filter: Filter) -> dict[str, dict[str, float]]:
    """Return the bounds of each parameter, for those who draw intervals."""
    bounds = {}
    for name, prior in filter.model.prior.items():
        low, high = getattr(prior.support, "lower_bound", -np.inf), getattr(prior.support, "upper_bound", np.inf)
        bounds[name] = {"lower": float(np.min(low)), "upper": float(np.max(high))}
    return bounds

"""The columns of a step: posterior moments, its score, and its forecast."""

from __future__ import annotations

from collections import Counter
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from paramfilter.distributions import ravel
from paramfilter.errors import ModelError
from paramfilter.filters import Engine, Filter, StepInfo

SCORES = {"log_score": "log_evidence_increment", "ess": "ess", "outcome": "outcome"}
"""Columns that are one number of a step's info."""

ERROR = {"nodes": "surface_error", "particles": "approximation_error"}
"""The column `error`, by what the filter has many of."""

FORECASTS = ("forecast_mean", "forecast_sd", "pit", "tail_probability")
"""Columns for each component of an observation; forecasts are made before the observation is used."""


def labels(name: str, tree: Any) -> list[str]:
    """Return a name for each number of a tree of arrays, which needs no quotes in SQL.

    >>> labels("y", jnp.zeros(2)), labels("state_mean", {"level": jnp.zeros(())})
    (['y_0', 'y_1'], ['state_mean_level'])
    """
    found = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(tree)[0]:
        stem = "_".join(filter(None, [name, jax.tree_util.keystr(path, simple=True, separator="_")]))
        found += ["_".join([stem, *map(str, place)]) for place in np.ndindex(leaf.shape)]
    return found


def columns_of(filter: Filter, forecasts: bool) -> list[str]:
    """Return the names of the numbers of one step."""
    state = jax.eval_shape(filter.init, jax.random.key(0), filter.model.example_inputs)
    theta, x = jax.eval_shape(filter.engine.moments, state).mean, jax.eval_shape(filter.engine.state_moments, state)[0]
    columns = [
        *(
            label
            for part in ("mean", "sd")
            for name in sorted(theta)
            for label in labels(f"{name}_{part}", theta[name])
        ),
        *(label for part in ("mean", "sd") for label in labels(f"state_{part}", x)),
        *SCORES,
        "error",
        *(label for part in FORECASTS if forecasts for label in labels(part, filter.engine.shapes.y)),
    ]
    twice = [name for name, count in Counter([*columns, "series", "seq", "fate", "y"]).items() if count > 1]
    if twice:
        raise ModelError(f"the outputs would have two columns {twice[0]!r}. Give the parameter another name.")
    return columns


def state_numbers(engine: Engine, state: Any) -> Float[Array, " column"]:
    """Return the first columns of `columns_of`, those that a state gives; inside a trace."""
    moments, (x, x_variance) = engine.moments(state), engine.state_moments(state)
    parts = [moments.mean, jax.tree.map(jnp.sqrt, moments.variance), x, jax.tree.map(jnp.sqrt, x_variance)]
    return ravel(parts).astype(jnp.result_type(float))


def numbers_of(
    engine: Engine, forecasts: bool, before: Any, y: Any, inputs: Any, after: Any, info: StepInfo
) -> Float[Array, " column"]:
    """Return the numbers of one step, in the order of `columns_of`; inside a trace.

    XLA leaves out what is not returned: without forecasts a step does not make them.
    """
    parts = [state_numbers(engine, after), *(getattr(info, name) for name in (*SCORES.values(), ERROR[engine.unit]))]
    if forecasts:
        parts += [*engine.forecast_moments(before, y, inputs), info.pit, info.tail_probability]
    return ravel(parts).astype(jnp.result_type(float))

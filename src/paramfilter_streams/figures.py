"""The figures that a worker stores for each step: posterior moments, diagnostics, the observation and its forecast.

They are one row of numbers with named columns. With them a page can draw a series and run the library's diagnostics on
its last steps without touching the states.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from paramfilter.distributions import ravel
from paramfilter.filters import Filter, StepInfo
from paramfilter.labels import components_of

OF_STEP = ("ess", "log_evidence_increment", "outcome", "approximation_error")
"""Fields of a step's info that are one number."""

OF_OBSERVATION = ("y", "forecast_mean", "forecast_sd", "pit", "tail_probability")
"""Stored for each component of an observation; forecasts are made before the observation is taken in."""

MOST_COMPONENTS = 8
"""Components of an observation whose figures are stored: an observation with hundreds would fill the store."""


def columns_of(filter: Filter) -> tuple[str, ...]:
    """Return the names of the figures of one step."""
    state = jax.eval_shape(filter.init, jax.random.key(0), filter.model.example_inputs)
    mean = jax.eval_shape(filter.moments, state).mean
    parameters = [str(one) for name, leaf in sorted(mean.items()) for one in components_of(name, leaf.shape)]
    observed = [str(one) for one in components_of("y", tuple(filter.shapes.y.shape))][:MOST_COMPONENTS]
    return (
        *(f"{part}:{name}" for part in ("mean", "sd") for name in parameters),
        *OF_STEP,
        *(f"{part}:{name}" for part in OF_OBSERVATION for name in observed),
    )


def figures_of(
    filter: Filter, forecasts: bool, before: Any, y: Array, inputs: Any, after: Any, info: StepInfo
) -> Float[Array, " column"]:
    """Return the figures of one step, in the order of `columns_of`; inside a trace.

    Without forecasts, their columns, the PIT and the tail probability are NaN. XLA then leaves the forecasts of the
    step out altogether, which saves about 35 μs a step.
    """
    moments = filter.moments(after)
    seen = ravel(y)
    foretold = [*filter.forecast_moments(before, y, inputs), ravel(info.pit), ravel(info.tail_probability)]
    observed = [seen, *(foretold if forecasts else [jnp.full_like(seen, jnp.nan)] * len(foretold))]
    parts = [
        *jax.tree.leaves(moments.mean),  # sorted by name, as the columns are
        *map(jnp.sqrt, jax.tree.leaves(moments.variance)),
        *(getattr(info, name) for name in OF_STEP),
        *(part[:MOST_COMPONENTS] for part in observed),
    ]
    return jnp.concatenate([jnp.ravel(part).astype(float) for part in parts])

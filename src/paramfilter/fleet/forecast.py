"""Forecasts of all series of a fleet: draws of the future, summarized series by series."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Float, PyTree

from paramfilter.filters import Engine
from paramfilter.fleet.blocks import in_blocks
from paramfilter.running import futures
from paramfilter.types import Inputs, Numbers

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
PREDICTING = 2_000_000_011
"""Folded into a series' key: beyond all times, so that no draw of the filter is repeated."""


@jax.tree_util.register_dataclass
@dataclass(frozen=True)
class FleetForecast:
    """The forecast of each series, from draws of theta, the state and the observations.

    Attributes:
        mean: Means, with leading axes (series, horizon).
        sd: Standard deviations, with the same axes.
        quantiles: Quantiles, with leading axes (level, series, horizon).
        levels: Their levels.
    """

    mean: PyTree
    sd: PyTree
    quantiles: PyTree
    levels: Float[Numbers, "*row level"]

    def __repr__(self) -> str:
        num_series, horizon = np.shape(jax.tree.leaves(self.mean)[0])[:2]
        return f"FleetForecast({num_series} series, {horizon} steps ahead)"


@dataclass(frozen=True)
class Task:
    """What is asked of a forecast: how many steps ahead, by how many draws, at which levels."""

    horizon: int
    num_draws: int
    levels: tuple[float, ...]

    def rows(self, engine: Engine, series: Any, inputs: Inputs) -> FleetForecast:
        """Forecast each row; inside a trace. Levels and quantiles have a leading axis of rows."""
        levels = np.asarray(self.levels, jnp.result_type(float))

        def one(state, inputs):
            key = jax.random.fold_in(jax.random.fold_in(state.key, PREDICTING), state.time)
            key_choose, key_future = jax.random.split(key)
            keys = jax.random.split(key_future, self.num_draws)
            y = futures(engine, state, key_choose, keys, np.arange(self.horizon), inputs).y
            y = jax.tree.map(lambda leaf: leaf.astype(float), y)
            mean, sd = (jax.tree.map(lambda leaf, part=part: part(leaf, axis=0), y) for part in (jnp.mean, jnp.std))
            quantiles = jax.tree.map(lambda leaf: jnp.quantile(leaf, levels, axis=0), y)
            return FleetForecast(mean, sd, quantiles, jnp.asarray(levels))

        return in_blocks(one, series, inputs)

"""What each component contributes at present: the mean and the standard deviation of its part of eta.

A contribution is w'x_t with known weights w. Its mean is w' E x_t, and its variance is w' C w. The filter has the means
and variances of x_t. Draws give the correlations, which a contribution of several numbers, such as harmonics, needs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from paramfilter.arguments import require_kind
from paramfilter.errors import ArgumentError
from paramfilter.filters import Engine, Filter
from paramfilter.structural.building import StructuralModel
from paramfilter.types import Inputs, KeyArray

NUM_DRAWS = 2048
"""For correlations: their standard error is at most 0.02."""
PREDICTOR = "predictor"


@dataclass(frozen=True)
class Decomposition:
    """Mean and standard deviation of each component's contribution, by name.

    Attributes:
        mean: E[w'x_t | y_1..y_t] by the name of the component. "predictor" is the sum of all contributions. Slopes
            ("trend") and coefficients ("regression[rain]") are listed too; they are not contributions.
        sd: The standard deviations.
    """

    mean: Mapping[str, float]
    sd: Mapping[str, float]

    def __repr__(self) -> str:
        lines = (f"{name} = {self.mean[name]:.4g} +- {self.sd[name]:.2g}" for name in self.mean)
        return f"Decomposition({', '.join(lines)})"


def decompose(filter: Filter, state: Any, inputs: Inputs = None) -> Decomposition:
    """Return the contribution of each component at the present time, from the filtered state.

    Args:
        filter: A filter for a model that `structural.model` made.
        state: Its current state.
        inputs: Inputs of the present step; None if the model reads none.

    Returns:
        A `Decomposition` with two dicts, `mean` and `sd`. For counts, they are on the log scale.

    Example:
        >>> import jax, paramfilter as pf
        >>> st = pf.structural
        >>> filter = pf.auto_filter(st.model(st.local_linear_trend() + st.seasonal(4)), 64)
        >>> found = st.decompose(filter, filter.init(jax.random.key(0)))
        >>> list(found.mean), round(found.sd["level"], 3)
        (['level', 'trend', 'seasonal', 'predictor'], 5.0)
    """
    require_kind(filter, Filter, "filter", "The call is decompose(filter, state).")
    model = filter.model
    if not isinstance(model, StructuralModel):
        raise ArgumentError(
            f"decompose needs a filter for a structural model, but {model.name} has no components. Make the model with "
            "pf.structural.model(components, observation)."
        )
    posterior = filter.posterior(state)
    mean, sd = (np.asarray(found, np.float64) for found in (posterior.state_mean(), posterior.state_sd()))
    keys = jax.random.split(jax.random.key(0), NUM_DRAWS + 1)
    correlations = np.asarray(filter.engine.compiled(_correlations)(state, keys[0], keys[1:]), np.float64)
    rows = _rows(model, inputs)
    variances = {name: (row * sd) @ correlations @ (row * sd) for name, row in rows.items()}
    return Decomposition(
        {name: float(row @ mean) for name, row in rows.items()},
        {name: float(np.sqrt(variance)) for name, variance in variances.items()},
    )


def _rows(model: StructuralModel, inputs: Inputs) -> dict[str, Float[np.ndarray, " state"]]:
    """Return w of each contribution, slope and coefficient, and of the sum."""
    named, unit = model.named(inputs), np.eye(len(model.states))
    rows, total = {}, np.zeros(len(unit))
    for part, own in model.blocks(unit):
        rows[part.name] = np.asarray(part.row(named)) @ own
        rows |= {label: own[part.states.index(label)] for label in part.reports}
        total += rows[part.name]
    return rows | {PREDICTOR: total}


def _correlations(engine: Engine, state: Any, key: KeyArray, keys: Key[Array, " draw"]) -> Float[Array, "state state"]:
    """Return the correlations of the state's numbers over draws; those of a number without variance are zero."""
    x, _ = engine.draw_joint(state, key, keys)
    apart = x - jnp.mean(x, axis=0)
    sd = jnp.sqrt(jnp.mean(apart**2, axis=0))
    scaled = apart / jnp.where(sd > 0, sd, 1.0)
    return jnp.where(jnp.eye(len(sd), dtype=bool), 1.0, scaled.T @ scaled / len(scaled))

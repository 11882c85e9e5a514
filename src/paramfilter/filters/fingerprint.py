"""What tells one filter from another, as a short text that a state carries with it.

Names and sizes alone would let a changed constant pass. So the fingerprint also holds the values of the model's own
log densities at a few fixed points: a model that behaves the same is the same, whatever its code looks like.
"""

from __future__ import annotations

import json
import re
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paramfilter.inspect.dependence import probe_data
from paramfilter.model import StateSpaceModel

NUM_PROBES = 4

TOLERANCE = 1e-3
"""Change of a log density, relative and in nats, that counts as another model; rounding is far below it."""

BEHAVIOUR = "log densities at probe points"


def model_fingerprint(model: StateSpaceModel, sizes: dict[str, Any]) -> dict[str, Any]:
    """Return what tells a model, and the precision it is run in, from another; in the order in which it is compared."""
    return {
        "model": model.name,
        "parameters": list(model.parameters.names),
        "coordinates": model.parameters.coordinate_names,
        **sizes,
        "precision": str(jnp.result_type(float)),
        BEHAVIOUR: _probe_values(model),
    }


def settings_of(**parts: Any) -> dict[str, str]:
    """Return parts as texts that are the same in every process: a function in a part has its name, not its address."""
    return {name: re.sub(r" at 0x[0-9a-f]+", "", repr(part)) for name, part in parts.items()}


def first_difference(saved: str, own: str) -> str | None:
    """Say in words where two fingerprints differ, or return None if they are of the same filter."""
    if saved == own:
        return None
    first, second = json.loads(saved), json.loads(own)
    for name, value in second.items():
        found = first.get(name)
        if name != BEHAVIOUR and found != value:
            return f"{name}: {found!r} there, {value!r} here"
        if name == BEHAVIOUR and not _is_close(found, value):
            return "the model's log densities at the same points: a constant or a formula is not the same"
    return None


def _is_close(first: Any, second: list[float]) -> bool:
    return np.shape(first) == np.shape(second) and np.allclose(first, second, TOLERANCE, TOLERANCE, equal_nan=True)


def _probe_values(model: StateSpaceModel) -> list[float]:
    def one(z, datum):
        theta = model.parameters.constrain(z)
        return jnp.stack(
            [
                model.parameters.log_prior(z),
                model.initial_log_prob(theta, datum.x_prev, datum.inputs),
                model.transition_log_prob(theta, datum.x_prev, datum.x, datum.inputs),
                model.observation_log_prob(theta, datum.x, datum.y, datum.inputs),
            ]
        )

    values = jax.jit(jax.vmap(one))(*probe_data(model, NUM_PROBES))
    return [round(float(value), 6) for value in np.ravel(values)]
